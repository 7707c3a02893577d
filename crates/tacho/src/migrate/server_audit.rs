//! MariaDB's server_audit, as in 10.11 and later.

use serde_json::json;
use tacho_settings::Setting;

use super::limits::{Rotations, limit, unlimited};
use super::source::Theirs;
use super::{Filter, Plan, To, pattern, place, texts_of_sql};

/// Commands that its QUERY_DDL has in addition to our class `ddl`.
const DDL_BESIDES: [&str; 3] = ["alter_user", "create_role", "drop_role"];

/// Commands that its QUERY_DML_NO_SELECT has in addition to our class `dml`.
const DML_BESIDES: [&str; 5] = ["call_procedure", "do", "ha_open", "ha_read", "ha_close"];

/// Settings that only concern how server_audit works, and why ours does not need them.
const WITHOUT: [(&str, &str); 3] = [
    ("file_buffer_size", "records stay in shared memory for tacho_flush_interval_ms at most"),
    ("sync_log_file", "SET GLOBAL tacho_flush_now = 1 writes all statements that have ended"),
    ("timestamp_format", "times have microseconds and their offset (RFC 3339)"),
];

/// Settings that are actions or internal: they do not concern what is recorded.
const ACTIONS: [&str; 3] = ["file_rotate_now", "loc_info", "mode"];

/// Settings that apply to syslog only, and are reported with it.
const OF_SYSLOG: [&str; 4] = ["syslog_info", "syslog_ident", "syslog_facility", "syslog_priority"];

/// Settings that [`plan`] carries over.
const KNOWN: [&str; 9] = [
    "logging",
    "events",
    "incl_users",
    "excl_users",
    "output_type",
    "file_path",
    "file_rotate_size",
    "file_rotations",
    "query_log_limit",
];

pub(super) fn plan(theirs: &Theirs, to: To) -> Plan {
    let mut plan = Plan::default();
    let logging = if theirs.is_on("logging", false) { "ON" } else { "OFF" };
    plan.set(Setting::Logging, logging, theirs.shown("logging", "OFF"));
    output(&mut plan, theirs);
    place(&mut plan, theirs, "file_path", "server_audit.log");
    sizes(&mut plan, theirs);
    let events = theirs.list("events");
    let events: Vec<String> = events.iter().map(|event| event.to_ascii_uppercase()).collect();
    if events.is_empty() || events.iter().any(|event| event == "TABLE") {
        let comment = format!("{}: the tables of statements", theirs.shown("events", ""));
        plan.set(Setting::Tables, "ON", comment);
    }
    let mut filter = Filter::default();
    users(&mut filter, &mut plan, theirs);
    classes(&mut filter, &events, theirs, to);
    plan.filter = filter;
    if !events.is_empty() && !events.iter().any(|event| event == "CONNECT") {
        plan.remark(format!(
            "{}, without CONNECT: connections are always recorded",
            theirs.shown("events", "")
        ));
    }
    for (name, why) in WITHOUT {
        if theirs.values.contains_key(name) {
            plan.remark(format!("{}: {why}", theirs.shown(name, "")));
        }
    }
    for name in theirs.values.keys() {
        let is_known = KNOWN.contains(&name.as_str())
            || ACTIONS.contains(&name.as_str())
            || OF_SYSLOG.contains(&name.as_str())
            || WITHOUT.iter().any(|(known, _)| known == name);
        if !is_known {
            plan.remark(format!("{}: unknown setting", theirs.shown(name, "")));
        }
    }
    plan
}

fn output(plan: &mut Plan, theirs: &Theirs) {
    match theirs.text("output_type", "file").to_ascii_lowercase().as_str() {
        "file" => plan.remark(
            "the format: the log has JSON lines; tacho_format = CSV also writes server_audit's format",
        ),
        "syslog" => {
            plan.remark(format!(
                "{}: the log is written to files; `tacho convert -f --format syslog --send /dev/log` \
                 forwards it",
                theirs.shown("output_type", "")
            ));
            for name in OF_SYSLOG {
                if !theirs.text(name, "").is_empty() {
                    let shown = theirs.shown(name, "");
                    plan.remark(format!("{shown}: docs/specs/formats.md describes the messages"));
                }
            }
        }
        _ => plan.remark(format!("{}: the log is written to files", theirs.shown("output_type", ""))),
    }
}

