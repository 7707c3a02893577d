//! Records what is asked, by whom, before the answer is sent.
//!
//! A question is recorded with its text and the status of its answer. One that a page repeats is
//! recorded once for each session and [`WINDOW`](crate::audit::repeats::WINDOW), if nothing about
//! it has changed. Of all other requests only refusals are recorded here; sign-ins and
//! changes are recorded where they happen.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::caller::bearer;
use super::error::Message;
use super::session::peer_of;
use super::{ApiError, Caller};
use crate::audit::repeats::Key;
use crate::audit::{Entry, Kind, RequestSource};
use crate::state::AppState;

/// Longest name of a client's program, characters.
const PROGRAM_MAX: usize = 200;

/// What is asked at a path.
struct Question {
    path: &'static str,
    command: &'static str,
    /// Pages ask it again and again.
    is_polled: bool,
}

const fn asked(path: &'static str, command: &'static str, is_polled: bool) -> Question {
    Question { path, command, is_polled }
}

const QUESTIONS: [Question; 9] = [
    asked("/api/v1/records", "Search", true),
    asked("/api/v1/records/{server}/{seq}", "Record", false),
    asked("/api/v1/tail", "Tail", true),
    asked("/api/v1/histogram", "Histogram", true),
    asked("/api/v1/facets", "Facets", true),
    asked("/api/v1/top", "Top", true),
    asked("/api/v1/overview", "Overview", true),
    asked("/api/v1/sql", "SQL", false),
    asked("/api/v1/export", "Export", false),
];

/// What a handler adds to the record of its request.
#[derive(Clone, Default)]
pub struct Note(Arc<Mutex<Noted>>);

#[derive(Clone, Default)]
struct Noted {
    text: Option<String>,
    rows: Option<u64>,
    is_export: bool,
}

impl Note {
    /// The text of the question.
    pub fn text(&self, text: &str) {
        self.change(|noted| noted.text = Some(text.to_owned()));
    }

    /// How many records or rows the answer has.
    pub fn rows(&self, rows: usize) {
        self.change(|noted| noted.rows = Some(rows as u64));
    }

    /// The answer is a file to take away.
    pub fn export(&self) {
        self.change(|noted| noted.is_export = true);
    }

