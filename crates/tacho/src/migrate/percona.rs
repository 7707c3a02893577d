//! Percona's audit_log, as in Percona Server 5.7 and 8.0.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde_json::{Value, json};
use tacho_settings::Setting;

use super::limits::{Rotations, limit, unlimited};
use super::source::Theirs;
use super::{Filter, Plan, To, pattern, place, texts_of_sql};

/// audit_log's name for the SQL command of a statement that the server cannot parse.
const NO_COMMAND: &str = "error";

/// Settings that only concern how audit_log works, and why ours does not need them.
const WITHOUT: [(&str, &str); 1] =
    [("flush", "renamed and deleted files are detected; tacho_rotate_now starts a new one")];

/// Settings that [`plan`] carries over, and those of its output to syslog.
const KNOWN: [&str; 18] = [
    "policy",
    "format",
    "handler",
    "file",
    "strategy",
    "buffer_size",
    "rotate_on_size",
    "rotations",
    "include_accounts",
    "exclude_accounts",
    "include_commands",
    "exclude_commands",
    "include_databases",
    "exclude_databases",
    "syslog_facility",
    "syslog_ident",
    "syslog_priority",
    // It is internal to audit_log.
    "record_buffer",
];

pub(super) fn plan(theirs: &Theirs, to: To) -> Plan {
    let mut plan = Plan::default();
    let policy = theirs.text("policy", "ALL").to_ascii_uppercase();
    let logging = if policy == "NONE" { "OFF" } else { "ON" };
    plan.set(Setting::Logging, logging, theirs.shown("policy", "ALL"));
    if policy == "QUERIES" {
        plan.remark("audit_log_policy = QUERIES: connections are also recorded");
    }
    output(&mut plan, theirs);
    place(&mut plan, theirs, "file", "audit.log");
    strategy(&mut plan, theirs);
    sizes(&mut plan, theirs);
    let mut filter = Filter::default();
    if policy == "LOGINS" {
        filter.skips_by_default = true;
        filter.comments.push(theirs.shown("policy", "ALL"));
    } else {
        accounts(&mut filter, &mut plan, theirs);
        commands(&mut filter, &mut plan, theirs, to);
        databases(&mut filter, &mut plan, theirs);
    }
    plan.filter = filter;
    for (name, why) in WITHOUT {
        if theirs.values.contains_key(name) {
            plan.remark(format!("{}: {why}", theirs.shown(name, "")));
        }
    }
    for name in theirs.values.keys() {
        let name = name.as_str();
        if name.starts_with("filter") {
            plan.remark(format!(
                "{}: of audit_log_filter, whose rules are in tables of the server and are not converted",
                theirs.shown(name, "")
            ));
        } else if !KNOWN.contains(&name) && !WITHOUT.iter().any(|(known, _)| *known == name) {
            plan.remark(format!("{}: unknown setting", theirs.shown(name, "")));
        }
    }
    plan
}

fn output(plan: &mut Plan, theirs: &Theirs) {
    let target = match theirs.text("format", "OLD").to_ascii_uppercase().as_str() {
        "OLD" => "PERCONA_OLD",
        "NEW" => "PERCONA_NEW",
        "JSON" => "PERCONA_JSON",
        // Its CSV has another order of fields; ours is that of server_audit.
        _ => "PERCONA_JSON (CSV has no equivalent)",
    };
    plan.remark(format!(
        "{}: the log has JSON lines; tacho_format = {target} also writes that format",
        theirs.shown("format", "OLD")
    ));
    if theirs.text("handler", "FILE").eq_ignore_ascii_case("SYSLOG") {
        plan.remark(format!(
            "{}: the log is written to files; `tacho convert -f --format syslog --send /dev/log` \
             forwards it",
            theirs.shown("handler", "FILE")
        ));
    }
}

