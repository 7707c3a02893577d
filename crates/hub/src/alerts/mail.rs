//! Sends alerts by mail. Each recipient is a channel: one that a mail server refuses does not keep
//! the message from the others, and none gets it twice.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, Message, SmtpTransport, Transport as _};
use rustls::RootCertStore;
use tacho_ship::syslog::host_of;
use tacho_ship::{small_file, tls};

use super::channels::Channel;
use super::notification::{Notification, plain};

/// For each step of the session.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Largest file with a password, bytes.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// Mail cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// Not the address of a server.
    #[error("{0:?} is not tls://HOST[:PORT], starttls://HOST[:PORT] or plain://HOST[:PORT]")]
    Server(String),
    /// Not a mail address.
    #[error("{0:?} is not a mail address")]
    Address(String),
    /// The file with the password cannot be used.
    #[error("cannot read the password of the mail account from {path}: {error}")]
    Password {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// A password would be readable on the network.
    #[error("a password is sent over tls:// or starttls:// only")]
    PlainPassword,
    /// There are no trusted authorities.
    #[error(transparent)]
    Authorities(#[from] tls::TlsError),
    /// TLS is not available.
    #[error("cannot use TLS: {0}")]
    Tls(lettre::transport::smtp::Error),
}

/// Where mail is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    security: Security,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    Tls,
    StartTls,
    Plain,
}

impl FromStr for Server {
    type Err = MailError;

    fn from_str(text: &str) -> Result<Self, MailError> {
        let bad = || MailError::Server(text.to_owned());
        let (scheme, address) = text.split_once("://").ok_or_else(bad)?;
        let (security, port) = match scheme {
            "tls" => (Security::Tls, 465),
            "starttls" => (Security::StartTls, 587),
            "plain" => (Security::Plain, 25),
            _ => return Err(bad()),
        };
        // The colons of an IPv6 address are within brackets.
        let has_port = address.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let (host, port) = match address.rsplit_once(':') {
            Some((_, text)) if has_port => (host_of(address), text.parse().map_err(|_| bad())?),
            _ => (address.trim_start_matches('[').trim_end_matches(']'), port),
        };
        if host.is_empty() || host.contains(['/', '@']) {
            return Err(bad());
        }
        Ok(Self { security, host: host.to_owned(), port })
    }
}

/// How mail is sent.
#[derive(Clone, Copy, Debug)]
pub struct MailOptions<'a> {
    /// `tls://`, `starttls://` or `plain://` with host and port.
    pub server: &'a str,
    /// The sender.
    pub from: &'a str,
    /// Account at the server, and the file with its password.
    pub login: Option<(&'a str, &'a Path)>,
    /// Authorities to trust instead of the system's.
    pub ca: Option<&'a Path>,
}

/// One recipient.
pub struct Mail {
    name: String,
    from: Mailbox,
    to: Mailbox,
    transport: SmtpTransport,
}

impl Mail {
    /// Reads the files; connects to nothing.
    ///
    /// # Errors
    /// An address or a file cannot be used.
    pub fn new(to: &str, options: &MailOptions<'_>) -> Result<Self, MailError> {
        let server: Server = options.server.parse()?;
        let (from, to) = (mailbox(options.from)?, mailbox(to)?);
        let tls = match server.security {
            Security::Plain if options.login.is_some() => return Err(MailError::PlainPassword),
            Security::Plain => Tls::None,
            Security::Tls => Tls::Wrapper(tls_parameters(&server.host, options.ca)?),
            Security::StartTls => Tls::Required(tls_parameters(&server.host, options.ca)?),
        };
        let mut transport = SmtpTransport::builder_dangerous(&server.host)
            .port(server.port)
            .tls(tls)
            .timeout(Some(TIMEOUT))
            .hello_name(ClientId::Domain(tacho_format::host_name()));
        if let Some((user, file)) = options.login {
            transport = transport.credentials(Credentials::new(user.to_owned(), password(file)?));
        }
        let name = format!("mail:{}", to.email);
        Ok(Self { name, from, to, transport: transport.build() })
    }

    fn message(&self, message: &Notification) -> Result<Message, lettre::error::Error> {
        let created = Duration::from_micros(message.created_us.unsigned_abs());
        let domain = self.from.email.domain();
        // The same at each try, so that a mailbox can find out what it has already.
        let id = format!("<tacho-{}.{}@{domain}>", message.id, message.created_us);
        let builder: MessageBuilder = Message::builder()
            .from(self.from.clone())
            .to(self.to.clone())
            .subject(message.subject())
            .date(UNIX_EPOCH.checked_add(created).unwrap_or_else(SystemTime::now))
            .message_id(Some(id))
            // RFC 3834: no vacation notice answers it.
            .raw_header(HeaderValue::new(
                HeaderName::new_from_ascii_str("Auto-Submitted"),
                "auto-generated".to_owned(),
            ));
        builder.singlepart(SinglePart::plain(message.lines().join("\r\n") + "\r\n"))
    }
}

