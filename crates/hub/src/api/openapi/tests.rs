//! The description against the router, the handlers and their answers.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::api::tests::Hub;

/// Method, path and description of each request.
fn operations() -> Vec<(String, String, Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(|(method, operation)| (method.clone(), path.clone(), operation.clone()))
    });
    all.collect()
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let hub = Hub::new();
    let routes: BTreeSet<(String, String)> = crate::api::routes(&hub.state)
        .list()
        .iter()
        .map(|(method, path)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    let described = operations().into_iter().map(|(method, path, _)| (method, path)).collect();
    assert_eq!(routes, described);
}

#[test]
fn names_are_unique_and_parameters_of_paths_are_described() {
    let all = operations();
    let ids: BTreeSet<&str> =
        all.iter().map(|(_, _, it)| it["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), all.len());
    for (method, path, operation) in &all {
        let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let described = operation["parameters"].as_array().unwrap().iter();
        let described =
            described.filter(|it| it["in"] == "path").map(|it| it["name"].as_str().unwrap());
        assert!(in_path.eq(described), "{method} {path}");
    }
}

/// A schema of the description as one that stands alone.
fn validator(schema: &Value) -> jsonschema::Validator {
    let mut whole = schema.clone();
    whole["components"] = DOCUMENT["components"].clone();
    jsonschema::draft202012::new(&whole).unwrap()
}

#[test]
fn every_schema_can_be_used() {
    for (_, _, operation) in operations() {
        for response in operation["responses"].as_object().unwrap().values() {
            let kinds = response["content"].as_object().into_iter().flatten();
            kinds.for_each(|(_, kind)| drop(validator(&kind["schema"])));
        }
        if let Some(kinds) = operation["requestBody"]["content"].as_object() {
            kinds.values().for_each(|kind| drop(validator(&kind["schema"])));
        }
    }
    let record = &DOCUMENT["components"]["schemas"]["Record"];
    for field in ["seq", "sql", "server", "server_version", "raw"] {
        assert!(record["properties"][field].is_object(), "{field}");
    }
}

/// A request that is good enough to get to the check of the roles.
fn request(method: &str, path: &str, token: Option<&str>) -> Request<Body> {
    let path = path
        .replace("{origin}", "db1")
        .replace("{name}", "audit-20261121T100000Z-000001.jsonl?offset=0")
        .replace("{server}", "db1")
        .replace("{seq}", "1")
        .replace("{id}", "1");
    let mut request = Request::builder().method(method.to_uppercase().as_str()).uri(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.header("content-type", "application/json").body(Body::from("{}")).unwrap()
}

async fn ask(hub: &Hub, request: Request<Body>) -> (StatusCode, Value) {
    let router = crate::api::router(hub.state.clone());
    let answer = router.oneshot(request).await.unwrap();
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return (status, Value::Null);
    }
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body);
    (status, body.unwrap_or_else(|error| panic!("{status}: {error}")))
}

#[tokio::test]
async fn roles_are_those_that_the_handlers_permit_and_errors_have_their_schema() {
    let hub = Hub::new();
    let error_schema = validator(&schema::named("Error"));
    for (method, path, operation) in operations() {
        let roles: Vec<&str> = operation["x-roles"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap())
            .collect();
        let (status, body) = ask(&hub, request(&method, &path, None)).await;
        let needs_token = status == StatusCode::UNAUTHORIZED;
        assert_eq!(needs_token, !roles.is_empty(), "{method} {path}: {status} {body}");
        for role in ["agent", "viewer", "auditor", "admin"] {
            let token = hub.token(role);
            let (status, body) = ask(&hub, request(&method, &path, Some(&token))).await;
            let is_permitted = roles.is_empty() || roles.contains(&role);
            let is_forbidden = status == StatusCode::FORBIDDEN;
            assert_eq!(is_forbidden, !is_permitted, "{role} {method} {path}: {status} {body}");
            if body.is_null() {
                continue;
            }
            let described = &operation["responses"][status.as_str()]["description"];
            let code = body["code"].as_str().unwrap();
            let is_described = described.as_str().is_some_and(|it| it.contains(code));
            assert!(is_described, "{method} {path}: {status} {body}, described: {described}");
            error_schema.validate(&body).unwrap_or_else(|error| panic!("{body}: {error}"));
        }
    }
}
