//! Option files (my.cnf) as MariaDB and MySQL read them: groups, includes, quotes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// Deeper includes are rejected, as by the servers.
const DEPTH_MAX: usize = 10;

/// The reader of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The server.
    Server,
    /// A client program.
    Client,
}

impl Reader {
    fn reads(self, group: &str) -> bool {
        match self {
            Self::Server => is_group_of_server(group),
            Self::Client => ["client", "client-server", "client-mariadb"].contains(&group.trim()),
        }
    }
}

/// The options for `reader` in a file, in their order: names in lower case with underscores,
/// without `loose_`. Of two with the same name the later one is valid.
///
/// # Errors
/// A file cannot be read, or is not text.
pub fn read(file: &Path, reader: Reader) -> anyhow::Result<Vec<(String, String)>> {
    let mut options = Vec::new();
    read_into(&mut options, file, reader, 0)?;
    Ok(options)
}

fn read_into(
    options: &mut Vec<(String, String)>,
    file: &Path,
    reader: Reader,
    depth: usize,
) -> anyhow::Result<()> {
    ensure!(depth < DEPTH_MAX, "cannot read {}: more than 10 levels of includes", file.display());
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut is_ours = false;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("!includedir") {
            for file in files_of(Path::new(rest.trim()))? {
                read_into(options, &file, reader, depth + 1)?;
            }
        } else if let Some(rest) = line.strip_prefix("!include") {
            read_into(options, Path::new(rest.trim()), reader, depth + 1)?;
        } else if let Some(rest) = line.strip_prefix('[') {
            is_ours = rest.split_once(']').is_some_and(|(group, _)| reader.reads(group));
        } else if is_ours && !line.is_empty() && !line.starts_with(['#', ';']) {
            options.push(option(line));
        }
    }
    Ok(())
}

/// The option files of a directory, in the order of their names.
fn files_of(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read the directory {}", directory.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "cnf") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Includes the groups of any release: a file has them for the release that reads it.
fn is_group_of_server(group: &str) -> bool {
    let group = group.trim();
    let (name, release) = group.split_once('-').unwrap_or((group, ""));
    match name {
        "mysqld" | "mariadb" | "mariadbd" => {
            release.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        }
        "server" | "galera" => release.is_empty(),
        _ => group == "client-server",
    }
}

fn option(line: &str) -> (String, String) {
    let line = without_comment(line);
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    let name = name.trim().to_ascii_lowercase().replace('-', "_");
    let name = name.strip_prefix("loose_").unwrap_or(&name).to_owned();
    (name, unquoted(value.trim()))
}

/// A `#` ends a line, unless it is within quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in line.char_indices() {
        if matches!(character, '\'' | '"') && !escaped {
            match quote {
                None => quote = Some(character),
                Some(open) if open == character => quote = None,
                Some(_) => {}
            }
        }
        if character == '#' && quote.is_none() {
            return line[..at].trim_end();
        }
        escaped = quote.is_some() && character == '\\' && !escaped;
    }
    line
}

/// Without the quotes around it, and with the escapes resolved.
fn unquoted(value: &str) -> String {
    let inner = ['\'', '"'].iter().find_map(|quote| {
        let inner = value.strip_prefix(*quote)?.strip_suffix(*quote)?;
        Some(inner)
    });
    let mut text = String::new();
    let mut characters = inner.unwrap_or(value).chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('b') => text.push('\u{8}'),
            Some('s') => text.push(' '),
            Some(escaped @ ('"' | '\'' | '\\')) => text.push(escaped),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    text
}

/// The value as it must be written in an option file.
pub fn quoted(value: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:".contains(character);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    let mut text = String::from("'");
    for character in value.chars() {
        match character {
            '\'' => text.push_str("\\'"),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other => text.push(other),
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_server_are_read_in_their_order() {
        let directory = tempfile::tempdir().expect("a directory");
        let included = directory.path().join("conf.d");
        fs::create_dir(&included).expect("made");
        fs::write(included.join("b.cnf"), "[mariadb-10.11]\nserver_audit_logging=on\n").expect("b");
        fs::write(included.join("a.cnf"), "[server]\nServer-Audit-Logging = off # no\n")
            .expect("a");
        fs::write(included.join("no.txt"), "[server]\nserver_audit_logging = txt\n").expect("no");
        let file = directory.path().join("my.cnf");
        let text = format!(
            "[client]\nserver_audit_events = 'client'\n[mysqld]\n; x\nloose-server_audit_events = \
             'CONNECT,QUERY' # c\nserver_audit_syslog_info='a # \\'b\\''\nserver_audit\n\
             [mysqld_safe]\nnice=1\n!includedir {}\n",
            included.display()
        );
        fs::write(&file, text).expect("the file");
        let options = read(&file, Reader::Server).expect("options");
        let options: Vec<(&str, &str)> =
            options.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(
            options,
            [
                ("server_audit_events", "CONNECT,QUERY"),
                ("server_audit_syslog_info", "a # 'b'"),
                ("server_audit", ""),
                ("server_audit_logging", "off"),
                ("server_audit_logging", "on"),
            ]
        );
    }

    #[test]
    fn clients_read_their_groups() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("my.cnf");
        fs::write(&file, "[mysqld]\nuser=a\n[client]\nuser=b\n[mariadb-dump]\nuser=c\n")
            .expect("the file");
        let options = read(&file, Reader::Client).expect("options");
        assert_eq!(options, [("user".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn a_file_that_includes_itself_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("my.cnf");
        fs::write(&file, format!("!include {}\n", file.display())).expect("the file");
        assert!(read(&file, Reader::Server).is_err());
    }

    #[test]
    fn quoted_values_are_read_back() {
        for value in ["", "ON", "/var/log/a b", r#"{"user":["o'x","a\\*\n#"]}"#, "a\n[x]\r\t", "'"]
        {
            let (name, read) = option(&format!("name = {}", quoted(value)));
            assert_eq!((name.as_str(), read.as_str()), ("name", value));
        }
    }
}
