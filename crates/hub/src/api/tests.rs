//! Requests without a network.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

use super::*;
use crate::audit::{Audit, AuditThread, Maker};
use crate::data::DataDirectory;
use crate::database::Database;
use crate::index::Index;
use crate::landing::Landing;
use crate::retention::Meter;
use crate::roles::{Roles, Scope};
use crate::tokens::{self, TokenGrant};
use crate::verification::Verification;

pub(super) struct Hub {
    /// Ends before its directory.
    _thread: AuditThread,
    _directory: tempfile::TempDir,
    pub(super) state: AppState,
}

impl Hub {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::open(directory.path()).unwrap();
        let database = Database::open(&data.database()).unwrap();
        let (_, stopping) = tokio::sync::watch::channel(false);
        let data = Arc::new(data);
        let options = crate::landing::Options { reserve_bytes: 0, ..Default::default() };
        let landing = Landing::open(Arc::clone(&data), options, Arc::new(|_| {})).unwrap();
        let settings = crate::index::query_settings(&data).unwrap();
        let index = Index::open(&data, landing.subscribe(), settings).unwrap();
        let (meter, store) = (database.clone(), index.store().clone());
        let storage = Meter::new(Arc::clone(&data), meter, landing.clone(), store);
        let ship = ship::ShipState::new(landing);
        let key = crate::hub_key::open(&data).unwrap();
        let verification = Verification::default();
        let own_log = crate::audit::Options::of(&data, 0);
        let (audit, thread) = Audit::start(own_log, database.clone()).unwrap();
        let state = AppState {
            database,
            data,
            ship,
            index,
            verification,
            audit,
            export: export::ExportState::new(key),
            storage,
            sign_in: session::SignIn::new(false),
            stopping,
        };
        Self { _thread: thread, _directory: directory, state }
    }

    /// A token for all servers; one for shipping is for `db1`.
    pub(super) fn token(&self, roles: &str) -> String {
        let roles: Roles = roles.parse().unwrap();
        let is_agent = roles.has(crate::roles::Role::Agent);
        let scope =
            if is_agent { Scope::Servers(vec!["db1".parse().unwrap()]) } else { Scope::All };
        let grant = TokenGrant { name: "t".into(), roles, scope, expires_us: None };
        tokens::create(&self.state.database, &grant, &Maker::default(), 0).unwrap()
    }

    async fn get(&self, path: &str, token: Option<&str>) -> (StatusCode, String) {
        async fn who(caller: Caller) -> Result<String, ApiError> {
            caller.may_search()?;
            Ok(caller.roles.to_string())
        }
        let who = Router::new().route("/who", get(who)).with_state(self.state.clone());
        let router = router(self.state.clone()).merge(who);
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

fn code(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap();
    body["code"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn health_needs_no_token_and_unknown_paths_say_so() {
    let hub = Hub::new();
    assert_eq!(hub.get("/healthz", None).await, (StatusCode::OK, "ok\n".to_owned()));
    let (status, body) = hub.get("/api/nothing", None).await;
    assert_eq!((status, code(&body).as_str()), (StatusCode::NOT_FOUND, "not_found"));
}

#[tokio::test]
async fn a_request_is_from_who_has_the_token() {
    let hub = Hub::new();
    let auditor = hub.token("auditor");
    assert_eq!(hub.get("/who", Some(&auditor)).await, (StatusCode::OK, "auditor".to_owned()));
    for bad in [None, Some("tacho_nonsense"), Some("")] {
        let (status, body) = hub.get("/who", bad).await;
        assert_eq!((status, code(&body).as_str()), (StatusCode::UNAUTHORIZED, "token"));
    }
    let (status, body) = hub.get("/who", Some(&hub.token("admin"))).await;
    assert_eq!((status, code(&body).as_str()), (StatusCode::FORBIDDEN, "forbidden"));
}
