//! Where alerts are sent, as it is said on the command line.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use tacho_ship::small_file;

use super::channels::Channel;
use super::grouping::Timing;
use super::mail::{Mail, MailError, MailOptions};
use super::syslog::{Syslog, SyslogError};
use super::webhook::{Webhook, WebhookError, WebhookFormat};

const SECOND_US: i64 = 1_000_000;
/// Largest file with a URL, bytes.
const URL_BYTES_MAX: u64 = 4096;
/// Recipients of mails.
const RECIPIENTS_MAX: usize = 20;

/// Channels for alerts. Secrets are in files only.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Alerts")]
pub struct AlertArgs {
    /// URL to which alerts are sent
    #[arg(long, value_name = "URL")]
    pub webhook: Option<String>,
    /// File with the URL, where it has a secret in it
    #[arg(long, value_name = "FILE", conflicts_with = "webhook")]
    pub webhook_file: Option<PathBuf>,
    /// What the webhook expects
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub webhook_format: WebhookFormat,
    /// Let the webhook be at an address that is not public
    #[arg(long)]
    pub webhook_allow_private: bool,
    /// Mail server: tls://HOST[:465], starttls://HOST[:587] or plain://HOST[:25]
    #[arg(long, value_name = "SERVER", requires_all = ["mail_from", "mail_to"])]
    pub mail_server: Option<String>,
    /// Sender of mails
    #[arg(long, value_name = "ADDRESS", requires = "mail_server")]
    pub mail_from: Option<String>,
    /// Recipient of mails; can be repeated
    #[arg(long, value_name = "ADDRESS", requires = "mail_server")]
    pub mail_to: Vec<String>,
    /// Account at the mail server
    #[arg(long, value_name = "NAME", requires = "mail_password_file", requires = "mail_server")]
    pub mail_user: Option<String>,
    /// File with the password of the account
    #[arg(long, value_name = "FILE", requires = "mail_user")]
    pub mail_password_file: Option<PathBuf>,
    /// Syslog server: udp://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or the path of a socket
    #[arg(long, value_name = "SERVER")]
    pub syslog: Option<String>,
    /// Authorities that webhook, mail server and syslog server are trusted by, instead of the
    /// system's (PEM)
    #[arg(long, value_name = "FILE")]
    pub alert_ca: Option<PathBuf>,
    /// Seconds from the first alert of a rule to its message: others of that time are in it
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub alert_wait: u32,
    /// Seconds between two messages about a rule
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub alert_interval: u32,
    /// Seconds until alerts that are open are sent again
    #[arg(long, value_name = "SECONDS", default_value_t = 14_400)]
    pub alert_repeat: u32,
}

/// The channels cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The webhook.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// The file with its URL.
    #[error("cannot read the URL of the webhook from {path}: {error}")]
    UrlFile {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// Mail.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// Too many recipients.
    #[error("at most {RECIPIENTS_MAX} recipients (--mail-to): use the address of a list")]
    Recipients,
    /// Syslog.
    #[error(transparent)]
    Syslog(#[from] SyslogError),
    /// The working directory is gone.
    #[error("cannot find the working directory: {0}")]
    Directory(io::Error),
}

impl AlertArgs {
    /// The same with absolute paths.
    ///
    /// # Errors
    /// There is no working directory.
    pub fn absolute(mut self) -> Result<Self, SettingsError> {
        let paths = [&mut self.webhook_file, &mut self.mail_password_file, &mut self.alert_ca];
        for path in paths.into_iter().flatten() {
            *path = std::path::absolute(&*path).map_err(SettingsError::Directory)?;
        }
        Ok(self)
    }

    /// When messages are sent.
    #[must_use]
    pub fn timing(&self) -> Timing {
        Timing {
            wait_us: i64::from(self.alert_wait) * SECOND_US,
            interval_us: i64::from(self.alert_interval) * SECOND_US,
            repeat_us: i64::from(self.alert_repeat) * SECOND_US,
        }
    }

    /// Reads the files of all channels; connects to nothing.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn channels(&self) -> Result<Vec<Box<dyn Channel>>, SettingsError> {
        let mut channels: Vec<Box<dyn Channel>> = Vec::new();
        let ca = self.alert_ca.as_deref();
        let url = match &self.webhook_file {
            Some(path) => Some(url_of(path)?),
            None => self.webhook.clone(),
        };
        if let Some(url) = url {
            let allow_private = self.webhook_allow_private;
            let webhook = Webhook::new(&url, self.webhook_format, allow_private, ca)?;
            channels.push(Box::new(webhook));
        }
        if let (Some(server), Some(from)) = (&self.mail_server, &self.mail_from) {
            let login = self.mail_user.as_deref().zip(self.mail_password_file.as_deref());
            let options = MailOptions { server, from, login, ca };
            let mut recipients = self.mail_to.clone();
            recipients.sort_unstable();
            recipients.dedup();
            if recipients.len() > RECIPIENTS_MAX {
                return Err(SettingsError::Recipients);
            }
            for to in &recipients {
                channels.push(Box::new(Mail::new(to, &options)?));
            }
        }
        if let Some(to) = &self.syslog {
            channels.push(Box::new(Syslog::new(to, ca)?));
        }
        Ok(channels)
    }
}

fn url_of(path: &Path) -> Result<String, SettingsError> {
    let text = small_file::read_text(path, URL_BYTES_MAX);
    let text =
        text.map_err(|error| SettingsError::UrlFile { path: path.display().to_string(), error })?;
    Ok(text.trim().to_owned())
}
