//! Passwords in URLs: `scheme://user:password@host`.

use memchr::{memchr, memchr_iter, memrchr};

/// True when `text` has a URL with a password anywhere.
pub(super) fn has_password(text: &[u8]) -> bool {
    // Of the three parts of `://` and `@` the last one is the rarest in statements.
    memchr(b'@', text).is_some() && memchr_iter(b':', text).any(|at| is_with_password(&text[at..]))
}

/// `rest` begins with the colon after a scheme.
fn is_with_password(rest: &[u8]) -> bool {
    let Some(authority) = rest.strip_prefix(b"://") else { return false };
    let is_end = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'\'' | b'"' | b'<' | 0..=b' ');
    let authority = &authority[..authority.iter().position(is_end).unwrap_or(authority.len())];
    let Some(at) = memrchr(b'@', authority) else { return false };
    memchr(b':', &authority[..at]).is_some_and(|colon| colon + 1 < at)
}

/// True if a statement may have a URL with a password, in one literal or in the parts that several
/// literals have of it. Quotes and comments are not distinguished here: it may be true for a
/// statement without one.
pub(super) fn suspects(sql: &[u8]) -> bool {
    has_at_sign(sql) && memchr_iter(b':', sql).any(|at| may_have_password(sql, at + 1))
}

/// Whether there is an `@`. Every text is checked, and most are short: calling a search for long
/// ones costs more than the search.
fn has_at_sign(sql: &[u8]) -> bool {
    // Without branches, so that a block is compared at once.
    let has = |block: &[u8; 16]| block.iter().fold(false, |found, byte| found | (*byte == b'@'));
    match sql.last_chunk() {
        Some(last) => has(last) || sql.as_chunks().0.iter().any(has),
        None => sql.contains(&b'@'),
    }
}

/// `at` is after the colon of a scheme.
fn may_have_password(sql: &[u8], mut at: usize) -> bool {
    let mut slashes = 0;
    let mut has_colon = false;
    let mut has_password = false;
    while let Some(byte) = sql.get(at) {
        match byte {
            b'/' if slashes < 2 => slashes += 1,
            b'\'' | b'"' | b'\\' => {
                let quote = at + sql[at..].iter().take_while(|byte| **byte == b'\\').count();
                at = if matches!(sql.get(quote), Some(b'\'' | b'"')) {
                    match joint(sql, quote) {
                        Joint::Literals(end) => end,
                        Joint::Comment => return true,
                        Joint::None => return false,
                    }
                } else if slashes < 2 {
                    return false;
                } else {
                    // Backslashes in a name or password.
                    has_password = has_colon;
                    quote
                };
                continue;
            }
            // Other colons than those of URLs end here.
            _ if slashes < 2 => return false,
            b'/' | b'?' | b'#' | b'<' | 0..=b' ' => return false,
            b'@' if has_password => return true,
            b':' if !has_colon => has_colon = true,
            _ => has_password = has_colon,
        }
        at += 1;
    }
    false
}

/// The text after a part of a URL.
enum Joint {
    /// Quotes, and anything that may be between two literals that become one. Ends here.
    Literals(usize),
    /// A comment begins or ends: another literal may follow.
    Comment,
    /// Anything that no other literal can follow.
    None,
}

/// The text from the quote at `start` on, which ends a literal.
fn joint(sql: &[u8], start: usize) -> Joint {
    let mut quotes = 0;
    let mut end = start;
    while let Some(byte) = sql.get(end) {
        match byte {
            b'\'' | b'"' => quotes += 1,
            // In a nested literal the quotes are doubled, or have a backslash. A byte above 0x7F
            // may be a space.
            b'\\' | b',' | b'|' | 0..=b' ' | 0x7F.. => {}
            b'#' => return Joint::Comment,
            b'-' | b'/' | b'*' if is_comment(&sql[end..]) => return Joint::Comment,
            _ => break,
        }
        end += 1;
    }
    if quotes > 1 { Joint::Literals(end) } else { Joint::None }
}

fn is_comment(rest: &[u8]) -> bool {
    // The end is that of a versioned comment.
    [b"--", b"/*", b"*/"].into_iter().any(|mark| rest.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::{has_password, suspects};

    #[test]
    fn only_urls_with_passwords() {
        for text in [
            "http://u:p@h",
            "x mysql://u:p@h:1/d y",
            "a:b http://a http://:p@h",
            "http://u:p\\\\w@h",
            "http://u\\:p\\@h",
        ] {
            assert!(has_password(text.as_bytes()), "{text}");
            assert!(suspects(text.as_bytes()), "{text}");
        }
        for text in
            ["http://h:80/a@b", "http://u@h", "http://u:@h", "a:b@c", "://", "http://h' 'u:p@h", ""]
        {
            assert!(!has_password(text.as_bytes()), "{text}");
        }
    }

    /// Ordinary statements are not split into tokens.
    #[test]
    fn ordinary_statements_are_not_suspected() {
        for text in [
            "INSERT INTO t VALUES ('http://h/a', 'a@b.c', '12:30:00')",
            "INSERT INTO t VALUES ('{\"url\":\"http://h\",\"mail\":\"a@b.c\",\"at\":\"12:30\"}')",
            "SELECT 'http://h:80/a@b', \"a\":'', 'u@h'",
            "SET @a := 'b'",
            "INSERT INTO t VALUES ('http://h:80')",
        ] {
            assert!(!suspects(text.as_bytes()), "{text}");
        }
    }
}
