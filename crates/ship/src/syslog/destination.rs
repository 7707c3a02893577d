//! Where messages go, as it is said on the command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// `udp://host:port`
    Udp(String),
    /// `tcp://host:port`
    Tcp(String),
    /// `tls://host:port`
    Tls(String),
    /// The path of a datagram socket.
    Unix(PathBuf),
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, address) = match text.split_once("://") {
            None if text.starts_with('/') => return Ok(Self::Unix(PathBuf::from(text))),
            None => ("", text),
            Some(parts) => parts,
        };
        let has_port = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        match scheme {
            "udp" if has_port => Ok(Self::Udp(address.to_owned())),
            "tcp" if has_port => Ok(Self::Tcp(address.to_owned())),
            "tls" if has_port => Ok(Self::Tls(address.to_owned())),
            _ => {
                Err("expected udp://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or the path of a \
                      socket"
                    .to_owned())
            }
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(formatter, "udp://{address}"),
            Self::Tcp(address) => write!(formatter, "tcp://{address}"),
            Self::Tls(address) => write!(formatter, "tls://{address}"),
            Self::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// The host of `host:port`, without the brackets of an IPv6 address.
#[must_use]
pub fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations() {
        for good in
            ["udp://log.example:514", "tcp://[::1]:601", "tls://log.example:6514", "/dev/log"]
        {
            assert_eq!(good.parse::<Destination>().unwrap().to_string(), good);
        }
        for bad in ["", "log:514", "ssl://log:6514", "udp://log", "tls://log", "udp://log:99999"] {
            assert!(bad.parse::<Destination>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_host_is_what_a_certificate_names() {
        assert_eq!(host_of("log.example:6514"), "log.example");
        assert_eq!(host_of("[2001:db8::1]:6514"), "2001:db8::1");
    }
}
