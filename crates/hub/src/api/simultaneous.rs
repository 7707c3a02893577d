//! How many requests one token or session may have at a time: a script that goes wrong, or a token
//! that was stolen, must not take the connections of all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tacho_ship::protocol::Code;

use super::ApiError;
use super::caller::bearer;
use super::held::Held;
use super::session::cookie_of;
use crate::tokens;

/// Requests of one token or session, until their answers are read. A live view is one.
pub const REQUESTS_MAX: usize = 64;

type Key = [u8; 32];

/// Requests that are under way, by the hash of their token or cookie.
#[derive(Clone, Default)]
pub struct Simultaneous {
    counts: Arc<Mutex<HashMap<Key, usize>>>,
}

/// The right to one request, until it is dropped.
struct Slot {
    counts: Arc<Mutex<HashMap<Key, usize>>>,
    key: Key,
}

impl Simultaneous {
    fn take(&self, key: Key) -> Option<Slot> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key).or_default();
        if *count >= REQUESTS_MAX {
            return None;
        }
        *count += 1;
        Some(Slot { counts: Arc::clone(&self.counts), key })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// Middleware. Requests without a token are limited by their address alone.
///
/// # Errors
/// There are too many of the token.
pub async fn limit(
    State(simultaneous): State<Simultaneous>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let headers = request.headers();
    let Some(text) = bearer(headers).or_else(|| cookie_of(headers)) else {
        return Ok(next.run(request).await);
    };
    let slot = simultaneous.take(tokens::hash(text)).ok_or_else(|| {
        let text = format!("{REQUESTS_MAX} requests of this token are under way");
        ApiError::new(Code::TooMany, text).retry_after(1)
    })?;
    let answer = next.run(request).await;
    Ok(answer.map(|body| Body::new(Held::new(body, slot))))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_token_has_its_share_until_its_answers_are_read() {
        let limited = from_fn_with_state(Simultaneous::default(), limit);
        let router = Router::new().route("/", get(|| async { "x" })).layer(limited);
        let ask = async |token: Option<&str>| {
            let mut request = Request::get("/");
            if let Some(token) = token {
                request = request.header("authorization", token);
            }
            router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
        };
        let mut held = Vec::new();
        for _ in 0..REQUESTS_MAX {
            held.push(ask(Some("Bearer a")).await);
        }
        let refused = ask(Some("Bearer a")).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()["retry-after"], "1");
        let spelled_otherwise = ask(Some("bearer  a")).await;
        assert_eq!(spelled_otherwise.status(), StatusCode::TOO_MANY_REQUESTS);
        for other in [Some("Bearer b"), None] {
            assert_eq!(ask(other).await.status(), StatusCode::OK);
        }
        drop(held.pop());
        assert_eq!(ask(Some("Bearer a")).await.status(), StatusCode::OK);
    }
}
