//! The built-in views of `tacho report`.

use crate::support::{Log, stderr, stdout, tacho};

const FILE: &str = "audit-20261121T100000Z-000001.jsonl";

/// A log of lines with these fields, one a second from 10:00:00 on.
fn log(lines: &[&str]) -> Log {
    let log = Log::new();
    for (index, fields) in lines.iter().enumerate() {
        let (seq, second) = (index + 1, index % 60);
        log.append(
            FILE,
            format!(
                "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T10:00:{second:02}.000000+00:00\",{fields}}}\n"
            ),
        );
    }
    log
}

fn view(log: &Log, args: &[&str]) -> String {
    let (view, options) = args.split_first().unwrap();
    let path = log.path().to_str().unwrap();
    let output = tacho(&[&["report", view, path, "--utc"], options].concat());
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    stdout(&output)
}

const CONNECT: &str = r#""event":"connect","outcome":"ok","run":1,"conn":7,"user":"app","ip":"10.0.0.5","program":"php""#;
const REFUSED: &str = r#""event":"connect_failed","outcome":"error","run":1,"conn":8,"user":"root","host":"evil","errno":1045,"error":"Access denied for user"#;
const SELECT: &str = r#""event":"statement","outcome":"ok","run":1,"conn":7,"user":"app","ip":"10.0.0.5","sql_command":"select","sql":"SELECT 1","digest":"1:aa","rows_sent":3,"query_time_us":2500000"#;
const WRONG: &str = r#""event":"statement","outcome":"error","run":1,"conn":7,"user":"app","db":"shop","errno":1146,"error":"Table 't' doesn't exist","sql":"SELECT * FROM t","digest":"1:bb","query_time_us":90"#;
const CREATE: &str = r#""event":"statement","outcome":"ok","run":1,"conn":9,"user":"root","host":"db1","db":"shop","sql_command":"create_table","sql":"CREATE TABLE t (a INT)","digest":"1:cc","query_time_us":900"#;
const GRANT: &str = r#""event":"statement","outcome":"error","run":1,"conn":9,"user":"root","host":"db1","sql_command":"grant","errno":1133,"sql":"GRANT ALL ON *.* TO x""#;
const PASSWORD: &str = r#""event":"statement","outcome":"ok","run":1,"conn":9,"user":"root","host":"db1","sql_command":"set_option","sql":"set password = <secret>""#;
const SET: &str = r#""event":"statement","outcome":"ok","run":1,"conn":9,"user":"root","host":"db1","sql_command":"set_option","sql":"SET NAMES utf8mb4""#;
const END: &str = r#""event":"disconnect","run":1,"conn":7,"user":"app","ip":"10.0.0.5""#;

#[test]
fn logins_by_user_and_host() {
    let first = format!(r#"{REFUSED} 1""#);
    let second = format!(r#"{REFUSED} 2""#);
    let log = log(&[CONNECT, &first, CONNECT, &second, CONNECT, SELECT, END]);
    assert_eq!(
        view(&log, &["logins"]),
        "\
USER  HOST      LOGINS  FAILED  FIRST                LAST                 LAST ERROR
app   10.0.0.5       3       0  2026-11-21 10:00:00  2026-11-21 10:00:04  -
root  evil           0       2  2026-11-21 10:00:01  2026-11-21 10:00:03  Access denied for user 2

5 login attempts from 2026-11-21 10:00:00 to 2026-11-21 10:00:04; 2 groups
"
    );
}

#[test]
fn errors_with_their_last_message() {
    let log = log(&[SELECT, WRONG, WRONG, &format!(r#"{REFUSED}""#)]);
    assert_eq!(
        view(&log, &["errors"]),
        "\
ERRNO  USER  DB    COUNT  FIRST                LAST                 LAST MESSAGE
 1146  app   shop      2  2026-11-21 10:00:01  2026-11-21 10:00:02  Table 't' doesn't exist
 1045  root  -         1  2026-11-21 10:00:03  2026-11-21 10:00:03  Access denied for user

3 errors from 2026-11-21 10:00:01 to 2026-11-21 10:00:03; 2 groups
"
    );
}

#[test]
fn changes_of_schema_and_accounts_in_their_order() {
    let log = log(&[CREATE, SELECT, GRANT, PASSWORD, SET, CREATE]);
    assert_eq!(
        view(&log, &["ddl", "--top", "1"]),
        "\
TIME                 USER  HOST  DB    RESULT  COMMAND       STATEMENT
2026-11-21 10:00:05  root  db1   shop  ok      create_table  CREATE TABLE t (a INT)

2 statements from 2026-11-21 10:00:00 to 2026-11-21 10:00:05; 1 of 2 rows shown
"
    );
    assert_eq!(
        view(&log, &["grants"]),
        "\
TIME                 USER  HOST  DB  RESULT  COMMAND     STATEMENT
2026-11-21 10:00:02  root  db1   -   1133    grant       GRANT ALL ON *.* TO x
2026-11-21 10:00:03  root  db1   -   ok      set_option  set password = <secret>

2 statements from 2026-11-21 10:00:02 to 2026-11-21 10:00:03; 2 rows
"
    );
}

#[test]
fn slow_shapes_of_statements() {
    let log = log(&[SELECT, WRONG, SELECT, END]);
    let text = view(&log, &["slow", "--width", "110"]);
    assert_eq!(
        text,
        "\
DIGEST  COUNT  ERRORS  ROWS  EXAMINED   TIME    P50    P95    P99    MAX  STATEMENT
1:aa        2       0     6         0  5.00s  2.50s  2.50s  2.50s  2.50s  SELECT ?
1:bb        1       1     0         0   90µs   90µs   90µs   90µs   90µs  SELECT * FROM `t`

3 statements from 2026-11-21 10:00:00 to 2026-11-21 10:00:02; 2 groups
"
    );
}

#[test]
fn sessions_from_login_to_logout() {
    let log = log(&[CONNECT, SELECT, WRONG, CREATE, SELECT, END]);
    assert_eq!(
        view(&log, &["sessions"]),
        "\
RUN/CONN  USER  HOST      FROM                 STATE   DURATION  STATEMENTS  ERRORS  ROWS   TIME
1/7       app   10.0.0.5  2026-11-21 10:00:00  closed     5.00s           3       1     6  5.00s
1/9       root  db1       2026-11-21 10:00:03  part         0µs           1       0     0  900µs

4 statements from 2026-11-21 10:00:01 to 2026-11-21 10:00:04; 2 sessions
"
    );
    let json = view(&log, &["sessions", "--format", "json", "--user", "app"]);
    assert!(
        json.contains(r#""program":"php""#) && json.contains(r#""duration_us":5000000"#),
        "{json}"
    );
}

#[test]
fn a_view_takes_its_options_after_its_name() {
    let output = tacho(&["report", "--by", "user", "logins"]);
    assert_eq!(output.status.code(), Some(2));
    let output = tacho(&["report", "ddl", "--sort", "time"]);
    assert_eq!(output.status.code(), Some(2));
}
