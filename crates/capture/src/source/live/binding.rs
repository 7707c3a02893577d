//! What the sockets are bound to.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::{ANY, socket};

/// A change of the interface since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Same,
    /// There is no interface of that name.
    Gone,
    /// There is another one of the same name. It is captured from now on.
    New,
}

/// The sockets of all rings, and the interface that they are bound to.
pub struct Binding {
    interface: String,
    /// Index of the interface; 0 is all.
    index: i32,
    /// There was no interface of this name at the last look.
    is_gone: bool,
    sockets: Vec<Arc<OwnedFd>>,
}

impl Binding {
    pub(super) fn new(interface: &str, index: i32, sockets: Vec<Arc<OwnedFd>>) -> Binding {
        Binding { interface: interface.to_owned(), index, is_gone: false, sockets }
    }

    /// Follows an interface that was removed and made again, such as that of a tunnel or of a
    /// container: the sockets are bound to the old one.
    pub fn follow(&mut self) -> Change {
        if self.interface == ANY {
            return Change::Same;
        }
        match socket::index_of(&self.interface) {
            Ok(index) if index == self.index && !self.is_gone => Change::Same,
            // It may be removed again at any time.
            Ok(index) if self.sockets.iter().all(|it| socket::bind(it, index).is_ok()) => {
                (self.index, self.is_gone) = (index, false);
                Change::New
            }
            _ => {
                self.is_gone = true;
                Change::Gone
            }
        }
    }
}
