//! Parameters that the requests about records share: `from`, `to`, `server`, `q`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Query as UrlQuery};
use axum::http::StatusCode;
use axum::http::request::Parts;
use jiff::Timestamp;
use tacho_query::{Needle, Prescan, Request, Times, literal};
use tacho_search::Search;
use tacho_store::{Snapshot, Store};

use super::audited::Note;
use super::{ApiError, Caller};
use crate::clock::now_us;
use crate::index::view::View;
use crate::state::AppState;

/// How long a query of the API may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Rows and bytes of the answers that the hub itself asks for.
const ROWS_MAX: u64 = 100_000;
pub(super) const BYTES_MAX: u64 = 64 << 20;
/// Digests that a search for their text may find.
const DIGESTS_MAX: usize = 20_000;

/// A request about records: parameters, caller, and one state of the index for all its queries.
pub struct Filter {
    /// All parameters, for those that only some requests have.
    pub parameters: Vec<(String, String)>,
    /// The first instant, µs since 1970.
    pub from_us: Option<i64>,
    /// The end, µs since 1970, not included.
    pub to_us: Option<i64>,
    /// These servers; empty: all.
    pub servers: Vec<String>,
    /// The search.
    pub search: Search,
    /// The record of the request.
    pub note: Note,
    /// The caller.
    pub caller: Caller,
    /// The part of the records that is visible to them.
    pub view: View,
    /// The state of the index.
    pub snapshot: Arc<Snapshot>,
}

impl FromRequestParts<AppState> for Filter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        caller.may_search()?;
        let parameters = UrlQuery::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| ApiError::bad_request(error.to_string()))?
            .0;
        let Ok(note) = Note::from_request_parts(parts, state).await;
        note.text(value(&parameters, "q").unwrap_or_default());
        let snapshot = Arc::new(state.index.store().snapshot());
        let mut filter = Self::new(parameters, note, caller, snapshot)?;
        // The dictionary is at least as new as the snapshot.
        filter.look_up(state.index.store()).await?;
        Ok(filter)
    }
}

impl Filter {
    fn new(
        parameters: Vec<(String, String)>,
        note: Note,
        caller: Caller,
        snapshot: Arc<Snapshot>,
    ) -> Result<Self, ApiError> {
        let now = now_us();
        let time = |name: &str| {
            let text = value(&parameters, name);
            text.map(|text| parse_time(text, now).ok_or_else(|| bad_time(name, text))).transpose()
        };
        let (from_us, to_us) = (time("from")?, time("to")?);
        let servers = parameters.iter().filter(|(name, _)| name == "server");
        let servers = servers.map(|(_, server)| server.clone()).collect();
        let search = parse_search(value(&parameters, "q").unwrap_or_default())?;
        let view = View::of(&caller);
        Ok(Self { parameters, from_us, to_us, servers, search, note, caller, view, snapshot })
    }

    /// Finds the digests of `digest_text` in the dictionary as it is now.
    ///
    /// # Errors
    /// There are too many, or the dictionary cannot be read.
    pub async fn look_up(&mut self, store: &Store) -> Result<(), ApiError> {
        let mut search = parse_search(self.value("q").unwrap_or_default())?;
        if !search.needs_look_up() {
            return Ok(());
        }
        let store = store.clone();
        let find = move || {
            search.look_up(|pattern| {
                let found = store.digests_like(|text| pattern.is_in(text), DIGESTS_MAX + 1);
                let found = found.map_err(|error| ApiError::internal(&error))?;
                match found.len() > DIGESTS_MAX {
                    true => Err(too_many_digests()),
                    false => Ok(found),
                }
            })?;
            Ok::<Search, ApiError>(search)
        };
        let found = tokio::task::spawn_blocking(find).await;
        self.search = found.map_err(|error| ApiError::internal(&error))??;
        Ok(())
    }

