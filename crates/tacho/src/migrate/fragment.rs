//! The fragment of my.cnf.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use tacho_settings::Setting;

use super::source::Theirs;
use super::{Assignment, Plan, To};
use crate::option_file::quoted;
use crate::tail::sanitize::sanitize;

/// Servers read option files in lines of 4096 bytes and treat the rest of a longer one as the next
/// line.
const LINE_BYTES_MAX: usize = 4000;

/// Width of comments.
const COLUMNS: usize = 100;

/// The text; `filter_file`: the file for the filter.
///
/// # Errors
/// The filter is too long for a line, or its file cannot be written.
pub(super) fn render(
    theirs: &Theirs,
    plan: &Plan,
    to: To,
    filter_file: Option<&Path>,
) -> anyhow::Result<String> {
    let mut text = String::new();
    let title = format!(
        "{} of {}, as settings of tacho {}. Check the differences in the comments before you use them.",
        theirs.from.plugin(),
        theirs.place,
        env!("CARGO_PKG_VERSION")
    );
    comment(&mut text, &title);
    text.push_str(to.head());
    let is_forced = ["FORCE", "FORCE_PLUS_PERMANENT"].contains(&theirs.load_option.as_str());
    if is_forced && to.is_plugin() {
        text.push_str(&format!("tacho = {}\n", theirs.load_option));
    }
    if to.shows_directories() && !plan.settings.iter().any(|it| it.setting == Setting::Directory) {
        text.push('\n');
        comment(&mut text, "The log directory is in the data directory, but is not a database");
        text.push_str("ignore_db_dirs = tacho\n");
    }
    for assignment in &plan.settings {
        push(&mut text, assignment, to)?;
    }
    if let Some(json) = plan.filter.json() {
        let setting = filter_setting(&json, &plan.filter.comments.join(". "), filter_file)?;
        push(&mut text, &setting, to)?;
    }
    let mut remarks: Vec<String> = plan.remarks.iter().map(|remark| to.spelled(remark)).collect();
    if is_forced && !to.is_plugin() {
        remarks.push(format!(
            "{} = {}: the server also starts if a component cannot be loaded; `tacho status` says so",
            theirs.from.plugin(),
            theirs.load_option
        ));
    }
    if !remarks.is_empty() {
        text.push_str("\n# Not carried over:\n");
        for remark in remarks {
            comment(&mut text, &format!("- {remark}"));
        }
    }
    Ok(text)
}

/// Writes it to stdout.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_out(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

fn filter_setting(
    json: &str,
    comment: &str,
    filter_file: Option<&Path>,
) -> anyhow::Result<Assignment> {
    let comment = comment.to_owned();
    let Some(file) = filter_file else {
        ensure!(
            quoted(json).len() < LINE_BYTES_MAX,
            "the filter is too long for a line of an option file; write it to its own file with \
             --filter-file"
        );
        return Ok(Assignment { setting: Setting::Filter, value: json.to_owned(), comment });
    };
    let path = std::path::absolute(file).context("cannot use --filter-file")?;
    let written = OpenOptions::new().write(true).create_new(true).open(&path);
    written
        .and_then(|mut out| writeln!(out, "{json}"))
        .with_context(|| format!("cannot write {}", path.display()))?;
    let value = path.to_str().context("the path of --filter-file is not UTF-8")?.to_owned();
    Ok(Assignment { setting: Setting::FilterFile, value, comment })
}

fn push(text: &mut String, assignment: &Assignment, to: To) -> anyhow::Result<()> {
    let name = to.option(assignment.setting);
    text.push('\n');
    comment(text, &to.spelled(&assignment.comment));
    // Option files have no escape for them, and they must not reach a terminal.
    ensure!(
        !assignment.value.contains(char::is_control),
        "cannot write {} to an option file, because it has control characters: {}",
        name,
        sanitize(&assignment.value)
    );
    let line = format!("{name} = {}\n", quoted(&assignment.value));
    ensure!(
        line.len() < LINE_BYTES_MAX,
        "cannot write {} to an option file, because it is too long for a line",
        name
    );
    text.push_str(&line);
    Ok(())
}

