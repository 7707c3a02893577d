//! The text of Percona's pt-pmp (percona-toolkit 3.2): a count and the functions, innermost
//! first, separated by commas.

use std::collections::BTreeMap;

use crate::modules::Frame;
use crate::profile::Profile;

/// All lines, the most frequent first.
pub fn text(profile: &Profile, with_idle: bool) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for entry in profile.seen(with_idle) {
        let names: Vec<String> = profile.stack(entry).map(name).collect();
        *counts.entry(names.join(",")).or_default() += entry.count;
    }
    let mut lines: Vec<(u64, String)> = counts.into_iter().map(|(line, n)| (n, line)).collect();
    // As `sort -r -n -k 1,1`: lines with the same count in reverse order.
    lines.sort_by(|a, b| b.cmp(a));
    lines.iter().map(|(count, line)| format!("{count:7} {line}\n")).collect()
}

/// pt-pmp's name for a function that gdb found in a file without debug information.
pub fn name(frame: &Frame) -> String {
    let is_library = !frame.is_program && !frame.module.is_empty();
    let name = if frame.is_named {
        short(&frame.function)
    } else if is_library {
        format!("{}::??", frame.module.split('.').next().unwrap_or_default())
    } else {
        "::??".to_owned()
    };
    if is_library { format!("{name}({})", frame.module) } else { name }
}

/// Without template arguments before `::`, parameters, `void` and `const`.
fn short(function: &str) -> String {
    let mut name = function.to_owned();
    if !name.contains(['<', '(']) {
        return name;
    }
    while name.contains(">::") && remove_innermost(&mut name, '<', '>') {}
    while name.contains('(') && remove_innermost(&mut name, '(', ')') {}
    for word in ["void", "const"] {
        for form in [format!(" {word} "), format!(" {word}"), format!("{word} "), word.into()] {
            name = name.replace(&form, "");
        }
    }
    name.replace(' ', "")
}

/// Removes all innermost pairs of brackets. Returns whether there were any.
fn remove_innermost(text: &mut String, open: char, close: char) -> bool {
    let mut result = String::with_capacity(text.len());
    let mut is_changed = false;
    let mut rest = text.as_str();
    while let Some(end) = rest.find(close) {
        let (before, after) = rest.split_at(end);
        match before.rfind(open) {
            Some(start) => {
                result.push_str(&before[..start]);
                is_changed = true;
            }
            None => result.push_str(&rest[..=end]),
        }
        rest = &after[close.len_utf8()..];
    }
    result.push_str(rest);
    *text = result;
    is_changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str, is_named: bool, is_program: bool) -> Frame {
        Frame { function: function.into(), module: module.into(), is_named, is_program }
    }

    #[test]
    fn names_are_those_of_pt_pmp() {
        assert_eq!(name(&frame("poll", "libc.so.6", true, false)), "poll(libc.so.6)");
        assert_eq!(name(&frame("do_command", "mariadbd", true, true)), "do_command");
        let nameless = frame("[server_audit.so+0x5040]", "server_audit.so", false, false);
        assert_eq!(name(&nameless), "server_audit::??(server_audit.so)");
        assert_eq!(name(&frame("[mariadbd+0x83a5d0]", "mariadbd", false, true)), "::??");
        let template = "std::_Hash<a, std::b<c> >::find";
        assert_eq!(name(&frame(template, "mariadbd", true, true)), "std::_Hash::find");
    }

    #[test]
    fn brackets_are_removed_from_the_inside() {
        let mut text = "a<b<c>>::d<e>::f".to_owned();
        assert!(remove_innermost(&mut text, '<', '>'));
        assert_eq!(text, "a<b>::d::f");
        let mut text = "operator>".to_owned();
        assert!(!remove_innermost(&mut text, '<', '>'));
        assert_eq!(text, "operator>");
    }
}
