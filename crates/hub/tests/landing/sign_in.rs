//! Signing in, sessions, and what other sites cannot do with them.

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tacho_hub::accounts::{self, Account, session::COOKIE};
use tacho_hub::api;
use tacho_hub::audit::Maker;
use tacho_hub::roles::Scope;
use tower::ServiceExt as _;

use crate::bench::Bench;

const PASSWORD: &str = "correct horse battery";

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

async fn send(
    bench: &Bench,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: Value,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request = request.header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let answer = api::router(bench.state()).oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// `tacho_session=…` of a sign-in that worked.
async fn sign_in(bench: &Bench, credentials: Value) -> String {
    let answer = send(bench, "POST", "/api/v1/session", &[], credentials).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    cookie.split(';').next().unwrap().to_owned()
}

fn with_account(roles: &str) -> Bench {
    let bench = Bench::new();
    let roles = roles.parse().unwrap();
    let account = Account { name: "ann".to_owned(), roles, scope: Scope::All };
    accounts::create(&bench.state().database, &account, PASSWORD, &Maker::default(), 0).unwrap();
    bench
}

#[tokio::test]
async fn a_session_is_a_cookie_and_writing_needs_its_csrf_text() {
    let bench = with_account("admin+auditor");
    let cookie = sign_in(&bench, json!({"user": "ann", "password": PASSWORD})).await;
    let me = send(&bench, "GET", "/api/v1/me", &[("cookie", &cookie)], Value::Null).await;
    assert_eq!(me.body["user"], "ann");
    assert_eq!(me.body["role"], "admin+auditor");
    assert_eq!(me.body["roles"], json!(["admin", "auditor"]));
    assert_eq!(me.body["servers"], Value::Null);
    let csrf = me.body["csrf"].as_str().unwrap();
    for wrong in [vec![], vec![("x-tacho-csrf", "x")], vec![("x-tacho-csrf", "")]] {
        let fields = [wrong, vec![("cookie", cookie.as_str())]].concat();
        let answer = send(&bench, "DELETE", "/api/v1/session", &fields, Value::Null).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    let fields = [("cookie", cookie.as_str()), ("x-tacho-csrf", csrf)];
    let ended = send(&bench, "DELETE", "/api/v1/session", &fields, Value::Null).await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT);
    let me = send(&bench, "GET", "/api/v1/me", &[("cookie", &cookie)], Value::Null).await;
    assert_eq!((me.status, &me.body["code"]), (StatusCode::UNAUTHORIZED, &json!("token")));
}

#[tokio::test]
async fn a_token_signs_in_unless_it_is_for_shipping() {
    let bench = Bench::new();
    let cookie = sign_in(&bench, json!({"token": bench.auditor})).await;
    assert!(cookie.starts_with(COOKIE));
    for bad in [bench.token.as_str(), "tacho_x", "", "tacho_signin_x"] {
        let answer = send(&bench, "POST", "/api/v1/session", &[], json!({"token": bad})).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{bad}");
    }
}

#[tokio::test]
async fn passwords_cannot_be_tried_without_end() {
    let bench = with_account("viewer");
    let wrong = json!({"user": "ann", "password": "wrong password!"});
    for _ in 0..5 {
        let answer = send(&bench, "POST", "/api/v1/session", &[], wrong.clone()).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    }
    let right = json!({"user": "ann", "password": PASSWORD});
    let answer = send(&bench, "POST", "/api/v1/session", &[], right).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.headers.contains_key(header::RETRY_AFTER));
}

#[tokio::test]
async fn answers_are_no_pages() {
    let bench = Bench::new();
    for path in ["/healthz", "/api/v1/me", "/api/v1/nothing", "/metrics"] {
        let answer = send(&bench, "GET", path, &[], Value::Null).await;
        let field = |name: &str| answer.headers[name].to_str().unwrap();
        assert!(field("content-security-policy").starts_with("default-src 'none'"), "{path}");
        assert_eq!(field("x-content-type-options"), "nosniff");
        assert_eq!(field("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn roles_see_what_they_may() {
    let bench = with_account("viewer");
    let viewer = sign_in(&bench, json!({"user": "ann", "password": PASSWORD})).await;
    let fields = [("cookie", viewer.as_str())];
    let servers = send(&bench, "GET", "/api/v1/servers", &fields, Value::Null).await;
    assert_eq!(servers.body[0]["state"], "new", "{}", servers.body);
    let agent = format!("Bearer {}", bench.token);
    for path in ["/api/v1/servers", "/metrics"] {
        let fields = [("authorization", agent.as_str())];
        let answer = send(&bench, "GET", path, &fields, Value::Null).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
    }
    // A session does not ship.
    let path = "/api/v1/origins/db1";
    let answer = send(&bench, "GET", path, &fields, Value::Null).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}
