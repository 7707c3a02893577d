//! `*` stands for any characters, `?` for one, and `\` makes the next character literal.

/// Whether `text`, in UTF-8, matches `pattern`. `fold`: ASCII letters of either case are equal, as
/// in host names.
///
/// Takes at most `pattern.len() * text.len()` steps.
pub fn matches(pattern: &[u8], text: &[u8], fold: bool) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to continue if the last `*` stands for more than guessed.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        let (step, rest) = match pattern {
            [] => (Step::End, pattern),
            [b'*', rest @ ..] => (Step::Any, rest),
            [b'?', rest @ ..] => (Step::One, rest),
            [b'\\', byte, rest @ ..] | [byte, rest @ ..] => (Step::Byte(*byte), rest),
        };
        let after = match (step, text) {
            (Step::Any, _) => {
                retry = Some((rest, text));
                Some(text)
            }
            (Step::End, []) => return true,
            (Step::End, _) | (_, []) => None,
            (Step::One, _) => Some(behind_character(text)),
            (Step::Byte(wanted), [byte, after @ ..]) => same(wanted, *byte, fold).then_some(after),
        };
        match (after, retry) {
            (Some(after), _) => (pattern, text) = (rest, after),
            (None, Some((behind_star, [_, longer @ ..]))) => {
                retry = Some((behind_star, longer));
                (pattern, text) = (behind_star, longer);
            }
            (None, _) => return false,
        }
    }
}

enum Step {
    End,
    Any,
    One,
    Byte(u8),
}

#[inline]
fn same(wanted: u8, byte: u8, fold: bool) -> bool {
    wanted == byte || (fold && wanted.eq_ignore_ascii_case(&byte))
}

/// The text after the first character, which is a byte and its continuation bytes.
fn behind_character(text: &[u8]) -> &[u8] {
    let mut rest = text.get(1..).unwrap_or(&[]);
    while let [0x80..=0xbf, after @ ..] = rest {
        rest = after;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("app_*", "app_1", true),
            ("app_*", "xapp_1", false),
            ("*.example.org", "db.example.org", true),
            ("*.example.org", "example.org", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("a?c", "abc", true),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("a\\", "a\\", true),
            ("Case", "case", false),
            ("*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), expected, "{pattern}");
        }
        assert!(matches(b"DB.Example.*", b"db.example.ORG", true));
    }

    /// Tries all lengths that a `*` can stand for.
    fn slowly(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|at| slowly(rest, &text[at..])),
            ['?', rest @ ..] => !text.is_empty() && slowly(rest, &text[1..]),
            ['\\', c, rest @ ..] | [c, rest @ ..] => {
                text.first() == Some(c) && slowly(rest, &text[1..])
            }
        }
    }

    proptest! {
        #[test]
        fn as_the_slow_way(pattern in r"[ab?*\\é]{0,8}", text in "[abé*]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = slowly(&chars(&pattern), &chars(&text));
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), expected);
        }

        #[test]
        fn any_bytes(pattern: Vec<u8>, text: Vec<u8>, fold: bool) {
            matches(&pattern, &text, fold);
        }
    }
}
