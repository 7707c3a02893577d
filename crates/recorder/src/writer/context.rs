//! Settings, status and error log, which all parts of the writer use.

use std::sync::Arc;
use tacho_settings::Setting;

use crate::control::{Control, Log, Severity, Status};

/// Shared context of the writer's parts, see the module documentation.
pub(super) struct Context {
    pub(super) control: Arc<Control>,
    pub(super) status: Arc<Status>,
    log: Log,
}

impl Context {
    pub(super) fn new(control: Arc<Control>, status: Arc<Status>, log: Log) -> Context {
        Context { control, status, log }
    }

    /// Writes to the error log.
    pub(super) fn say(&self, severity: Severity, text: &str) {
        (self.log)(severity, text);
    }

    /// Shows an error in the status.
    pub(super) fn show_error(&self, text: &str) {
        Status::set(&self.status.last_error, text);
    }

    /// Shows an error in the status, and writes it to the error log if it is news there.
    pub(super) fn report(&self, severity: Severity, text: &str, is_news: bool) {
        if is_news {
            self.say(severity, text);
        }
        self.show_error(text);
    }

    /// The name of a setting in this server.
    pub(super) fn name(&self, setting: Setting) -> String {
        self.control.name(setting)
    }
}
