//! Passwords in URLs: `scheme://user:password@host`.

use memchr::{memchr, memchr_iter, memrchr};

/// True when `text` has a URL with a password anywhere.
pub(super) fn has_password(text: &[u8]) -> bool {
    // Of the three parts of `://` and `@` the last one is the rarest in statements.
    memchr(b'@', text).is_some() && memchr_iter(b':', text).any(|at| is_with_password(&text[at..]))
}

/// `rest` begins with the colon behind a scheme.
pub(super) fn is_with_password(rest: &[u8]) -> bool {
    let Some(authority) = rest.strip_prefix(b"://") else { return false };
    let is_end = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'\'' | b'"' | b'<' | 0..=b' ');
    let authority = &authority[..authority.iter().position(is_end).unwrap_or(authority.len())];
    let Some(at) = memrchr(b'@', authority) else { return false };
    memchr(b':', &authority[..at]).is_some_and(|colon| colon + 1 < at)
}

#[cfg(test)]
mod tests {
    use super::has_password;

    #[test]
    fn only_urls_with_passwords() {
        for text in ["http://u:p@h", "x mysql://u:p@h:1/d y", "a:b http://a http://:p@h"] {
            assert!(has_password(text.as_bytes()), "{text}");
        }
        for text in
            ["http://h:80/a@b", "http://u@h", "http://u:@h", "a:b@c", "://", "http://h' 'u:p@h", ""]
        {
            assert!(!has_password(text.as_bytes()), "{text}");
        }
    }
}
