//! Messages of the hub on stderr, where systemd's journal picks them up.

use std::io::Write as _;

/// Writes one line. Control characters, which could come from a request, are replaced.
pub fn say(text: &str) {
    let line: String =
        text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
    // With stderr closed there is no other place for it.
    let _ = writeln!(std::io::stderr().lock(), "tacho-hub: {line}");
}
