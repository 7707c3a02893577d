//! System calls of packet sockets.

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::mem::{size_of_val, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{ANY, LiveError};

/// A packet socket that is not bound.
pub(super) fn open() -> io::Result<OwnedFd> {
    // Protocol 0: nothing arrives before everything is set up.
    let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call has no pointers; its result is checked.
    let socket = unsafe { libc::socket(libc::AF_PACKET, flags, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Index of an interface; 0 is all.
pub(super) fn index_of(interface: &str) -> Result<i32, LiveError> {
    if interface == ANY {
        return Ok(0);
    }
    let none = || LiveError::NoInterface(interface.to_owned());
    let name = CString::new(interface).map_err(|_| none())?;
    index_of_name(&name).ok_or_else(none)
}

/// Index of the interface of this name.
pub(super) fn index_of_name(name: &CStr) -> Option<i32> {
    // SAFETY: the name is terminated.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    i32::try_from(index).ok().filter(|index| *index > 0)
}

/// Sets an option.
pub(super) fn set<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let value_bytes = size_of_val(value) as libc::socklen_t;
    // SAFETY: a valid descriptor; the pointer is valid for that many bytes.
    let rc = unsafe {
        let value = std::ptr::from_ref(value).cast::<c_void>();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, value_bytes)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Binds a socket to the interface of this index; 0 is all of them.
pub(super) fn bind(socket: &OwnedFd, index: i32) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: a valid descriptor; the pointer is valid for that many bytes.
    let rc = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
