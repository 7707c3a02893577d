//! Who a request is from.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use tacho_ship::protocol::{Code, Origin};

use super::ApiError;
use super::session::cookie_of;
use crate::accounts::session::find_session;
use crate::api::audited::source_of;
use crate::audit::{RequestSource, is_hub};
use crate::clock::now_us;
use crate::roles::{Role, Roles, Scope};
use crate::state::AppState;
use crate::tokens;

/// Needed by requests with a cookie that change something.
pub const CSRF_HEADER: &str = "x-tacho-csrf";

/// The sender of a request, who has been authenticated. A handler has it as an argument, and asks
/// it before it does anything.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The account, or the name of the token.
    pub user: String,
    /// What it may do.
    pub roles: Roles,
    /// Which servers it may see.
    pub scope: Scope,
    /// Of a session: what requests that change something send in [`CSRF_HEADER`].
    pub csrf: Option<String>,
    /// Where the request comes from.
    pub source: RequestSource,
}

impl Caller {
    /// Permits shipping to an origin.
    ///
    /// # Errors
    /// The token is another one.
    pub fn may_ship(&self, origin: &Origin) -> Result<(), ApiError> {
        if self.roles.has(Role::Agent) && self.scope.has(origin) {
            return Ok(());
        }
        Err(ApiError::forbidden(format!("the token does not permit shipping to {origin}")))
    }

    /// Permits searching records, at least without literals.
    ///
    /// # Errors
    /// The caller is a shipper or an administrator.
    pub fn may_search(&self) -> Result<(), ApiError> {
        self.require(self.roles.may_search(), "viewer or auditor")
    }

    /// Permits seeing statements with their literals.
    ///
    /// # Errors
    /// The caller is not an auditor.
    pub fn may_see_statements(&self) -> Result<(), ApiError> {
        self.require(self.roles.may_see_statements(), "auditor")
    }

    /// Permits changing accounts and settings.
    ///
    /// # Errors
    /// The caller is not an administrator.
    pub fn may_administer(&self) -> Result<(), ApiError> {
        self.require(self.roles.may_administer(), "admin")
    }

    /// Permits seeing the state of servers and alerts.
    ///
    /// # Errors
    /// The caller is a shipper.
    pub fn may_see_state(&self) -> Result<(), ApiError> {
        self.require(self.roles.may_see_state(), "viewer, auditor or admin")
    }

    /// Whether the caller may see anything of a server. The hub's own log is for those who may see
    /// statements, and its state also for administrators.
    #[must_use]
    pub fn may_see(&self, server: &Origin) -> bool {
        let is_for_them = self.roles.may_see_statements() || self.roles.may_administer();
        self.scope.has(server) && (is_for_them || !is_hub(server))
    }

    fn require(&self, is_permitted: bool, role: &str) -> Result<(), ApiError> {
        if is_permitted {
            return Ok(());
        }
        Err(ApiError::forbidden(format!("this needs the role {role}; you have {}", self.roles)))
    }
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        // It was found before, to record the request.
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        let Some(text) = bearer(&parts.headers) else {
            return from_session(parts, state);
        };
        // A look into an index in memory: not worth another thread.
        let token = tokens::find(&state.database, text, now_us())?.ok_or_else(|| {
            ApiError::new(Code::Token, "the token is unknown, revoked or expired")
        })?;
        let grant = token.grant;
        let source = source(parts, text);
        let (user, roles, scope) = (grant.name, grant.roles, grant.scope);
        Ok(Self { user, roles, scope, csrf: None, source })
    }
}

/// The caller of a cookie. A page of another site can make a browser send it, but cannot know the
/// text that a request that changes something needs.
fn from_session(parts: &Parts, state: &AppState) -> Result<Caller, ApiError> {
    let Some(cookie) = cookie_of(&parts.headers) else {
        return Err(ApiError::new(Code::Token, "sign in, or send a token: Authorization: Bearer"));
    };
    let session = find_session(&state.database, cookie, now_us())?
        .ok_or_else(|| ApiError::new(Code::Token, "the session has ended"))?;
    let sent = parts.headers.get(CSRF_HEADER).map(HeaderValue::as_bytes);
    if !parts.method.is_safe() && sent != Some(session.csrf.as_bytes()) {
        return Err(ApiError::forbidden("X-Tacho-Csrf is not that of the session"));
    }
    let account = session.account;
    let csrf = Some(session.csrf);
    let source = source(parts, cookie);
    let (user, roles, scope) = (account.name, account.roles, account.scope);
    Ok(Caller { user, roles, scope, csrf, source })
}

fn source(parts: &Parts, secret: &str) -> RequestSource {
    RequestSource { session: RequestSource::session_of(&tokens::hash(secret)), ..source_of(parts) }
}

/// The token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
