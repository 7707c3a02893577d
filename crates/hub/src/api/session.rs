//! Signing in: `/api/v1/session`, `/api/v1/me`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{ConnectInfo, FromRef, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tacho_ship::protocol::Code;
use tokio::sync::Semaphore;

use super::audited::{program_of, store};
use super::{ApiError, Caller};
use crate::accounts::attempts::Attempts;
use crate::accounts::session::{self, COOKIE, Owner, SESSION_US};
use crate::accounts::{self, LINK_PREFIX};
use crate::audit::repeats::Key;
use crate::audit::{Entry, Kind, RequestSource};
use crate::clock::now_us;
use crate::database::{Database, DatabaseError};
use crate::roles::Role;
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
        Ok(Self(peer_of(&parts.extensions)))
    }
}

/// The address of the client.
pub(super) fn peer_of(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
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
    headers: HeaderMap,
    credentials: Result<Json<Credentials>, JsonRejection>,
) -> Result<Response, ApiError> {
    state.audit.ready()?;
    let Json(credentials) = credentials?;
    let (user, with) = match &credentials {
        Credentials::Token { token } if token.starts_with(LINK_PREFIX) => {
            (TOKEN_USER.to_owned(), "link")
        }
        Credentials::Token { .. } => (TOKEN_USER.to_owned(), "token"),
        Credentials::Account { user, .. } => (user.chars().take(100).collect(), "password"),
    };
    let source =
        RequestSource { ip: peer, program: program_of(&headers), ..RequestSource::default() };
    let refused = |status: StatusCode, text: &str| {
        // What is no name may be a password in the wrong field.
        let name = if accounts::is_name(&user) { &*user } else { "" };
        let entry = Entry::new(Kind::ConnectFailed, name, source.clone());
        entry.with("with", with).failed(status.as_u16(), text)
    };
    if let Err(seconds) = sign_in.attempts.begin(&user, peer, now_us()) {
        let text = "too many failed sign-ins; wait";
        let address = peer.map(|peer| peer.to_string()).unwrap_or_default();
        let entry = refused(StatusCode::TOO_MANY_REQUESTS, text);
        store(&state, entry, Some(Key::of(&["sign-in", &address]))).await?;
        return Err(ApiError::new(Code::TooMany, text).retry_after(seconds));
    }
    let _password = match credentials {
        Credentials::Account { .. } => sign_in.passwords.acquire().await.ok(),
        Credentials::Token { .. } => None,
    };
    let owner = state.database.call(move |database| owner(database, credentials)).await?;
    let Some(owner) = owner else {
        let text = "the name, the password or the token is wrong";
        state.audit.write(refused(StatusCode::UNAUTHORIZED, text)).await?;
        return Err(ApiError::new(Code::Token, text));
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
    let source =
        RequestSource { session: RequestSource::session_of(&tokens::hash(&cookie)), ..source };
    let entry = Entry::new(Kind::Connect, &account.name, source)
        .with("role", &account.roles.to_string())
        .with("with", with);
    // Without its record the cookie is not sent, so no client has the session.
    state.audit.write(entry).await?;
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
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if let Some(cookie) = cookie_of(&headers).map(str::to_owned) {
        let entry = Entry::new(Kind::Disconnect, &caller.user, caller.source);
        let entry = entry.with("reason", "signed out");
        let end = move |database: &Database| session::end(database, &cookie, &entry);
        state.database.call(end).await?;
        // The record is in the database; if the log cannot have it now, it gets it later.
        let _ = state.audit.drain().await;
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