/// It contains foreign values, so control characters are escaped: it must stay a comment.
fn comment(text: &mut String, comment: &str) {
    let mut columns = 0;
    for word in sanitize(comment).split(' ').filter(|word| !word.is_empty()) {
        let width = word.chars().count();
        if columns == 0 {
            text.push('#');
            columns = 1;
        } else if columns + 1 + width > COLUMNS {
            text.push_str("\n#");
            columns = 1;
        }
        text.push(' ');
        text.push_str(word);
        columns += 1 + width;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_value_cannot_leave_its_comment_or_its_line() {
        let evil = "x\n[mysqld]\nskip-grant-tables\r# \u{1b}[2J'";
        let theirs = Theirs {
            from: super::super::From::ServerAudit,
            place: evil.to_owned(),
            values: BTreeMap::new(),
            load_option: evil.to_owned(),
            server: To::Mariadb,
        };
        let mut plan = Plan::default();
        plan.set(Setting::Directory, "/a b", evil);
        plan.filter.rule("skip", &[("user", evil.into())]);
        plan.remark(evil);
        let text = render(&theirs, &plan, To::Mariadb, None).expect("a fragment");
        for line in text.lines() {
            let is_known =
                ["#", "[mariadb]", "plugin_load_add", "tacho_directory = '", "tacho_filter"]
                    .iter()
                    .any(|begin| line.starts_with(begin));
            assert!(is_known || line.is_empty(), "{line:?}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
        plan.set(Setting::Directory, evil, "");
        assert!(render(&theirs, &plan, To::Mariadb, None).is_err());
    }

    #[test]
    fn each_server_has_its_own_form() {
        let theirs = Theirs {
            from: super::super::From::Percona,
            place: "x".to_owned(),
            values: BTreeMap::new(),
            load_option: "FORCE".to_owned(),
            server: To::Mysql80,
        };
        let mut plan = Plan::default();
        plan.set(Setting::Overflow, "DROP", "because of tacho_overflow");
        let lines = |to| -> Vec<String> {
            let text = render(&theirs, &plan, to, None).expect("a fragment");
            let (_, rest) = text.split_once("them.\n").expect("the title");
            let lines = rest.lines().filter(|line| !line.is_empty());
            lines.map(str::to_owned).collect()
        };
        let own = ["# because of tacho_overflow", "tacho_overflow = DROP"];
        let plugin = ["[mysqld]", "plugin_load_add = tacho.so", "tacho = FORCE"];
        assert_eq!(lines(To::Mysql80), [&plugin[..], &own].concat());
        let mariadb = lines(To::Mariadb);
        assert_eq!(mariadb[..3], ["[mariadb]", "plugin_load_add = tacho", "tacho = FORCE"]);
        assert!(mariadb.contains(&"ignore_db_dirs = tacho".to_owned()), "{mariadb:?}");
        let component = lines(To::Mysql);
        assert!(component[0].ends_with("INSTALL COMPONENT 'file://component_tacho';"));
        let own = ["[mysqld]", "# because of tacho.overflow", "loose_tacho.overflow = DROP"];
        assert_eq!(component[1..4], own);
        assert!(component[5].starts_with("# - audit_log = FORCE: "), "{component:?}");
    }

    #[test]
    fn a_long_filter_goes_to_a_file() {
        let theirs = Theirs {
            from: super::super::From::ServerAudit,
            place: "x".to_owned(),
            values: BTreeMap::new(),
            load_option: String::new(),
            server: To::Mariadb,
        };
        let mut plan = Plan::default();
        plan.filter.rule("skip", &[("user", "u".repeat(LINE_BYTES_MAX).into())]);
        assert!(render(&theirs, &plan, To::Mariadb, None).is_err());
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("filter.json");
        let text = render(&theirs, &plan, To::Mariadb, Some(&file)).expect("a fragment");
        assert!(text.contains(&format!("tacho_filter_file = {}\n", file.display())), "{text}");
        let again = render(&theirs, &plan, To::Mariadb, Some(&file));
        assert!(again.is_err(), "it is not overwritten");
    }
}
