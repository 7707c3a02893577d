//! Signing in: `/api/v1/session`, `/api/v1/me`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, FromRef, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tacho_ship::protocol::Code;
use tokio::sync::Semaphore;

use super::{ApiError, Caller};
use crate::accounts::attempts::Attempts;
use crate::accounts::session::{self, COOKIE, Owner, SESSION_US};
use crate::accounts::{self, LINK_PREFIX};
use crate::clock::now_us;
use crate::database::{Database, DatabaseError};
use crate::roles::Role;
use crate::say::say;
use crate::state::AppState;
use crate::tokens::{self, TokenError};

/// Passwords that are compared at a time: each takes 19 MiB.
const PASSWORDS_MAX: usize = 2;
/// Under this name attempts with tokens count.
const TOKEN_USER: &str = "";

/// State of the handlers of signing in.
#[derive(Clone)]
pub struct SignIn {
    attempts: Arc<Attempts>,
    passwords: Arc<Semaphore>,
    /// Cookies are sent over TLS only.
    is_secure: bool,
}

impl SignIn {
    /// `is_secure`: the hub speaks TLS.
    #[must_use]
    pub fn new(is_secure: bool) -> Self {
        let passwords = Arc::new(Semaphore::new(PASSWORDS_MAX));
        Self { attempts: Arc::default(), passwords, is_secure }
    }

    fn cookie(&self, value: &str, seconds: i64) -> Result<HeaderValue, ApiError> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let text = format!(
            "{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
        );
        HeaderValue::from_str(&text).map_err(|error| ApiError::internal(&error))
    }
}

impl FromRef<AppState> for SignIn {
    fn from_ref(state: &AppState) -> Self {
        state.sign_in.clone()
    }
}

/// The address of the client, where there is a network.
pub struct Peer(Option<IpAddr>);

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let info = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Ok(Self(info.map(|info| info.0.ip())))
    }
}

/// Body of `POST /api/v1/session`.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Credentials {
    /// A token, or that of a sign-in link.
    Token {
        /// Its text.
        token: String,
    },
    /// An account.
    Account {
        /// Its name.
        user: String,
        /// Its password.
        password: String,
    },
}

/// `POST /api/v1/session`
///
/// # Errors
/// The credentials are wrong, or too many were.
pub async fn begin(
    State(state): State<AppState>,
    State(sign_in): State<SignIn>,
    Peer(peer): Peer,
    Json(credentials): Json<Credentials>,
) -> Result<Response, ApiError> {
    let user = match &credentials {
        Credentials::Token { .. } => TOKEN_USER.to_owned(),
        Credentials::Account { user, .. } => user.chars().take(100).collect(),
    };
    sign_in.attempts.begin(&user, peer, now_us()).map_err(|seconds| {
        let text = "too many failed sign-ins; wait";
        ApiError::new(Code::TooMany, text).retry_after(seconds)
    })?;
    let _password = match credentials {
        Credentials::Account { .. } => sign_in.passwords.acquire().await.ok(),
        Credentials::Token { .. } => None,
    };
    let owner = state.database.call(move |database| owner(database, credentials)).await?;
    let Some(owner) = owner else {
        let address = peer.map(|peer| peer.to_string()).unwrap_or_default();
        say(&format!("failed sign-in of {user:?} from {address}"));
        return Err(ApiError::new(Code::Token, "the name, the password or the token is wrong"));
    };
    sign_in.attempts.succeed(&user, peer);
    let now_us = now_us();
    let begun = state.database.call(move |database| {
        let cookie = session::begin(database, &owner, now_us)?;
        let session = session::find_session(database, &cookie, now_us)?;
        Ok::<_, TokenError>((cookie, session))
    });
    let (cookie, session) = begun.await.map_err(|error| ApiError::internal(&error))?;
    let session = session.ok_or_else(|| ApiError::new(Code::Token, "the account has ended"))?;
    let account = session.account;
    let body = json!({ "user": account.name, "role": account.roles.to_string() });
    let cookie = sign_in.cookie(&cookie, SESSION_US / 1_000_000)?;
    Ok(([(header::SET_COOKIE, cookie)], Json(body)).into_response())
}

/// The owner of the credentials. Blocks.
fn owner(database: &Database, credentials: Credentials) -> Result<Option<Owner>, DatabaseError> {
    match credentials {
        Credentials::Token { token } if token.starts_with(LINK_PREFIX) => {
            Ok(accounts::use_link(database, &token, now_us())?.then_some(Owner::Link))
        }
        Credentials::Token { token } => {
            let token = tokens::find(database, token.trim(), now_us())?;
            let token = token.filter(|token| !token.grant.roles.has(Role::Agent));
            Ok(token.map(|token| Owner::Token(token.id)))
        }
        Credentials::Account { user, password } => {
            let is_good = accounts::check(database, &user, &password)?;
            Ok(is_good.then_some(Owner::Account(user)))
        }
    }
}

/// `DELETE /api/v1/session`
///
/// # Errors
/// There is no session, or the database fails.
pub async fn end(
    State(state): State<AppState>,
    State(sign_in): State<SignIn>,
    _caller: Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(cookie) = cookie_of(&headers).map(str::to_owned) {
        state.database.call(move |database| session::end(database, &cookie)).await?;
    }
    let cookie = sign_in.cookie("", 0)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// `GET /api/v1/me`
pub async fn me(caller: Caller) -> Json<Value> {
    Json(json!({
        "user": caller.user,
        "role": caller.roles.to_string(),
        "roles": caller.roles.words(),
        "servers": caller.scope.servers(),
        "csrf": caller.csrf.unwrap_or_default(),
    }))
}

/// The session cookie of a request.
#[must_use]
pub fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(header::COOKIE).into_iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}
