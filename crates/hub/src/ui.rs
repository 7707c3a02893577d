//! The files of the web UI, which `make ui` builds into `ui/dist`.
//!
//! Paths that are no file are pages: the UI's own router reads the address. A hub that was built
//! without the UI serves a page that says so.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::api::{ApiError, error};

#[derive(RustEmbed)]
#[folder = "../../ui/dist"]
#[exclude = ".*"]
struct Files;

const INDEX: &str = "index.html";

/// Where files lie whose names contain a hash of their content.
const HASHED: &str = "assets/";

const FOREVER: &str = "public, max-age=31536000, immutable";
/// The browser asks each time, and gets a 304 if its copy is current.
const ASK: &str = "no-cache";

/// Nothing from elsewhere, no inline script or style: a text from a record that became markup by a
/// mistake of ours would still not run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

const MISSING: &str = "<!doctype html><title>Tachograph</title>\
    <p>This tacho-hub was built without the web UI. Run <code>make ui</code>, then build it again. \
    The API is at <code>/api/v1</code>.";

/// Answers a request for a page or a file.
pub async fn answer(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    if path == "/api" || path.starts_with("/api/") {
        return error::not_found().await.into_response();
    }
    if method != Method::GET && method != Method::HEAD {
        return error::method_not_allowed().await.into_response();
    }
    let name = path.trim_start_matches('/');
    let is_file = name.starts_with(HASHED) || Files::get(name).is_some();
    let mut response = if is_file { file(name, &headers) } else { file(INDEX, &headers) };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn file(name: &str, request: &HeaderMap) -> Response {
    let Some(plain) = Files::get(name) else {
        return missing(name);
    };
    // A copy that was compressed at build time, if there is one and the browser takes it.
    let packed = accepts_gzip(request).then(|| Files::get(&format!("{name}.gz"))).flatten();
    let is_packed = packed.is_some();
    let found = packed.unwrap_or(plain);
    let tag = tag(&found);
    let is_current = request.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let mut builder = Response::builder()
        .header(header::CACHE_CONTROL, if name.starts_with(HASHED) { FOREVER } else { ASK })
        .header(header::ETAG, tag)
        .header(header::VARY, header::ACCEPT_ENCODING.as_str());
    if is_current {
        return finish(builder.status(StatusCode::NOT_MODIFIED).body(Body::empty()));
    }
    if is_packed {
        builder = builder.header(header::CONTENT_ENCODING, "gzip");
    }
    let builder = builder.header(header::CONTENT_TYPE, media_type(name));
    finish(builder.body(Body::from(found.data)))
}

fn missing(name: &str) -> Response {
    if name != INDEX {
        return ApiError::new(tacho_ship::protocol::Code::NotFound, "no such file").into_response();
    }
    let kind = (header::CONTENT_TYPE, media_type(INDEX));
    ([kind, (header::CACHE_CONTROL, ASK)], MISSING).into_response()
}

fn finish(response: Result<Response, axum::http::Error>) -> Response {
    response.unwrap_or_else(|error| ApiError::internal(&error).into_response())
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let accepted = request.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = accepted.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("gzip") && !matches!(weight.trim(), "q=0" | "q=0.0")
    })
}

fn tag(file: &EmbeddedFile) -> String {
    use std::fmt::Write as _;
    let mut tag = String::from("\"");
    for byte in &file.metadata.sha256_hash()[..12] {
        // Writing into a String does not fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn get(path: &str, headers: &[(header::HeaderName, &str)]) -> Response {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(name, HeaderValue::from_str(value).unwrap());
        }
        answer(Method::GET, path.parse().unwrap(), map).await
    }

    async fn text(response: Response) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn pages_are_html_whether_the_ui_is_built_or_not() {
        for path in ["/", "/search?q=x", "/records/db1/17", "/..%2f..%2fCargo.toml"] {
            let response = get(path, &[]).await;
            assert_eq!(response.status(), StatusCode::OK, "{path}");
            assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
            assert_eq!(response.headers()[header::CACHE_CONTROL], ASK);
            assert_eq!(response.headers()[header::CONTENT_SECURITY_POLICY], POLICY);
            assert!(text(response).await.contains("<title>Tachograph</title>"), "{path}");
        }
    }

    #[tokio::test]
    async fn paths_of_the_api_and_missing_files_are_no_pages() {
        for path in ["/api/v2/x", "/api", "/assets/gone.js", "/assets/../../Cargo.toml"] {
            assert_eq!(get(path, &[]).await.status(), StatusCode::NOT_FOUND, "{path}");
        }
        let posted = answer(Method::POST, "/".parse().unwrap(), HeaderMap::new()).await;
        assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[tokio::test]
    async fn a_built_file_is_cached_and_compressed() {
        let Some(name) = Files::iter().find(|n| n.starts_with(HASHED) && n.ends_with(".js")) else {
            assert!(Files::get(INDEX).is_none(), "the UI is built but has no script");
            return;
        };
        let path = format!("/{name}");
        let plain = get(&path, &[]).await;
        assert_eq!(plain.headers()[header::CACHE_CONTROL], FOREVER);
        assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
        let packed = get(&path, &[(header::ACCEPT_ENCODING, "br, gzip;q=0.8")]).await;
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
        let tag = plain.headers()[header::ETAG].to_str().unwrap().to_owned();
        let again = get(&path, &[(header::IF_NONE_MATCH, &tag)]).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    }
}
