//! Answers with an error: `{"code","message"}`, and more fields where a request has them.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use tacho_ship::protocol::{Code, ErrorBody};

use crate::database::DatabaseError;
use crate::say::say;

/// The message of an answer with an error, for its record.
#[derive(Clone, Debug)]
pub struct Message(pub String);

/// An answer with a status of 400 or more.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    fields: Map<String, Value>,
    retry_after_s: Option<u32>,
}

impl ApiError {
    /// An error with a code of the shipping protocol, which the rest of the API uses as well.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(code.status());
        Self {
            status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: code.word(),
            message: message.into(),
            fields: Map::new(),
            retry_after_s: None,
        }
    }

    /// An error with another code.
    #[must_use]
    pub fn other(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, ..Self::new(Code::Internal, message) }
    }

    /// The same with another field in the body.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// The same with `Retry-After`, s.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// The request is wrong.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, message)
    }

    /// The caller may not do that.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Code::Forbidden, message)
    }

    /// The hub failed. The cause goes to the hub's own log: it can have names and paths in it.
    #[must_use]
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        say(&cause.to_string());
        Self::new(Code::Internal, "the hub failed; its log has the cause")
    }

    /// Its code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl From<DatabaseError> for ApiError {
    fn from(error: DatabaseError) -> Self {
        Self::internal(&error)
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        let is_large = rejection.status() == StatusCode::PAYLOAD_TOO_LARGE;
        let code = if is_large { Code::TooLarge } else { Code::BadRequest };
        Self::new(code, rejection.body_text())
    }
}

impl From<PathRejection> for ApiError {
    fn from(rejection: PathRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

impl From<ErrorBody> for ApiError {
    fn from(body: ErrorBody) -> Self {
        let mut error = Self::new(body.code, body.message);
        if let Some(offset) = body.offset {
            error = error.with("offset", offset);
        }
        if let Some(generation) = body.generation {
            error = error.with("generation", generation);
        }
        error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = self.fields;
        body.insert("code".to_owned(), self.code.into());
        body.insert("message".to_owned(), self.message.clone().into());
        let mut response = (self.status, Json(body)).into_response();
        response.extensions_mut().insert(Message(self.message));
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// No such path.
pub async fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "no such path")
}

/// The path exists, the method does not.
pub async fn method_not_allowed() -> ApiError {
    let message = "this path has no such method";
    ApiError::other(StatusCode::METHOD_NOT_ALLOWED, "bad_request", message)
}
