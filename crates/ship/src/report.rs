//! Messages to the operator.

use std::sync::Arc;

/// Shows a message. A library does not know where messages go.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// Shows nothing.
#[cfg(test)]
pub fn none() -> Report {
    Arc::new(|_| ())
}
