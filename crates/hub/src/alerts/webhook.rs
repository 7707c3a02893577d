//! Sends alerts by HTTP: to Alertmanager's receivers, and to chat tools.

mod egress;
mod formats;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tacho_ship::tls;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;

use super::channels::Channel;
use super::notification::Notification;
use egress::PublicOnly;
pub use formats::WebhookFormat;

const TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// The webhook cannot be used. The URL can have a secret in it, and is not shown.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Not a URL of HTTP.
    #[error("the webhook is not a URL that begins with https:// or http://")]
    Url,
    /// There are no trusted authorities.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
}

/// A URL that takes messages.
pub struct Webhook {
    url: Uri,
    format: WebhookFormat,
    agent: Agent,
}

impl Webhook {
    /// `ca`: authorities to trust instead of the system's. Without `allow_private`, only public
    /// addresses are connected to.
    ///
    /// # Errors
    /// The URL or the authorities cannot be used.
    pub fn new(
        url: &str,
        format: WebhookFormat,
        allow_private: bool,
        ca: Option<&Path>,
    ) -> Result<Self, WebhookError> {
        let url: Uri = url.trim().parse().map_err(|_| WebhookError::Url)?;
        let has_host = url.host().is_some_and(|host| !host.is_empty());
        // A redirect could lead to another host, and so could a proxy.
        let config = Agent::config_builder()
            .max_redirects(0)
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT));
        let config = match url.scheme_str() {
            Some("http") if has_host => config,
            Some("https") if has_host => config.tls_config(tls_config(ca)?),
            _ => return Err(WebhookError::Url),
        };
        let connector = DefaultConnector::default();
        let agent = if allow_private {
            Agent::with_parts(config.build(), connector, DefaultResolver::default())
        } else {
            Agent::with_parts(config.build(), connector, PublicOnly::default())
        };
        Ok(Self { url, format, agent })
    }
}

impl Channel for Webhook {
    fn name(&self) -> &str {
        "webhook"
    }

    fn send(&mut self, message: &Notification) -> Result<(), String> {
        let body = self.format.body(message).to_string();
        let request = self.agent.post(&self.url).header("content-type", "application/json");
        let mut answer = request.send(body).map_err(explain)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("the receiver answered with status {}", status.as_u16()));
        }
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        self.format.check(&body.map_err(explain)?)
    }
}

fn tls_config(ca: Option<&Path>) -> Result<TlsConfig, tls::TlsError> {
    let authorities = tls::trusted(ca)?;
    let authorities: Vec<_> =
        authorities.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(authorities)))
        .build())
}

fn explain(error: ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => tls::describe(&error),
        ureq::Error::Rustls(error) => tls::describe(&io::Error::other(error)),
        ureq::Error::Timeout(step) => format!("no answer in time ({step})"),
        ureq::Error::BadUri(_) => WebhookError::Url.to_string(),
        error => error.to_string(),
    }
}
