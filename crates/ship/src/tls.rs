//! TLS to a receiver: trusted authorities, the client certificate, and error messages.
//!
//! The receiver's certificate is always verified: otherwise the log could be sent to anyone. No
//! option switches this off.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};

/// The options of TLS on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Authorities to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// Our certificate, and those between it and its authority.
    pub cert: Option<PathBuf>,
    /// The key of our certificate.
    pub key: Option<PathBuf>,
    /// The name that the receiver's certificate must have, instead of the host's.
    pub server_name: Option<String>,
}

/// Why no TLS connection can be tried.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not what it should be.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There is no trusted authority.
    #[error("this system has no trusted certificate authorities ({0}); name one with --tls-ca")]
    NoAuthorities(String),
    /// Not a host name or an address.
    #[error("a certificate cannot have the name `{0}`; set --tls-server-name")]
    Name(String),
    /// The certificate and the key do not match, or are not of a supported kind.
    #[error("cannot use --tls-cert with --tls-key: {0}")]
    Identity(rustls::Error),
    /// TLS is not available.
    #[error("cannot use TLS: {0}")]
    Other(#[from] rustls::Error),
}

/// What is needed to begin a connection.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Trusted authorities and the client certificate.
    pub config: Arc<ClientConfig>,
    /// Expected name of the receiver.
    pub name: ServerName<'static>,
}

impl Tls {
    /// Reads the files. `host` is the receiver's.
    ///
    /// # Errors
    /// A file is missing or not what it should be: a retry would not help.
    pub fn new(host: &str, options: &TlsOptions) -> Result<Self, TlsError> {
        let text = options.server_name.as_deref().unwrap_or(host);
        let name =
            ServerName::try_from(text.to_owned()).map_err(|_| TlsError::Name(text.to_owned()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(authorities(options.ca.as_deref())?);
        let config = match (&options.cert, &options.key) {
            (Some(cert), Some(key)) => {
                let chain = certificates(cert)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::File {
                    path: key.clone(),
                    reason: reason(&error),
                })?;
                config.with_client_auth_cert(chain, key).map_err(TlsError::Identity)?
            }
            _ => config.with_no_client_auth(),
        };
        Ok(Self { config: Arc::new(config), name })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |reason| TlsError::File { path: path.to_owned(), reason };
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| fail(reason(&error)))?;
    if certificates.is_empty() {
        return Err(fail("it has no PEM certificate (-----BEGIN CERTIFICATE-----)".to_owned()));
    }
    Ok(certificates)
}

fn reason(error: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match error {
        Error::Io(error) => error.to_string(),
        Error::NoItemsFound => "it has no such PEM block (-----BEGIN …)".to_owned(),
        error => error.to_string(),
    }
}

fn authorities(path: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    // Some of the system's may be of an unsupported kind; the others are used.
    store.add_parsable_certificates(trusted(path)?);
    Ok(store)
}

/// The certificates of the authorities in a file, or of those that the system trusts: at least one.
///
/// # Errors
/// There is none, or one in the file is not that of an authority.
pub fn trusted(path: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut store = RootCertStore::empty();
    if let Some(path) = path {
        let certificates = certificates(path)?;
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|error| TlsError::File {
                path: path.to_owned(),
                reason: format!("it is not the certificate of an authority: {error}"),
            })?;
        }
        return Ok(certificates);
    }
    let found = rustls_native_certs::load_native_certs();
    store.add_parsable_certificates(found.certs.iter().cloned());
    if store.is_empty() {
        let reasons: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        let reasons = if reasons.is_empty() {
            "is the package ca-certificates installed?".to_owned()
        } else {
            reasons.join("; ")
        };
        return Err(TlsError::NoAuthorities(reasons));
    }
    Ok(found.certs)
}

/// Describes why a connection failed, for people, with the options of `tacho ship` that may help.
pub fn explain(error: &io::Error) -> String {
    let hint = match tls_error(error) {
        Some(rustls::Error::InvalidCertificate(error)) => certificate_hint(error),
        Some(rustls::Error::AlertReceived(alert)) => alert_hint(*alert),
        _ => "",
    };
    describe(error) + hint
}

/// Describes why a connection failed, for people.
#[must_use]
pub fn describe(error: &io::Error) -> String {
    match tls_error(error) {
        Some(rustls::Error::InvalidCertificate(error)) => {
            format!("the receiver's certificate is refused: {}", certificate(error))
        }
        Some(rustls::Error::AlertReceived(alert)) => {
            format!("the receiver refuses the connection (TLS alert {alert:?})")
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            format!("{error}; check that this port speaks TLS")
        }
        Some(error) => error.to_string(),
        None => match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("it has expired ({error})")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("it is not valid yet ({error})")
        }
        CertificateError::UnknownIssuer => "its authority is not known".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it is for another name ({error})")
        }
        CertificateError::BadSignature => {
            "it is not signed by the authority that it names".to_owned()
        }
        CertificateError::Revoked => "it was revoked".to_owned(),
        error => error.to_string(),
    }
}

fn certificate_hint(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::UnknownIssuer => "; name it with --tls-ca",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "; see --tls-server-name"
        }
        CertificateError::BadSignature => "; check --tls-ca for another authority of that name",
        _ => "",
    }
}

fn alert_hint(alert: rustls::AlertDescription) -> &'static str {
    use rustls::AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired | Alert::NoCertificate => {
            ": it requires a client certificate; add --tls-cert and --tls-key"
        }
        Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::UnsupportedCertificate
        | Alert::AccessDenied => ": it does not accept the certificate of --tls-cert",
        Alert::HandshakeFailure => {
            ": no common cipher, or it requires a client certificate (--tls-cert)"
        }
        _ => "",
    }
}
