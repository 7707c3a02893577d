//! A report as a table for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_width::UnicodeWidthStr as _;

use super::answer::{Answer, Cell, Shown};
use crate::tail::sanitize::push_sanitized;
use crate::tail::table::took;

/// What an empty text is shown as.
const NONE: &str = "-";

/// Widest column but the last one, if the table has a width.
const COLUMNS_MAX: usize = 40;

/// So much of a digest is shown: enough for `--digest`.
const DIGEST_CHARS: usize = "1:0123456789ab".len();

/// The last column gets at least this much.
const LAST_COLUMNS_MIN: usize = 16;

/// A cell as text, and whether it belongs to the right.
fn shown(cell: &Cell, zone: &TimeZone) -> (String, bool) {
    let text = match cell {
        Cell::Missing => return (NONE.to_owned(), true),
        Cell::Text(text) | Cell::Digest(text) if text.is_empty() => {
            return (NONE.to_owned(), false);
        }
        Cell::Text(text) => text,
        Cell::Digest(text) => &text.chars().take(DIGEST_CHARS).collect(),
        Cell::Number(number) => return (number.to_string(), true),
        Cell::Duration(us) => return (took(*us), true),
        Cell::Time(us) => &time(*us, zone),
    };
    let mut sanitized = String::new();
    push_sanitized(&mut sanitized, text, None);
    (sanitized, false)
}

/// A moment, to the second.
fn time(us: i64, zone: &TimeZone) -> String {
    let Ok(ts) = Timestamp::from_microsecond(us) else { return NONE.to_owned() };
    ts.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The table, with its header. `width`: of a terminal.
pub fn format(answer: &Answer, width: Option<usize>, zone: &TimeZone) -> String {
    let used: Vec<usize> = (0..answer.columns.len())
        .filter(|index| answer.columns[*index].shown != Shown::Data)
        .collect();
    let rows: Vec<Vec<(String, bool)>> = answer
        .rows
        .iter()
        .map(|row| used.iter().map(|index| shown(&row[*index], zone)).collect())
        .collect();
    let last = used.len().saturating_sub(1);
    let widths: Vec<usize> = used
        .iter()
        .enumerate()
        .map(|(at, index)| {
            let header = answer.columns[*index].header.width();
            let widest = rows.iter().map(|row| row[at].0.width()).fold(header, usize::max);
            match width {
                Some(_) if at < last => widest.min(COLUMNS_MAX),
                _ => widest,
            }
        })
        .collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = (&str, bool)>| {
        let (start, mut before) = (text.len(), 0);
        for (at, (cell, is_right)) in cells.enumerate() {
            let room = match width {
                Some(width) if at == last => width.saturating_sub(before).max(LAST_COLUMNS_MIN),
                _ => widths[at],
            };
            let fill = widths[at].saturating_sub(cell.width());
            if is_right {
                text.extend(std::iter::repeat_n(' ', fill));
            }
            push_sanitized(&mut text, cell, (!is_right).then_some(room));
            if !is_right {
                text.extend(std::iter::repeat_n(' ', fill));
            }
            text.push_str("  ");
            before += widths[at] + 2;
        }
        text.truncate(start + text[start..].trim_end_matches(' ').len());
        text.push('\n');
    };
    // A header is where the values of its column are.
    let is_right = |at: usize| rows.iter().any(|row| row[at].1 && row[at].0 != NONE);
    let headers = used.iter().enumerate();
    line(&mut headers.map(|(at, index)| (answer.columns[*index].header, is_right(at))));
    for row in &rows {
        line(&mut row.iter().map(|(cell, is_right)| (cell.as_str(), *is_right)));
    }
    text
}
