//! Security headers of all answers.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;

/// An answer of the API is data, never a page. The web UI sets its own policy.
const FIELDS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Adds the fields that an answer does not have.
pub async fn secure(mut response: Response) -> Response {
    for (name, value) in FIELDS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