    fn change(&self, change: impl FnOnce(&mut Noted)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn noted(&self) -> Noted {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<S: Sync> FromRequestParts<S> for Note {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// Where a request comes from, without its session.
#[must_use]
pub fn source_of(parts: &Parts) -> RequestSource {
    RequestSource {
        ip: peer_of(&parts.extensions),
        program: program_of(&parts.headers),
        ..RequestSource::default()
    }
}

/// The name that the client's program gives itself.
#[must_use]
pub fn program_of(headers: &HeaderMap) -> String {
    let value = headers.get(header::USER_AGENT).map(|value| value.as_bytes());
    String::from_utf8_lossy(value.unwrap_or_default()).chars().take(PROGRAM_MAX).collect()
}

/// The layer: answers a request, and records it.
pub async fn record(
    State(state): State<AppState>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let question = QUESTIONS.iter().find(|question| question.path == path.as_str());
    if question.is_some()
        && let Err(error) = state.audit.ready()
    {
        return ApiError::from(error).into_response();
    }
    let (mut parts, body) = request.into_parts();
    let note = Note::default();
    parts.extensions.insert(note.clone());
    let caller = Caller::from_request_parts(&mut parts, &state).await.ok();
    if let Some(caller) = &caller {
        parts.extensions.insert(caller.clone());
    }
    let asked = Asked::of(&parts);
    let response = next.run(Request::from_parts(parts, body)).await;
    let status = response.status();
    let (entry, key) = match (caller, question) {
        (Some(caller), Some(question)) => {
            let noted = note.noted();
            let is_polled = question.is_polled && !asked.has_cursor();
            let key = is_polled.then(|| asked.key(&caller.source.session, status));
            let mut entry = asked.entry(&caller, question.command);
            if noted.is_export {
                "Export".clone_into(&mut entry.command);
            }
            entry.took_us = u64::try_from(started.elapsed().as_micros()).ok();
            (entry.text, entry.rows) = (noted.text, noted.rows);
            (entry, key)
        }
        (Some(caller), None) if status == StatusCode::FORBIDDEN => {
            let key = asked.key(&caller.source.session, status);
            (asked.entry(&caller, &asked.method), Some(key))
        }
        (None, _) if status == StatusCode::UNAUTHORIZED && asked.has_token => {
            // A program with a token that was revoked tries again and again.
            let address = asked.source.ip.map(|ip| ip.to_string()).unwrap_or_default();
            let entry = Entry::new(Kind::ConnectFailed, "", asked.source.clone());
            (entry.with("path", &asked.path), Some(Key::of(&["token", &address])))
        }
        _ => return response,
    };
    let entry = if status.as_u16() >= 400 {
        let message = response.extensions().get::<Message>();
        entry.failed(status.as_u16(), message.map_or("", |message| &message.0))
    } else {
        entry
    };
    match store(&state, entry, key).await {
        Ok(()) => response,
        Err(error) => error.into_response(),
    }
}

/// Writes an entry, unless one with its key was written lately.
///
/// # Errors
/// It cannot be written.
pub async fn store(state: &AppState, entry: Entry, key: Option<Key>) -> Result<(), ApiError> {
    let now = Instant::now();
    let repeats = state.audit.repeats();
    if key.is_some_and(|key| repeats.has(&key, now)) {
        return Ok(());
    }
    state.audit.write(entry).await?;
    if let Some(key) = key {
        repeats.note(key, now);
    }
    Ok(())
}

/// A request, as far as its record has it.
struct Asked {
    method: String,
    path: String,
    query: String,
    source: RequestSource,
    has_token: bool,
}

impl Asked {
    fn of(parts: &Parts) -> Self {
        Self {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            source: source_of(parts),
            has_token: bearer(&parts.headers).is_some(),
        }
    }

    fn entry(&self, caller: &Caller, command: &str) -> Entry {
        let source = caller.source.clone();
        let mut entry = Entry::new(Kind::Statement, &caller.user, source)
            .with("role", &caller.roles.to_string())
            .with("path", &self.path)
            .with("parameters", &self.parameters());
        command.clone_into(&mut entry.command);
        entry
    }

    /// All parameters except the text of the search.
    fn parameters(&self) -> String {
        let parts: Vec<&str> = self.parts().filter(|part| !part.starts_with("q=")).collect();
        parts.join("&")
    }

    /// A page of an answer is another question than the first one.
    fn has_cursor(&self) -> bool {
        self.parts().any(|part| part.starts_with("cursor="))
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        self.query.split('&').filter(|part| !part.is_empty())
    }

    fn key(&self, session: &str, status: StatusCode) -> Key {
        Key::of(&[session, &self.method, &self.path, &self.query, status.as_str()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_all_but_the_search() {
        let asked = |query: &str| Asked {
            method: "GET".to_owned(),
            path: "/x".to_owned(),
            query: query.to_owned(),
            source: RequestSource::default(),
            has_token: false,
        };
        let one = asked("from=-1h&q=user%3Aann&server=db1&server=db2");
        assert_eq!(one.parameters(), "from=-1h&server=db1&server=db2");
        assert!(!one.has_cursor() && asked("limit=1&cursor=x").has_cursor());
        let key = |query: &str, session| asked(query).key(session, StatusCode::OK);
        assert_eq!(key("q=a", "s"), key("q=a", "s"));
        assert_ne!(key("q=a", "s"), key("q=b", "s"));
        assert_ne!(key("q=a", "s"), key("q=a", "t"));
        assert_ne!(key("q=a", "s"), asked("q=a").key("s", StatusCode::BAD_REQUEST));
    }
}