impl Channel for Mail {
    fn name(&self) -> &str {
        &self.name
    }

    fn send(&mut self, message: &Notification) -> Result<(), String> {
        let mail = self.message(message).map_err(|error| error.to_string())?;
        self.transport.send(&mail).map(drop).map_err(|error| explain(&error))
    }
}

fn mailbox(text: &str) -> Result<Mailbox, MailError> {
    let address: Result<Address, _> = text.parse();
    let address = address.map_err(|_| MailError::Address(text.to_owned()))?;
    Ok(Mailbox::new(None, address))
}

fn password(path: &Path) -> Result<String, MailError> {
    let text = small_file::read_text(path, PASSWORD_BYTES_MAX);
    let text =
        text.map_err(|error| MailError::Password { path: path.display().to_string(), error })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn tls_parameters(host: &str, ca: Option<&Path>) -> Result<TlsParameters, MailError> {
    let mut builder =
        TlsParameters::builder(host.to_owned()).certificate_store(CertificateStore::None);
    for der in tls::trusted(ca)? {
        // Some of the system's may be of an unsupported kind; the others are used.
        if RootCertStore::empty().add(der.clone()).is_ok() {
            let certificate = Certificate::from_der(der.to_vec()).map_err(MailError::Tls)?;
            builder = builder.add_root_certificate(certificate);
        }
    }
    builder.build_rustls().map_err(MailError::Tls)
}

/// Why the server has not accepted a mail: the reason of TLS, or its answer.
fn explain(error: &lettre::transport::smtp::Error) -> String {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return tls::describe(cause);
        }
        source = cause.source();
    }
    plain(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_the_ports_of_their_protocol() {
        let server = |text: &str| {
            let Server { security, host, port } = text.parse().unwrap();
            (security, host, port)
        };
        assert_eq!(server("tls://a.example"), (Security::Tls, "a.example".into(), 465));
        assert_eq!(server("starttls://a"), (Security::StartTls, "a".into(), 587));
        assert_eq!(server("plain://[::1]"), (Security::Plain, "::1".into(), 25));
        assert_eq!(server("plain://[::1]:2525"), (Security::Plain, "::1".into(), 2525));
        for bad in ["", "a", "smtp://a", "tls://", "tls://a:x", "tls://:25", "tls://u:p@a"] {
            assert!(bad.parse::<Server>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mail_has_only_its_own_headers() {
        let options =
            MailOptions { server: "plain://a", from: "hub@a.example", login: None, ca: None };
        let mail = Mail::new("ann@b.example", &options).unwrap();
        let mut message = Notification::test(5);
        message.alerts[0].alert.title = "x\r\nBcc: evil@c.example\r\n\r\nbody é".to_owned();
        message.alerts[0].alert.message = "y\r\n.\r\nMAIL FROM:<evil@c.example>".to_owned();
        let text = String::from_utf8(mail.message(&message).unwrap().formatted()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut names: Vec<&str> = head
            .lines()
            .filter(|line| !line.starts_with(' '))
            .map(|line| line.split(':').next().unwrap())
            .collect();
        names.sort_unstable();
        let expected = [
            "Auto-Submitted",
            "Content-Transfer-Encoding",
            "Content-Type",
            "Date",
            "From",
            "MIME-Version",
            "Message-ID",
            "Subject",
            "To",
        ];
        assert_eq!(names, expected);
        assert!(head.contains("Message-ID: <tacho-5.5@a.example>"), "{head}");
        assert!(!body.lines().any(|line| line == "."), "{body}");
    }

    #[test]
    fn a_password_is_not_sent_in_the_clear() {
        let login = Some(("ann", Path::new("/nowhere")));
        let options = MailOptions { server: "plain://a", from: "hub@a.example", login, ca: None };
        assert!(matches!(Mail::new("a@b.example", &options), Err(MailError::PlainPassword)));
        let options = MailOptions { login: None, ..options };
        for bad in ["ann", "ann@b\r\nX: y", "Ann <ann@b.example>", ""] {
            assert!(matches!(Mail::new(bad, &options), Err(MailError::Address(_))), "{bad}");
        }
    }
}