fn strategy(plan: &mut Plan, theirs: &Theirs) {
    let shown = theirs.shown("strategy", "ASYNCHRONOUS");
    match theirs.text("strategy", "ASYNCHRONOUS").to_ascii_uppercase().as_str() {
        "PERFORMANCE" => {
            let comment =
                format!("{shown}: records that do not fit are lost, and counted in the log");
            plan.set(Setting::Overflow, "DROP", comment);
        }
        "SYNCHRONOUS" => {
            let comment = format!(
                "{shown}: sessions wait if the log cannot be written. It is not synced: after a power \
                 failure, lines that are not on the disk are lost"
            );
            plan.set(Setting::Overflow, "BLOCK", comment);
        }
        _ => {
            let comment = format!("{shown}: sessions wait if the log cannot be written");
            plan.set(Setting::Overflow, "BLOCK", comment);
        }
    }
}

fn sizes(plan: &mut Plan, theirs: &Theirs) {
    let shown = theirs.shown("buffer_size", "1048576");
    match theirs.number("buffer_size", 1 << 20) {
        Some(bytes) if bytes > Setting::ArenaBytes.default_number() => {
            let comment = format!("{shown}. The memory is in /dev/shm");
            plan.set_number(Setting::ArenaBytes, bytes, comment);
        }
        Some(_) => {}
        None => plan.remark(format!("{shown}: not a number")),
    }
    let shown = theirs.shown("rotate_on_size", "0");
    match theirs.number("rotate_on_size", 0) {
        Some(bytes) => {
            plan.set_number(Setting::RotateBytes, bytes, shown.clone());
            let rotations = Rotations::of(theirs.number("rotations", 0));
            let shown_rotations = theirs.shown("rotations", "0");
            match bytes {
                // They are only counted if files are rotated.
                0 => limit(plan, 0, &Rotations::Never, &shown, &shown),
                bytes => limit(plan, bytes, &rotations, &shown, &shown_rotations),
            }
        }
        None => {
            plan.remark(format!("{shown}: not a number"));
            unlimited(plan, &shown);
        }
    }
}

fn accounts(filter: &mut Filter, plan: &mut Plan, theirs: &Theirs) {
    for list in ["include_accounts", "exclude_accounts"] {
        let accounts: Vec<(String, String)> = theirs.list(list).into_iter().map(account).collect();
        if accounts.is_empty() {
            continue;
        }
        filter.comments.push(theirs.shown(list, ""));
        if list == "include_accounts" {
            include(filter, &accounts);
        } else {
            exclude(filter, &accounts);
        }
        if accounts.iter().any(|(_, host)| host.contains(['%', '_', '/'])) {
            plan.remark(format!(
                "{}, exactly: it names accounts, but rules compare the user and the host of the client. \
                 The rules also apply to other accounts of these users",
                theirs.shown(list, "")
            ));
        }
    }
}

/// Skips users that are not in any of the accounts.
fn include(filter: &mut Filter, accounts: &[(String, String)]) {
    let mut hosts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (user, host) in accounts {
        hosts.entry(pattern(user)).or_default().push(host);
    }
    let users: Vec<&String> = hosts.keys().collect();
    filter.rule("skip", &[("not", json!({ "user": users }))]);
    for (user, hosts) in hosts {
        if !hosts.contains(&"%") {
            let hosts: Vec<String> = hosts.into_iter().map(host_pattern).collect();
            filter.rule("skip", &[("user", user.into()), ("not", json!({ "host": hosts }))]);
        }
    }
}

fn exclude(filter: &mut Filter, accounts: &[(String, String)]) {
    for (user, host) in accounts {
        let mut conditions: Vec<(&str, Value)> = vec![("user", pattern(user).into())];
        if host != "%" {
            conditions.push(("host", host_pattern(host).into()));
        }
        filter.rule("skip", &conditions);
    }
}