    /// Another parameter.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        value(&self.parameters, name)
    }

    /// A number between 1 and `max`; `default` if it is not there.
    ///
    /// # Errors
    /// It is not a number, or out of range.
    pub fn number(&self, name: &str, default: u64, max: u64) -> Result<u64, ApiError> {
        let Some(text) = self.value(name) else { return Ok(default) };
        match text.parse() {
            Ok(number @ 1..) if number <= max => Ok(number),
            _ => Err(ApiError::bad_request(format!("{name} is a number from 1 to {max}"))),
        }
    }

    /// The condition that the rows meet.
    #[must_use]
    pub fn condition(&self) -> String {
        condition(self.from_us, self.to_us, &self.servers, &self.search)
    }

    /// The same without the time range.
    #[must_use]
    pub fn condition_without_time(&self) -> String {
        condition(None, None, &self.servers, &self.search)
    }

    /// The same range, both ends known: where a parameter is missing, that of all records.
    #[must_use]
    pub fn range(&self) -> (i64, i64) {
        let segments = || self.snapshot.segments();
        let first = || segments().map(|segment| segment.min_ts_us).min();
        let last = || segments().map(|segment| segment.max_ts_us).max();
        let from_us = self.from_us.or_else(first).unwrap_or(0);
        let to_us = self.to_us.or_else(|| last().map(|us| us.saturating_add(1)));
        (from_us, to_us.unwrap_or(0).max(from_us.saturating_add(1)))
    }

    /// A query over the view of the caller. Only segments of the time range are read.
    #[must_use]
    pub fn request(&self, sql: String) -> Request {
        let from_us = self.from_us.unwrap_or(i64::MIN);
        self.request_of(sql, from_us, self.to_us.unwrap_or(i64::MAX))
    }

    /// The same for another range.
    #[must_use]
    pub fn request_of(&self, sql: String, from_us: i64, to_us: i64) -> Request {
        let files = self.snapshot.files(from_us, to_us).into_iter().map(Into::into).collect();
        Request {
            sql,
            files,
            columns: self.view.columns.clone(),
            filter: self.view.filter.clone(),
            times: Times::Micros,
            max_rows: ROWS_MAX,
            max_bytes: BYTES_MAX,
            timeout: TIMEOUT,
            ..Request::default()
        }
    }

    /// The same for a query whose rows all meet the search and lie in the range. It reads only
    /// parts that can have the texts of the search.
    #[must_use]
    pub fn search_of(&self, sql: String, from_us: i64, to_us: i64) -> Request {
        let prescan = self.prescan(from_us, to_us);
        Request { prescan, ..self.request_of(sql, from_us, to_us) }
    }

    fn prescan(&self, from_us: i64, to_us: i64) -> Option<Prescan> {
        // How long an answer takes must not say what is in records that the caller may not see.
        if self.view.columns.is_some() || self.view.filter.is_some() {
            return None;
        }
        let needles = self.search.needles()?.into_iter().map(|needle| Needle {
            columns: needle.columns.iter().map(|&column| column.to_owned()).collect(),
            text: needle.text,
        });
        Some(Prescan { any: needles.collect(), from_us, to_us })
    }
}

fn too_many_digests() -> ApiError {
    let message = format!("more than {DIGESTS_MAX} statements are like digest_text: say more");
    ApiError::bad_request(message)
}

/// The condition of a time range, servers (empty: all) and a search.
#[must_use]
pub fn condition(
    from_us: Option<i64>,
    to_us: Option<i64>,
    servers: &[String],
    search: &Search,
) -> String {
    let mut parts = Vec::new();
    parts.extend(from_us.map(|us| format!("ts >= {}", sql_time(us))));
    parts.extend(to_us.map(|us| format!("ts < {}", sql_time(us))));
    if !servers.is_empty() {
        let names: Vec<String> = servers.iter().map(|name| literal(name)).collect();
        parts.push(format!("\"server\" IN ({})", names.join(", ")));
    }
    if search.expr.is_some() {
        parts.push(format!("({})", search.condition()));
    }
    if parts.is_empty() { "true".to_owned() } else { parts.join(" AND ") }
}

fn value<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = parameters.iter().find(|(key, value)| key == name && !value.is_empty());
    found.map(|(_, value)| &**value)
}

fn bad_time(name: &str, text: &str) -> ApiError {
    let message = format!(
        "{name}: {text:?} is not a time; use RFC 3339, now, or a time before now such as -15m"
    );
    ApiError::bad_request(message)
}

/// Reads a search; an error has its place.
///
/// # Errors
/// `search`, with `position`, `length` and `expected`.
pub fn parse_search(text: &str) -> Result<Search, ApiError> {
    tacho_search::parse(text).map_err(|error| {
        ApiError::other(StatusCode::BAD_REQUEST, "search", error.message)
            .with("position", error.position)
            .with("length", error.length)
            .with("expected", error.expected)
    })
}

/// A time: RFC 3339, `now`, or one relative to it: `-90s`, `-15m`, `-2h`, `-7d`, `-1w`.
#[must_use]
pub fn parse_time(text: &str, now_us: i64) -> Option<i64> {
    if text == "now" {
        return Some(now_us);
    }
    if let Some(relative) = text.strip_prefix('-') {
        let unit = relative.chars().next_back()?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        let count: i64 = relative.strip_suffix(unit)?.parse().ok()?;
        return now_us.checked_sub(count.checked_mul(seconds * 1_000_000)?);
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_microsecond)
}

/// A time as a literal of SQL.
#[must_use]
pub fn sql_time(time_us: i64) -> String {
    format!("make_timestamptz({time_us})")
}

/// A time as the API writes it.
#[must_use]
pub fn text_time(time_us: i64) -> String {
    match Timestamp::from_microsecond(time_us) {
        Ok(time) => format!("{time:.6}"),
        Err(_) => time_us.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_or_relative() {
        let now = 1_795_222_923_123_456;
        assert_eq!(parse_time("now", now), Some(now));
        assert_eq!(parse_time("-15m", now), Some(now - 900_000_000));
        assert_eq!(parse_time("2026-11-21T01:02:03.123456Z", 0), Some(now));
        for bad in ["", "-", "-m", "-5x", "yesterday", "-99999999999999d", "2026-11-21"] {
            assert_eq!(parse_time(bad, now), None, "{bad}");
        }
        assert_eq!(text_time(now), "2026-11-21T01:02:03.123456Z");
    }
}
