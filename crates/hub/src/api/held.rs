//! Answers that hold something until the client has read them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body::{Frame, SizeHint};
use serde::Serialize;

use super::ApiError;

/// How much the connection gets at a time. It asks for more when it has written most of that.
const PART_BYTES: usize = 64 << 10;

/// An answer whose memory is reserved by `held`.
pub fn json(
    status: StatusCode,
    value: &impl Serialize,
    held: impl Send + Unpin + 'static,
) -> Result<Response, ApiError> {
    let text = serde_json::to_vec(value).map_err(|error| ApiError::internal(&error))?;
    let body = Body::new(Held::new(Parts(text.into()), held));
    let content_type = HeaderValue::from_static("application/json");
    Ok((status, [(header::CONTENT_TYPE, content_type)], body).into_response())
}

/// A body, and what it holds until it is dropped.
pub struct Held<B, T> {
    body: B,
    _held: T,
}

impl<B, T> Held<B, T> {
    /// Holds `held` as long as the body is there.
    pub fn new(body: B, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<B: HttpBody + Unpin, T: Unpin> HttpBody for Held<B, T> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes, given part by part.
struct Parts(Bytes);

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let bytes = self.0.len().min(PART_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.0.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn what_it_holds_is_free_when_it_was_read() {
        let held = Arc::new(());
        let text = "x".repeat(3 * PART_BYTES);
        let answer = json(StatusCode::OK, &text, Arc::clone(&held)).unwrap();
        let mut body = answer.into_body();
        assert_eq!(body.size_hint().exact(), Some(text.len() as u64 + 2));
        for _ in 0..3 {
            assert!(body.frame().await.is_some());
            assert_eq!(Arc::strong_count(&held), 2);
        }
        let rest = body.collect().await.unwrap().to_bytes();
        assert_eq!((rest.as_ref(), Arc::strong_count(&held)), (&b"x\""[..], 1));
    }
}