fn commands(filter: &mut Filter, plan: &mut Plan, theirs: &Theirs, to: To) {
    for list in ["include_commands", "exclude_commands"] {
        let named = theirs.list(list);
        if named.is_empty() {
            continue;
        }
        filter.comments.push(theirs.shown(list, ""));
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        let mut has_no_command = false;
        for name in named {
            let name = name.to_ascii_lowercase();
            match to.sql_command(&name) {
                Some(name) => known.push(name),
                None if name == NO_COMMAND => has_no_command = true,
                None => unknown.push(name),
            }
        }
        if list == "include_commands" && has_no_command {
            filter.rule("record", &[("class", "other".into()), ("command", texts_of_sql())]);
        }
        if !unknown.is_empty() {
            plan.remark(format!(
                "{} of {}{list}: {} has no such SQL command",
                unknown.join(", "),
                theirs.from.prefix(),
                to.name()
            ));
        }
        if known.is_empty() {
            if list == "include_commands" {
                filter.skips_by_default = true;
            }
        } else if list == "include_commands" {
            filter.rule("skip", &[("not", json!({ "sql_command": known }))]);
        } else {
            filter.rule("skip", &[("sql_command", known.into())]);
        }
    }
}

/// As in audit_log: a statement without tables is recorded; with an excluded database it is not
/// recorded if all of its tables are in one; with included ones it is if one table is.
fn databases(filter: &mut Filter, plan: &mut Plan, theirs: &Theirs) {
    let mut tables = None;
    for list in ["include_databases", "exclude_databases"] {
        let named = theirs.list(list);
        if named.is_empty() {
            continue;
        }
        filter.comments.push(theirs.shown(list, ""));
        // A dot would end the name of the database.
        let patterns: Vec<String> = named
            .iter()
            .map(|name| format!("{}.*", pattern(name.trim_matches('`')).replace('.', "?")))
            .collect();
        if list == "include_databases" {
            let rule = [("table", "*.*".into()), ("not", json!({ "table": patterns }))];
            filter.rule("skip", &rule);
        } else {
            filter.rule("skip", &[("table", patterns.into())]);
        }
        tables = Some(format!("{}: required for rules about tables", theirs.shown(list, "")));
    }
    if let Some(comment) = tables {
        plan.set(Setting::Tables, "ON", comment);
    }
}

/// `user@host`, each with or without quotes.
fn account(text: &str) -> (String, String) {
    let (user, host) = text.rsplit_once('@').unwrap_or((text, "%"));
    let bare = |part: &str| part.trim().trim_matches(['\'', '"', '`']).to_owned();
    (bare(user), bare(host))
}

/// The host of an account as a host of a filter.
fn host_pattern(host: &str) -> String {
    if let Some((address, mask)) = host.split_once('/')
        && let (Ok(address), Ok(mask)) = (address.parse::<Ipv4Addr>(), mask.parse::<Ipv4Addr>())
        && mask.to_bits().leading_ones() + mask.to_bits().trailing_zeros() == 32
    {
        return format!("{address}/{}", mask.to_bits().leading_ones());
    }
    host.replace(['*', '?', '/'], "?").replace('%', "*").replace('_', "?")
}

#[cfg(test)]
mod tests {
    use super::super::From;
    use super::*;

    fn planned(values: &[(&str, &str)]) -> Plan {
        planned_for(To::Mariadb, values)
    }

    fn planned_for(to: To, values: &[(&str, &str)]) -> Plan {
        let theirs = Theirs {
            from: From::Percona,
            place: "test".to_owned(),
            values: values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            load_option: String::new(),
            server: to,
        };
        plan(&theirs, to)
    }

    fn filter(values: &[(&str, &str)]) -> String {
        let json = planned(values).filter.json().expect("a filter");
        let server = tacho_filter::compile::Server::default();
        tacho_filter::compile::compile(&json, &server).unwrap_or_else(|e| panic!("{json}: {e}"));
        json
    }

    fn value(plan: &Plan, wanted: Setting) -> Option<&str> {
        plan.settings.iter().find(|it| it.setting == wanted).map(|it| &*it.value)
    }

    #[test]
    fn defaults_need_no_filter_and_lose_nothing() {
        let plan = planned(&[]);
        assert_eq!(plan.filter.json(), None);
        assert_eq!(value(&plan, Setting::Overflow), Some("BLOCK"));
        assert_eq!(value(&plan, Setting::RotateBytes), Some("0"));
        assert_eq!(value(&plan, Setting::ArenaBytes), None);
        assert_eq!(value(&planned(&[("policy", "none")]), Setting::Logging), Some("OFF"));
        let fast = planned(&[("strategy", "PERFORMANCE"), ("buffer_size", "256M")]);
        assert_eq!(value(&fast, Setting::Overflow), Some("DROP"));
        assert_eq!(value(&fast, Setting::ArenaBytes), Some("268435456"));
    }

