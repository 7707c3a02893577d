//! A hub in this process, without a network.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{self, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tacho_hub::api::{self, export::ExportState, session::SignIn, ship::ShipState};
use tacho_hub::audit::{Audit, AuditThread, Maker};
use tacho_hub::data::DataDirectory;
use tacho_hub::database::Database;
use tacho_hub::index::{Index, query_settings};
use tacho_hub::landing::{Incident, Landing, Options, Subscription};
use tacho_hub::retention::Meter;
use tacho_hub::roles::Scope;
use tacho_hub::state::AppState;
use tacho_hub::tokens::{self, TokenGrant};
use tacho_hub::verification::Verification;
use tacho_ship::protocol::digest::{Before, ContentDigest};
use tower::ServiceExt as _;

pub const ONE: &str = "audit-20261121T100000Z-000001";
pub const TWO: &str = "audit-20261121T110000Z-000002";

pub fn lines(stem: &str) -> String {
    format!("{stem}.jsonl")
}

pub fn chain(stem: &str) -> String {
    format!("{stem}.chain")
}

pub struct Bench {
    /// Ends before its directory.
    own_log: AuditThread,
    pub data: tempfile::TempDir,
    /// Ships to `db1`.
    pub token: String,
    pub auditor: String,
    state: AppState,
    pub landing: Landing,
    incidents: Arc<Mutex<Vec<String>>>,
}

/// What an answer has: status and JSON.
pub type Answer = (u16, Value);

pub struct Request {
    builder: http::request::Builder,
    body: Vec<u8>,
    path: String,
    token: Option<String>,
    is_chunked: bool,
}

impl Request {
    pub fn get(path: &str) -> Self {
        let builder = http::Request::get(path);
        Self { builder, body: vec![], path: path.to_owned(), token: None, is_chunked: false }
    }

    pub fn put(name: &str, offset: u64, body: &[u8]) -> Self {
        let path = format!("/api/v1/origins/db1/files/{name}?offset={offset}");
        let builder = http::Request::put(&path);
        Self { builder, body: body.to_vec(), path, token: None, is_chunked: false }
    }

    pub fn post(path: &str, body: &[u8]) -> Self {
        let builder = http::Request::post(path);
        let (body, path) = (body.to_vec(), path.to_owned());
        Self { builder, body, path, token: None, is_chunked: false }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.builder = self.builder.header(name, value);
        self
    }

    pub fn generation(mut self, generation: u64) -> Self {
        self.path = format!("{}&generation={generation}", self.path);
        self.builder = self.builder.uri(&self.path);
        self
    }

    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Sends no length.
    pub fn chunked(mut self) -> Self {
        self.is_chunked = true;
        self
    }
}

impl Bench {
    pub fn new() -> Self {
        Self::with_reserve(0)
    }

    pub fn with_reserve(reserve_bytes: u64) -> Self {
        let options = Options { reserve_bytes, ..Self::options() };
        Self::open(tempfile::tempdir().unwrap(), options)
    }

    /// Leaves no space on the disk, and does not wait for other shippers.
    pub fn options() -> Options {
        Options { reserve_bytes: 0, fork_pause: Duration::ZERO, ..Default::default() }
    }

