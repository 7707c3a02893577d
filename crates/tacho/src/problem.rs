//! The message of an error that ends the command.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The error and its causes in one text. A cause that is already in the text is omitted: some
/// errors include their causes in their own messages.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        let cause = plain(&cause);
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

/// Removes the debug form in which the crate `mysql` wraps messages of servers.
fn plain(cause: &str) -> String {
    let wrapped = ["MySqlError { ", "DriverError { ", "IoError { ", "UrlError { "]
        .iter()
        .find_map(|start| cause.strip_suffix(" }")?.split_once(start));
    match wrapped {
        Some((before, inner)) => format!("{before}{inner}"),
        None => cause.to_owned(),
    }
}

/// A wrong command line. An option is suggested only if it begins like the unknown one.
pub fn of_usage(mut error: clap::Error) -> clap::Error {
    const ALIKE_BYTES: usize = 2;
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let begin = |name: &str| name.trim_start_matches('-').get(..ALIKE_BYTES).map(str::to_owned);
    let wrong = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) => begin(name),
        _ => None,
    };
    let suggested = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(name)) => begin(name),
        _ => return error,
    };
    if wrong != suggested {
        for kind in [ContextKind::SuggestedArg, ContextKind::Usage] {
            error.insert(kind, ContextValue::None);
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_said_once() {
        let inner = anyhow::anyhow!("Permission denied").context("/x/key");
        let outer = anyhow::Error::msg(format!("{inner:#}"));
        assert_eq!(text(&outer), "/x/key: Permission denied");
        let both = anyhow::anyhow!("Permission denied").context("/x/key: Permission denied");
        assert_eq!(text(&both), "/x/key: Permission denied");
        let server =
            anyhow::anyhow!("MySqlError {{ ERROR 1045 (28000): no }}").context("logging in");
        assert_eq!(text(&server), "logging in: ERROR 1045 (28000): no");
        let joined = anyhow::Error::msg(format!("{server:#}"));
        assert_eq!(text(&joined), "logging in: ERROR 1045 (28000): no");
    }
}
