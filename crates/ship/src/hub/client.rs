//! Requests and answers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use super::Address;
use crate::protocol::answers::{Heartbeat, HeartbeatAnswer, NewGeneration, OriginState, Stored};
use crate::protocol::digest::{Before, ContentDigest};
use crate::protocol::errors::{ErrorBody, Remedy, remedy_of_status};
use crate::protocol::names::{self, Origin};
use crate::protocol::{self, ANSWER_JSON_BYTES_MAX};
use crate::small_file;
use crate::source::Portion;
use crate::tls::{self, TlsError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a hub may take for a step of a request.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// Level of compression: more costs the host of a database more than it saves.
const ZSTD_LEVEL: i32 = 1;
/// A token is a line.
const TOKEN_BYTES_MAX: u64 = 4096;
/// Longest text of an error that is shown.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The token cannot be read.
    #[error("cannot read the token file {}: {error}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The token is none.
    #[error(
        "{} has no token: one line of printable characters is expected, as `tacho-hub token \
         create` prints it", .0.display()
    )]
    NoToken(PathBuf),
    /// TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system has no random numbers.
    #[error("cannot get random bytes: {0}")]
    Random(getrandom::Error),
}

/// How to reach a hub.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it is.
    pub address: Address,
    /// Name of the log at the hub.
    pub origin: Origin,
    /// File with the token.
    pub token_file: PathBuf,
    /// Authorities to trust instead of the system's.
    pub ca: Option<PathBuf>,
}

/// Why a request did not do what it was for.
#[derive(Debug)]
pub enum Failure {
    /// There was no answer.
    Lost(String),
    /// The answer says no.
    Refused(Box<Refusal>),
}

/// An answer that says no.
#[derive(Debug)]
pub struct Refusal {
    /// Status of HTTP.
    pub status: u16,
    /// The error, if it is an answer of this protocol.
    pub error: Option<ErrorBody>,
    /// When to try again.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// The remedy.
    pub fn remedy(&self) -> Remedy {
        self.error.as_ref().map_or(remedy_of_status(self.status), |error| error.code.remedy())
    }
}

impl Failure {
    /// The remedy.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Lost(_) => Remedy::Retry,
            Self::Refused(refusal) => refusal.remedy(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost(reason) => f.write_str(reason),
            Self::Refused(refusal) => match &refusal.error {
                Some(error) => write!(f, "{} ({})", error.message, error.code),
                None => write!(
                    f,
                    "the answer has status {} and is not that of a hub; check the address",
                    refusal.status
                ),
            },
        }
    }
}

/// A client of one origin.
pub struct Client {
    agent: Agent,
    address: Address,
    origin: Origin,
    authorization: String,
    instance: String,
}

impl Client {
    /// Reads the token and the certificates. Does not connect yet.
    ///
    /// # Errors
    /// A file is missing or not what it should be.
    pub fn new(options: &Options) -> Result<Self, ClientError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(ClientError::Random)?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(64 << 10)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_per_read(Some(STEP_TIMEOUT))
            .timeout_per_write(Some(STEP_TIMEOUT))
            .timeout_recv_response(Some(STEP_TIMEOUT))
            .user_agent(concat!("tacho/", env!("CARGO_PKG_VERSION")))
            .https_only(options.address.is_secure());
        let config = if options.address.is_secure() {
            config.tls_config(tls_config(options.ca.as_deref())?)
        } else {
            // A proxy on the way to this machine would be an error.
            config.proxy(None)
        };
        Ok(Self {
            agent: config.build().new_agent(),
            address: options.address.clone(),
            origin: options.origin.clone(),
            authorization: format!("Bearer {}", token(&options.token_file)?),
            instance: random.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    /// Where the hub is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Name of the log at the hub.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Asks for the state of the hub's copy.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn state(&self) -> Result<OriginState, Failure> {
        let url = self.address.url(&names::origin_path(&self.origin));
        let request = self.agent.get(&url);
        let request = request.header("authorization", &self.authorization);
        read(request.header(protocol::INSTANCE_HEADER, &self.instance).call())
    }

    /// Sends bytes of a file. Returns the answer and the number of bytes that were sent.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn put(&self, portion: &Portion, generation: u64) -> Result<(Stored, usize), Failure> {
        let Portion { name, offset, before, bytes } = portion;
        let path = names::file_path(&self.origin, name);
        let url = self.address.url(&format!("{path}?offset={offset}&generation={generation}"));
        let packed = zstd::bulk::compress(bytes, ZSTD_LEVEL).unwrap_or_default();
        let is_packed = !packed.is_empty() && packed.len() < bytes.len();
        let body = if is_packed { &packed } else { bytes };
        let mut request = self
            .agent
            .put(&url)
            .header("authorization", &self.authorization)
            .header(protocol::INSTANCE_HEADER, &self.instance)
            .header("content-type", protocol::CONTENT_TYPE)
            .header(protocol::DIGEST_HEADER, ContentDigest::of(body).to_string());
        if *offset > 0 {
            request = request.header(protocol::BEFORE_HEADER, Before::of(before).to_string());
        }
        if is_packed {
            request = request.header("content-encoding", protocol::ENCODING);
        }
        Ok((read(request.send(&body[..]))?, body.len()))
    }

    /// Begins a new generation.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn begin_generation(&self, request: &NewGeneration) -> Result<OriginState, Failure> {
        self.post(&names::generations_path(&self.origin), request)
    }

    /// Says that the shipper is alive.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Failure> {
        self.post(&names::heartbeat_path(&self.origin), heartbeat)
    }

    fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).map_err(|error| Failure::Lost(error.to_string()))?;
        let request = self
            .agent
            .post(self.address.url(path))
            .header("authorization", &self.authorization)
            .header(protocol::INSTANCE_HEADER, &self.instance)
            .header("content-type", "application/json");
        read(request.send(&body[..]))
    }
}

fn token(path: &Path) -> Result<String, ClientError> {
    let text = small_file::read_text(path, TOKEN_BYTES_MAX)
        .map_err(|error| ClientError::Token { path: path.to_owned(), error })?;
    let token = text.trim();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if is_token { Ok(token.to_owned()) } else { Err(ClientError::NoToken(path.to_owned())) }
}

fn tls_config(ca: Option<&Path>) -> Result<TlsConfig, ClientError> {
    let certificates: Vec<_> =
        tls::trusted(ca)?.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .build())
}

fn read<T: DeserializeOwned>(answer: Result<Response<Body>, ureq::Error>) -> Result<T, Failure> {
    let mut answer = answer.map_err(|error| Failure::Lost(explain(error)))?;
    let status = answer.status().as_u16();
    let is_good = answer.status().is_success();
    let retry_after = answer
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs));
    let limit = if is_good { ANSWER_JSON_BYTES_MAX as u64 } else { ERROR_BYTES_MAX };
    let body = answer.body_mut().with_config().limit(limit).read_to_vec();
    if !is_good {
        let error = body.ok().and_then(|body| serde_json::from_slice(&body).ok());
        return Err(Failure::Refused(Box::new(Refusal { status, error, retry_after })));
    }
    let body = body.map_err(|error| Failure::Lost(explain(error)))?;
    serde_json::from_slice(&body)
        .map_err(|error| Failure::Lost(format!("not the answer of a hub: {error}")))
}

/// Describes why there was no answer.
fn explain(error: ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => tls::explain(&error),
        ureq::Error::Rustls(error) => tls::explain(&io::Error::other(error)),
        ureq::Error::Timeout(step) => format!("no answer in time ({step})"),
        error => error.to_string(),
    }
}