    fn open(data: tempfile::TempDir, options: Options) -> Self {
        let directory = Arc::new(DataDirectory::open(data.path()).unwrap());
        let database = Database::open(&directory.database()).unwrap();
        let incidents: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&incidents);
        let on_incident =
            Arc::new(move |incident: Incident| seen.lock().unwrap().push(incident.to_string()));
        let landing = Landing::open(Arc::clone(&directory), options, on_incident).unwrap();
        let token = |roles: &str, scope| {
            let roles = roles.parse().unwrap();
            let grant = TokenGrant { name: "t".to_owned(), roles, scope, expires_us: None };
            tokens::create(&database, &grant, &Maker::default(), 0).unwrap()
        };
        let agent = token("agent", Scope::Servers(vec!["db1".parse().unwrap()]));
        let auditor = token("auditor", Scope::All);
        let (_, stopping) = tokio::sync::watch::channel(false);
        let settings = query_settings(&directory).unwrap();
        let index = Index::open(&directory, landing.subscribe(), settings).unwrap();
        let ship = ShipState::new(landing.clone());
        let export = ExportState::new(tacho_hub::hub_key::open(&directory).unwrap());
        let verification = Verification::default();
        let own_log = tacho_hub::audit::Options::of(&directory, 0);
        let (audit, own_log) = Audit::start(own_log, database.clone()).unwrap();
        let (meter, store) = (database.clone(), index.store().clone());
        let storage = Meter::new(Arc::clone(&directory), meter, landing.clone(), store);
        let state = AppState {
            database,
            data: directory,
            ship,
            index,
            verification,
            audit,
            export,
            storage,
            sign_in: SignIn::new(false),
            stopping,
        };
        Self { own_log, data, token: agent, auditor, state, landing, incidents }
    }

    pub fn state(&self) -> AppState {
        self.state.clone()
    }

    /// The same directory with another hub.
    pub fn restarted(self) -> Self {
        self.restarted_with(Self::options())
    }

    pub fn restarted_with(self, options: Options) -> Self {
        let Self { data, state, landing, own_log, .. } = self;
        // The store and the hub's own log have a lock.
        drop((state, landing, own_log));
        Self::open(data, options)
    }

    /// The same, and something happens to the directory meanwhile.
    pub fn restarted_after(self, change: impl FnOnce()) -> Self {
        let Self { data, state, landing, own_log, .. } = self;
        drop((state, landing, own_log));
        change();
        Self::open(data, Self::options())
    }

    pub async fn send(&self, request: Request) -> Answer {
        let token = request.token.as_ref().unwrap_or(&self.token);
        let mut builder = request.builder.header("authorization", format!("Bearer {token}"));
        let body = if request.is_chunked {
            Body::from_stream(futures_of(request.body))
        } else {
            builder = builder.header("content-length", request.body.len());
            Body::from(request.body)
        };
        let request = builder.body(body).unwrap();
        let answer = api::router(self.state.clone()).oneshot(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status.as_u16(), serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        let (status, body) = self.send(Request::get(path)).await;
        (StatusCode::from_u16(status).unwrap(), body)
    }

    pub async fn put(&self, name: &str, offset: u64, body: &[u8]) -> Answer {
        let digest = ContentDigest::of(body).to_string();
        self.send(Request::put(name, offset, body).header("content-digest", &digest)).await
    }

    /// Puts bytes behind others.
    pub async fn put_after(&self, name: &str, before: &[u8], body: &[u8]) -> Answer {
        let request = Request::put(name, before.len() as u64, body);
        self.send(request.header("tacho-before", &Before::of(before).to_string())).await
    }

    pub async fn fork(&self, request: &Value) -> Answer {
        self.post("generations", &"0".repeat(32), request).await
    }

    pub async fn post(&self, what: &str, instance: &str, body: &Value) -> Answer {
        let path = format!("/api/v1/origins/db1/{what}");
        let request = Request::post(&path, json!(body).to_string().as_bytes());
        self.send(request.header("tacho-instance", instance)).await
    }

    pub fn stored(&self, generation: u64, name: &str) -> Vec<u8> {
        std::fs::read(self.path(generation, name)).unwrap()
    }

    /// A file of the replica.
    pub fn path(&self, generation: u64, name: &str) -> PathBuf {
        self.data.path().join("replica/db1").join(generation.to_string()).join(name)
    }

    pub fn incidents(&self) -> Vec<String> {
        self.incidents.lock().unwrap().clone()
    }

    pub fn subscribe(&self) -> Subscription {
        self.landing.subscribe()
    }

    /// The current generation of `db1`.
    pub fn generation(&self) -> u64 {
        let origins = self.landing.origins();
        origins.iter().find(|(origin, ..)| origin.as_str() == "db1").unwrap().1.generation
    }

    /// What a new subscriber gets.
    pub fn landed(&self) -> Vec<String> {
        let landed = self.subscribe().wait(Duration::ZERO);
        let text = landed.iter().map(|it| format!("{} {} {}", it.generation, it.file, it.offset));
        text.collect()
    }
}

/// A body in pieces, whose length is not known before.
fn futures_of(
    body: Vec<u8>,
) -> impl futures_core::Stream<Item = Result<Vec<u8>, std::io::Error>> + Send + 'static {
    let pieces: Vec<_> = body.chunks(1 << 16).map(<[u8]>::to_vec).map(Ok).collect();
    futures_util::stream::iter(pieces)
}
