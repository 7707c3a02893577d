//! Where the hub is.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ureq::http::Uri;

/// A URL without what does not belong into the address of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Without a slash at its end.
    base: String,
    is_secure: bool,
}

/// Why it is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not understood.
    #[error("expected https://HOST[:PORT], or http://127.0.0.1:PORT on this machine")]
    Url,
    /// Others could read the token and the log.
    #[error(
        "http:// is permitted only to a loopback address (127.0.0.1, [::1], localhost); use \
         https://"
    )]
    NotSecure,
}

impl Address {
    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Whether TLS is used.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let uri: Uri = text.parse().map_err(|_| AddressError::Url)?;
        let authority = uri.authority().ok_or(AddressError::Url)?;
        let host = authority.host();
        if host.is_empty() || authority.as_str().contains('@') || uri.query().is_some() {
            return Err(AddressError::Url);
        }
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") if is_loopback(host) => false,
            Some("http") => return Err(AddressError::NotSecure),
            _ => return Err(AddressError::Url),
        };
        Ok(Self { base: text.trim_end_matches('/').to_owned(), is_secure })
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_does_not_cross_a_network_in_plain_text() {
        for good in ["https://hub", "https://hub:7780/x", "http://127.0.0.1:7780", "http://[::1]:1"]
        {
            assert_eq!(good.parse::<Address>().unwrap().url("/y"), format!("{good}/y"));
        }
        assert_eq!(
            "http://localhost:7780/".parse::<Address>().unwrap().url("/y"),
            "http://localhost:7780/y"
        );
        for bad in ["http://hub", "http://127.0.0.1.example", "http://10.0.0.1:7780"] {
            assert_eq!(bad.parse::<Address>(), Err(AddressError::NotSecure), "{bad}");
        }
        for bad in
            ["", "hub", "hub:7780", "ftp://hub", "https://", "https://a@hub", "https://hub/?a"]
        {
            assert_eq!(bad.parse::<Address>(), Err(AddressError::Url), "{bad}");
        }
    }
}
