//! State that all requests share. A part of the hub that needs more keeps it in a type of its own,
//! and adds one field here.

use std::sync::Arc;

use tokio::sync::watch;

use crate::api::export::ExportState;
use crate::api::session::SignIn;
use crate::api::ship::ShipState;
use crate::audit::Audit;
use crate::data::DataDirectory;
use crate::database::Database;
use crate::index::Index;
use crate::retention::Meter;
use crate::verification::Verification;

/// Shared by all requests; a clone is cheap.
#[derive(Clone)]
pub struct AppState {
    /// Accounts, tokens, alerts.
    pub database: Database,
    /// Where things are on the disk.
    pub data: Arc<DataDirectory>,
    /// Receives logs.
    pub ship: ShipState,
    /// Searches records.
    pub index: Index,
    /// States of the seals.
    pub verification: Verification,
    /// Records what requests do.
    pub audit: Audit,
    /// Exports.
    pub export: ExportState,
    /// What the logs need of the disk.
    pub storage: Meter,
    /// Signing in.
    pub sign_in: SignIn,
    /// Becomes true when the hub stops. Requests that do not end otherwise (live views) end then.
    pub stopping: watch::Receiver<bool>,
}
