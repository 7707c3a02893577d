//! Searches for texts, with a scan before the query and without.

use std::error::Error;
use std::time::Duration;

use tacho_query::{Cancel, Needle, Pool, Prescan, Request};
use tacho_store::Snapshot;

use crate::{BEGIN_US, DAY_US, HOUR_US, Question, found};

/// The time of the newest 100 records that a search finds: the first query of a page, with a scan
/// before it or without.
fn searched(
    snapshot: &Snapshot,
    (from_us, to_us): (i64, i64),
    search: &str,
    is_scanned: bool,
) -> Result<Vec<Request>, Box<dyn Error>> {
    let search = tacho_search::parse(search)?;
    let needle = |it: tacho_search::Needle| Needle {
        columns: it.columns.iter().map(|&column| column.to_owned()).collect(),
        text: it.text,
    };
    let any: Vec<Needle> = search.needles().unwrap_or_default().into_iter().map(needle).collect();
    let sql = format!(
        "SELECT min(ts), max(ts) FROM (SELECT ts FROM records WHERE \
         ts >= make_timestamptz({from_us}) AND ts < make_timestamptz({to_us}) AND {} \
         ORDER BY ts DESC LIMIT 101)",
        search.condition()
    );
    let files = snapshot.files(from_us, to_us).into_iter().map(Into::into).collect();
    let prescan = is_scanned.then_some(Prescan { any, from_us, to_us });
    Ok(vec![Request { sql, files, prescan, ..Request::default() }])
}

/// Searches for texts in a day, each without and with a scan before it, and once more with what is
/// known from the scan. `code`: a literal of one record.
pub fn searches(
    snapshot: &Snapshot,
    days: i64,
    code: &str,
) -> Result<Vec<Question>, Box<dyn Error>> {
    let end = BEGIN_US as i64 + days * DAY_US;
    let (day, hour) = ((end - DAY_US, end), (end - 5 * HOUR_US as i64, end - 4 * HOUR_US as i64));
    let mut all = Vec::new();
    for (name, range, text) in [
        ("a literal in one hour", hour, "x0badc0de"),
        ("a literal in a day", day, "x0badc0de"),
        ("an address in a day", day, "\"nowhere@example.net\""),
        ("a number in a day", day, "\"id = 99999999\""),
        ("a literal of one record in a day", day, code),
        ("a literal of a few records in a day", day, "x0badc"),
        ("a literal of 1 in 65,536 records in a day", day, "x0bad"),
        ("a literal of 1 in 4,096 records in a day", day, "x0ba"),
        ("a word of all records in a day", day, "select"),
    ] {
        let of = |name, is_scanned| {
            let requests = searched(snapshot, range, text, is_scanned)?;
            Ok::<_, Box<dyn Error>>(Question { name, requests })
        };
        all.extend([of(name, false)?, of("  scanned before", true)?, of("  scanned again", true)?]);
    }
    Ok(all)
}

/// The literal `code` of a record in the middle of the last day.
pub fn code_of_one(pool: &Pool, snapshot: &Snapshot, days: i64) -> Result<String, Box<dyn Error>> {
    let from_us = BEGIN_US as i64 + days * DAY_US - DAY_US / 2;
    let mut request = found(snapshot, (from_us, from_us + 60_000_000), "true", "LIMIT 1");
    request.sql = request.sql.replace('*', "split_part(sql, '''', 2)");
    let request =
        Request { max_rows: 1, max_bytes: 1 << 20, timeout: Duration::from_secs(300), ..request };
    let answer = pool.fetch(&request, &Cancel::default())?;
    let code = answer.rows.first().and_then(|row| row.first()).and_then(|it| it.as_str());
    Ok(code.ok_or("no record in the middle of the day")?.to_owned())
}