fn sizes(plan: &mut Plan, theirs: &Theirs) {
    let size = theirs.number("file_rotate_size", 1_000_000);
    let shown = theirs.shown("file_rotate_size", "1000000");
    let rotations = theirs.number("file_rotations", 9);
    let shown_rotations = theirs.shown("file_rotations", "9");
    match (size, rotations) {
        (_, Some(0)) => {
            plan.set(Setting::RotateBytes, "0", shown_rotations.clone());
            limit(plan, 0, &Rotations::Never, &shown, &shown_rotations);
        }
        (Some(size), _) => {
            plan.set_number(Setting::RotateBytes, size, shown.clone());
            limit(plan, size, &Rotations::of(rotations), &shown, &shown_rotations);
        }
        (None, _) => {
            plan.remark(format!("{shown}: not a number"));
            unlimited(plan, &shown);
        }
    }
    let shown = theirs.shown("query_log_limit", "1024");
    match theirs.number("query_log_limit", 1024) {
        Some(limit) => {
            let comment =
                format!("{shown}: longer statements are truncated; 0 records them completely");
            plan.set_number(Setting::MaxStatementBytes, limit, comment);
        }
        None => plan.remark(format!("{shown}: not a number")),
    }
}

/// Its lists only have user names; if there are users to log, the other list is ignored.
fn users(filter: &mut Filter, plan: &mut Plan, theirs: &Theirs) {
    let names = |list: &str| {
        let names = theirs.list(list).into_iter();
        // In server_audit a blank ends a name.
        names.filter_map(|name| name.split(' ').next()).map(pattern).collect::<Vec<_>>()
    };
    let included = names("incl_users");
    let excluded = names("excl_users");
    if !included.is_empty() {
        filter.comments.push(theirs.shown("incl_users", ""));
        filter.rule("skip", &[("not", json!({ "user": included }))]);
        plan.remark(format!(
            "{}, if it names the account of a proxy user: rules compare the user name that the client \
             gave",
            theirs.shown("incl_users", "")
        ));
    } else if !excluded.is_empty() {
        filter.comments.push(theirs.shown("excl_users", ""));
        filter.rule("skip", &[("user", excluded.into())]);
    }
}

