//! `GET /healthz`.

/// Answers `ok` as long as the hub serves requests.
pub async fn health() -> &'static str {
    "ok\n"
}