    /// By default they never rotate, nor with a size and without a number.
    #[test]
    fn their_limits_are_kept_and_six_months_are_not_promised() {
        let comment = |plan: &Plan| {
            let days = plan.settings.iter().find(|it| it.setting == Setting::RetentionDays);
            days.expect("it is set").comment.clone()
        };
        for values in [
            &[][..],
            &[("rotations", "9")],
            &[("rotate_on_size", "100M")],
            &[("rotate_on_size", "100M"), ("rotations", "0")],
            &[("rotate_on_size", "100M"), ("rotations", "some")],
            &[("rotate_on_size", "some"), ("rotations", "9")],
        ] {
            let plan = planned(values);
            assert_eq!(value(&plan, Setting::RetentionFiles), None, "{values:?}");
            assert_eq!(value(&plan, Setting::RetentionBytes), None, "{values:?}");
            assert_eq!(value(&plan, Setting::RetentionDays), Some("183"), "{values:?}");
            assert!(comment(&plan).contains("The disk space is unlimited"), "{values:?}");
            let is_wrong = values.iter().any(|(_, value)| *value == "some");
            assert_eq!(plan.remarks.iter().any(|it| it.contains("not a number")), is_wrong);
        }
        let limited = planned(&[("rotate_on_size", "100M"), ("rotations", "4")]);
        assert_eq!(value(&limited, Setting::RotateBytes), Some("104857600"));
        assert_eq!(value(&limited, Setting::RetentionFiles), Some("4"));
        assert_eq!(value(&limited, Setting::RetentionBytes), Some("524288000"));
        assert_eq!(value(&limited, Setting::RetentionDays), Some("183"));
        assert!(comment(&limited).contains("5 files of 104857600 bytes are NOT a record of six"));
    }

    #[test]
    fn accounts_become_rules() {
        assert_eq!(
            filter(&[("exclude_accounts", "'mon'@'%',backup@localhost")]),
            r#"{"rules":[{"action":"skip","user":"mon"},{"action":"skip","host":"localhost","user":"backup"}]}"#
        );
        assert_eq!(
            filter(&[("include_accounts", "a@h1,'a'@'h2',b@%")]),
            concat!(
                r#"{"rules":[{"action":"skip","not":{"user":["a","b"]}},"#,
                r#"{"action":"skip","not":{"host":["h1","h2"]},"user":"a"}]}"#
            )
        );
        assert_eq!(host_pattern("10.1.0.0/255.255.0.0"), "10.1.0.0/16");
        assert_eq!(host_pattern("10.1.%"), "10.1.*");
    }

    #[test]
    fn commands_and_databases_become_rules() {
        let plan = planned(&[("include_commands", "select,INSERT,clone")]);
        assert_eq!(
            plan.filter.json().expect("a filter"),
            r#"{"rules":[{"action":"skip","not":{"sql_command":["select","insert"]}}]}"#
        );
        assert!(plan.remarks.iter().any(|it| it.starts_with("clone of")), "{:?}", plan.remarks);
        let plan = planned_for(To::Mysql, &[("include_commands", "select,call_procedure,clone")]);
        assert_eq!(
            plan.filter.json().expect("a filter"),
            r#"{"rules":[{"action":"skip","not":{"sql_command":["select","call","clone"]}}]}"#
        );
        let json = filter(&[("include_databases", "a.b,`c`")]);
        assert!(json.contains(r#""not":{"table":["a?b.*","c.*"]},"table":"*.*""#), "{json}");
        assert_eq!(value(&planned(&[("exclude_databases", "x")]), Setting::Tables), Some("ON"));
        let errors = filter(&[("include_commands", "error,select")]);
        assert!(errors.contains(r#""class":"other""#), "{errors}");
        let none = filter(&[("include_commands", "clone")]);
        assert_eq!(none, r#"{"default":"skip","rules":[]}"#);
    }
}
