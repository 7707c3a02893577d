//! Codes of errors, their status, and what a shipper does then.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a shipper does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Try the same again later: as `Retry-After` says, or with growing pauses.
    Retry,
    /// Continue at the offset that the error has.
    Seek,
    /// Begin a new generation.
    Fork,
    /// Ask for the state again.
    Ask,
    /// Tell the operator, and try again seldom: only a change on one of the sides helps.
    Operator,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $word:literal $status:literal $remedy:ident;)*) => {
        /// What is wrong with a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $word)] $code,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$code),*];

            /// Its word in JSON.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Code::$code => $word,)* }
            }

            /// The status of the answer.
            #[must_use]
            pub fn status(self) -> u16 {
                match self { $(Code::$code => $status,)* }
            }

            /// What a shipper does.
            #[must_use]
            pub fn remedy(self) -> Remedy {
                match self { $(Code::$code => Remedy::$remedy,)* }
            }
        }
    };
}

codes! {
    /// The request is not one of this protocol.
    BadRequest "bad_request" 400 Operator;
    /// `Content-Digest` is not that of the body: damaged on its way.
    Digest "digest" 400 Retry;
    /// The body cannot be decompressed.
    BadBody "bad_body" 400 Operator;
    /// No token, or one that is not valid.
    Token "token" 401 Operator;
    /// The token does not permit shipping to this origin.
    Forbidden "forbidden" 403 Operator;
    /// No such path.
    NotFound "not_found" 404 Operator;
    /// The offset is behind the end of what the hub has. The answer has that end.
    Offset "offset" 409 Seek;
    /// The hub has other bytes there.
    Contradiction "contradiction" 409 Fork;
    /// The generation is not the current one. The answer has that.
    Generation "generation" 409 Ask;
    /// Another shipper that is still alive sends to this origin.
    Busy "busy" 409 Operator;
    /// The body is larger than `BODY_BYTES_MAX`.
    TooLarge "too_large" 413 Operator;
    /// The content coding is neither none nor zstd.
    Encoding "encoding" 415 Operator;
    /// Too many requests.
    TooMany "too_many" 429 Retry;
    /// The hub failed.
    Internal "internal" 500 Retry;
    /// The hub starts, stops, or has too much to do.
    Unavailable "unavailable" 503 Retry;
    /// The hub's disk is full.
    DiskFull "disk_full" 507 Retry;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Body of every answer with a status of 400 or more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What is wrong.
    pub code: Code,
    /// The same for people.
    pub message: String,
    /// The hub's offset of the file: with [`Code::Offset`] and [`Code::Contradiction`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The current generation: with all answers of status 409.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
}

impl ErrorBody {
    /// An error without offset and generation.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), offset: None, generation: None }
    }
}

/// What a shipper does about an answer whose body is not an [`ErrorBody`], as that of a proxy.
#[must_use]
pub fn remedy_of_status(status: u16) -> Remedy {
    match status {
        408 | 425 | 429 | 500..=599 => Remedy::Retry,
        _ => Remedy::Operator,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json() {
        for code in Code::ALL {
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<Code>(&json).unwrap(), *code);
        }
    }

    #[test]
    fn only_what_is_said_is_in_the_body() {
        let mut error = ErrorBody::new(Code::Offset, "the file ends at 5");
        error.offset = Some(5);
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(text, r#"{"code":"offset","message":"the file ends at 5","offset":5}"#);
        assert_eq!(serde_json::from_str::<ErrorBody>(&text).unwrap(), error);
    }

    #[test]
    fn an_answer_of_a_proxy_is_waited_for_or_reported() {
        assert_eq!(remedy_of_status(502), Remedy::Retry);
        assert_eq!(remedy_of_status(403), Remedy::Operator);
    }
}