fn classes(filter: &mut Filter, events: &[String], theirs: &Theirs, to: To) {
    let has = |name: &str| events.iter().any(|event| event == name);
    if events.is_empty() || has("QUERY") {
        return;
    }
    filter.skips_by_default = true;
    filter.comments.push(theirs.shown("events", ""));
    let mut classes = Vec::new();
    let mut commands = Vec::new();
    if has("QUERY_DDL") {
        classes.push("ddl");
        commands.extend(DDL_BESIDES);
    }
    if has("QUERY_DML") || has("QUERY_DML_NO_SELECT") {
        classes.push("dml");
        commands.extend(DML_BESIDES);
    }
    if has("QUERY_DML") {
        commands.push("select");
    }
    if has("QUERY_DCL") {
        classes.push("dcl");
        // MariaDB counts SET PASSWORD as SET.
        commands.push("set_option");
    }
    if !classes.is_empty() {
        filter.comments.push(
            "Classes are those of the server, not of a statement's first word. Statements that it \
             cannot parse have no class and are recorded"
                .to_owned(),
        );
        filter.rule("record", &[("class", "other".into()), ("command", texts_of_sql())]);
        filter.rule("record", &[("class", classes.into())]);
        let commands: Vec<String> =
            commands.into_iter().filter_map(|name| to.sql_command(name)).collect();
        filter.rule("record", &[("sql_command", commands.into())]);
    }
    if has("TABLE") {
        filter.rule("no_text", &[("table", "*.*".into())]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::From;
    use super::*;

    fn theirs(values: &[(&str, &str)]) -> Theirs {
        Theirs {
            from: From::ServerAudit,
            place: "test".to_owned(),
            values: values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            load_option: String::new(),
            server: To::Mariadb,
        }
    }

    fn value(plan: &Plan, wanted: Setting) -> Option<&str> {
        plan.settings.iter().find(|it| it.setting == wanted).map(|it| &*it.value)
    }

    fn comment(plan: &Plan, wanted: Setting) -> &str {
        let found = plan.settings.iter().find(|it| it.setting == wanted);
        &found.expect("it is set").comment
    }

    #[test]
    fn the_defaults_of_server_audit_need_no_filter() {
        let plan = plan(&theirs(&[]), To::Mariadb);
        assert_eq!(plan.filter.json(), None);
        assert_eq!(value(&plan, Setting::Logging), Some("OFF"));
        assert_eq!(value(&plan, Setting::Tables), Some("ON"));
        assert_eq!(value(&plan, Setting::RotateBytes), Some("1000000"));
        assert_eq!(value(&plan, Setting::RetentionFiles), Some("9"));
        assert_eq!(value(&plan, Setting::RetentionBytes), Some("10000000"));
        assert_eq!(value(&plan, Setting::RetentionDays), Some("183"));
        assert_eq!(value(&plan, Setting::MaxStatementBytes), Some("1024"));
        assert_eq!(value(&plan, Setting::Directory), None);
    }

    /// A limit of nine files of 5 MB limits the disk, and does not keep six months.
    #[test]
    fn the_disk_stays_limited_and_six_months_are_not_promised() {
        let few =
            plan(&theirs(&[("file_rotate_size", "5M"), ("file_rotations", "9")]), To::Mariadb);
        assert_eq!(value(&few, Setting::RotateBytes), Some("5242880"));
        assert_eq!(value(&few, Setting::RetentionFiles), Some("9"));
        assert_eq!(value(&few, Setting::RetentionBytes), Some("52428800"));
        let said = comment(&few, Setting::RetentionDays);
        assert!(
            said.contains("10 files of 5242880 bytes are NOT a record of six months"),
            "{said}"
        );
        assert!(said.contains("tacho_retention_files = 0 and tacho_retention_bytes = 0"), "{said}");

        let all = plan(&theirs(&[("file_rotations", "0")]), To::Mariadb);
        assert_eq!(value(&all, Setting::RotateBytes), Some("0"));
        assert_eq!(value(&all, Setting::RetentionFiles), None);
        assert_eq!(value(&all, Setting::RetentionBytes), None);
        let said = comment(&all, Setting::RetentionDays);
        assert!(said.contains("the old files never rotate") && !said.contains("NOT"), "{said}");
        assert!(said.contains("The disk space is unlimited"), "{said}");

        for name in ["file_rotations", "file_rotate_size"] {
            let odd = plan(&theirs(&[(name, "many")]), To::Mariadb);
            assert!(odd.remarks.iter().any(|it| it.contains("= many: not a number")));
            assert_eq!(value(&odd, Setting::RetentionFiles), None, "{name}");
            let said = comment(&odd, Setting::RetentionDays);
            assert!(said.contains("The disk space is unlimited"), "{said}");
        }
        let many = plan(&theirs(&[("file_rotations", "20000000")]), To::Mariadb);
        assert_eq!(value(&many, Setting::RetentionFiles), Some("1000000"), "its largest value");
    }

    #[test]
    fn users_and_events_become_a_filter() {
        let of = |values: &[(&str, &str)]| plan(&theirs(values), To::Mariadb).filter.json();
        let skip = |rules: &str| Some(format!(r#"{{"rules":[{rules}]}}"#));
        assert_eq!(
            of(&[("excl_users", "mon, backup,,")]),
            skip(r#"{"action":"skip","user":["mon","backup"]}"#)
        );
        assert_eq!(
            of(&[("incl_users", "a*"), ("excl_users", "b")]),
            skip(r#"{"action":"skip","not":{"user":["a\\*"]}}"#)
        );
        assert_eq!(of(&[("events", "CONNECT,QUERY,TABLE")]), None);
        assert_eq!(
            of(&[("events", "connect")]).as_deref(),
            Some(r#"{"default":"skip","rules":[]}"#)
        );
        let table = of(&[("events", "TABLE")]).expect("a filter");
        assert!(table.contains(r#""rules":[{"action":"no_text","table":"*.*"}]"#), "{table}");
    }

    #[test]
    fn every_combination_of_events_is_a_filter_that_compiles() {
        let names =
            ["CONNECT", "TABLE", "QUERY_DDL", "QUERY_DML", "QUERY_DML_NO_SELECT", "QUERY_DCL"];
        for bits in 0..1u32 << names.len() {
            let chosen: Vec<&str> =
                (0..names.len()).filter(|at| bits >> at & 1 == 1).map(|at| names[at]).collect();
            let plan =
                plan(&theirs(&[("events", &chosen.join(",")), ("excl_users", "x")]), To::Mariadb);
            let json = plan.filter.json().expect("a filter");
            let server = tacho_filter::compile::Server::default();
            tacho_filter::compile::compile(&json, &server)
                .unwrap_or_else(|e| panic!("{json}: {e}"));
        }
    }

    #[test]
    fn unknown_settings_are_reported() {
        let plan = plan(
            &theirs(&[("surprise", "1"), ("file_rotations", "0"), ("logging", "ON")]),
            To::Mariadb,
        );
        assert_eq!(value(&plan, Setting::RotateBytes), Some("0"));
        assert_eq!(value(&plan, Setting::RetentionBytes), None);
        assert!(plan.remarks.iter().any(|it| it.contains("surprise")), "{:?}", plan.remarks);
    }
}
