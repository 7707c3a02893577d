//! Flame graphs.

use std::io::{self, Write as _};

use inferno::flamegraph::{self, Options, color};

use crate::folded::Folded;

const WIDTH_PIXELS: usize = 1200;

/// Draws stacks. The width of a frame is its share of the samples.
///
/// # Errors
/// There are no samples.
pub fn svg(title: &str, folded: &Folded) -> io::Result<Vec<u8>> {
    let lines: Vec<String> = folded.iter().map(|(stack, n)| format!("{stack} {n}")).collect();
    draw(title, "lowest: what the threads do or wait for", &lines, color::BasicPalette::Aqua)
}

/// Draws the difference: the width is the share in `after`, red is more than in `before`, blue
/// less.
///
/// # Errors
/// There are no samples.
pub fn difference_svg(title: &str, before: &Folded, after: &Folded) -> io::Result<Vec<u8>> {
    // Counts per million samples, so that runs of different length can be compared.
    let scale = |folded: &Folded, stack: &String| -> u64 {
        let total: u64 = folded.values().sum();
        let count = folded.get(stack).copied().unwrap_or(0);
        (u128::from(count) * 1_000_000).checked_div(u128::from(total)).unwrap_or(0) as u64
    };
    let mut stacks: Vec<&String> = before.keys().chain(after.keys()).collect();
    stacks.sort_unstable();
    stacks.dedup();
    let line = |stack| format!("{stack} {} {}", scale(before, stack), scale(after, stack));
    let lines: Vec<String> = stacks.into_iter().map(line).collect();
    let subtitle = "width: after; red: more than before, blue: less";
    draw(title, subtitle, &lines, color::BasicPalette::Red)
}

fn draw(
    title: &str,
    subtitle: &str,
    lines: &[String],
    palette: color::BasicPalette,
) -> io::Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned());
    options.count_name = "samples".to_owned();
    options.colors = color::Palette::Basic(palette);
    options.hash = true;
    // Without a width it uses that of its window, which differs from the visible width inside a
    // page.
    options.image_width = Some(WIDTH_PIXELS);
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)?;
    svg.flush()?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(lines: &[(&str, u64)]) -> Folded {
        lines.iter().map(|(stack, count)| ((*stack).to_owned(), *count)).collect()
    }

    #[test]
    fn functions_are_in_the_picture() {
        let picture = svg("a & b", &folded(&[("main;work<T>", 3), ("main;wait", 1)]));
        let picture = String::from_utf8(picture.expect("a picture")).expect("text");
        assert!(picture.contains("<svg") && picture.contains("work&lt;T&gt; (3 samples, 75.00%)"));
        assert!(picture.contains("a &amp; b"));
    }

    #[test]
    fn a_difference_does_not_depend_on_the_length_of_the_runs() {
        let before = folded(&[("main;a", 10), ("main;b", 10)]);
        let after = folded(&[("main;a", 100), ("main;c", 100)]);
        let picture = difference_svg("d", &before, &after).expect("a picture");
        let picture = String::from_utf8(picture).expect("text");
        assert!(picture.contains("c (500,000 samples, 50.00%; +50.00%)"), "{picture}");
        assert!(picture.contains("a (500,000 samples, 50.00%; 0.00%)"), "{picture}");
    }
}
