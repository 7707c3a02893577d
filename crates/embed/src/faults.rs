//! Faults of the configuration at the start, until they are fixed: for SHOW STATUS and the log.

use std::sync::{Mutex, PoisonError};

/// A part of the configuration that the recorder can run without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The filter: everything is recorded.
    Filter,
    /// The recipients of closed files: they are not encrypted.
    Encryption,
    /// The rewrite rules: no statement is rewritten.
    Rewrite,
}

impl Fault {
    /// See `tacho_fault`.
    pub fn of(number: i32) -> Option<Fault> {
        [Fault::Filter, Fault::Encryption, Fault::Rewrite]
            .into_iter()
            .find(|fault| *fault as i32 == number)
    }

    /// The variable of the `config` line, and the end of the status variable's name.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Filter => "filter_error",
            Fault::Encryption => "encryption_error",
            Fault::Rewrite => "rewrite_error",
        }
    }
}

/// The error of each part; empty: none.
#[derive(Debug, Default)]
pub struct Faults([Mutex<String>; 3]);

impl Faults {
    /// Sets or clears an error. Returns the previous text, if it differs.
    pub fn set(&self, fault: Fault, text: &str) -> Option<String> {
        let mut current = self.0[fault as usize].lock().unwrap_or_else(PoisonError::into_inner);
        (*current != text).then(|| std::mem::replace(&mut *current, text.to_owned()))
    }

    /// The error.
    pub fn text(&self, fault: Fault) -> String {
        self.0[fault as usize].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_reported_once() {
        let faults = Faults::default();
        assert_eq!(faults.set(Fault::Filter, ""), None);
        assert_eq!(faults.set(Fault::Filter, "wrong").as_deref(), Some(""));
        assert_eq!(faults.set(Fault::Filter, "wrong"), None);
        assert_eq!(faults.text(Fault::Filter), "wrong");
        assert_eq!(faults.text(Fault::Rewrite), "");
        assert_eq!(faults.set(Fault::Filter, "").as_deref(), Some("wrong"));
    }

    #[test]
    fn each_has_its_number() {
        for fault in [Fault::Filter, Fault::Encryption, Fault::Rewrite] {
            assert_eq!(Fault::of(fault as i32), Some(fault));
        }
        assert_eq!(Fault::of(3), None);
    }
}
