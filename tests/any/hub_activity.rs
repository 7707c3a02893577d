//! `tacho ship` with an account: the hub shows the server's status and what its sessions do.

use tacho_tests::client::{Conn, Queryable as _};
use tacho_tests::hub::Hub;
use tacho_tests::recording::Recording;
use tacho_tests::wait;

fn long_statement(server: &Recording) -> (u64, std::thread::JoinHandle<()>) {
    let mut conn: Conn = server.connect().expect("a session");
    let id = conn.query_first("SELECT CONNECTION_ID()").expect("an answer").expect("a row");
    let thread = std::thread::spawn(move || {
        // It is killed: whether that is an error for its client is the server's business.
        let _ = conn.query_drop("SELECT SLEEP(1000), 'a literal that stays on the host'");
    });
    (id, thread)
}

#[test]
fn status_and_sessions_are_shown_without_literals() {
    let server = Recording::builder().start().expect("a server");
    let mut root = server.connect().expect("a session");
    root.query_drop("CREATE USER watch@localhost").expect("a user");
    root.query_drop("GRANT PROCESS ON *.* TO watch@localhost").expect("a privilege");
    let (id, sleeper) = long_statement(&server);
    let hub = Hub::start(&server.directory().join("hub")).expect("a hub");
    let socket = server.socket().to_str().expect("UTF-8");
    let ship = |name, user| {
        let account = ["--socket", socket, "--user", user];
        hub.ship_with(&server.log_directory(), name, &account).expect("a shipper")
    };
    let (mut known, mut unknown) = (ship("db1", "watch"), ship("db2", "stranger"));

    let [auditor, admin] = ["auditor", "admin"].map(|role| hub.client(role).expect("a token"));
    let seen = |client: &tacho_tests::hub::HubClient, name: &str| {
        let path = format!("/api/v1/servers/{name}/activity");
        // Until the first heartbeat with it there is nothing.
        client.get(&path, &[]).unwrap_or_default()
    };
    let process = |activity: &serde_json::Value| {
        let all = activity["processes"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|process| process["id"] == id)
    };
    let has_statement = |process: serde_json::Value| process["digest_text"].is_string();
    wait::until("the statement is shown", || {
        process(&seen(&auditor, "db1")).is_some_and(has_statement)
    });
    let activity = seen(&auditor, "db1");
    assert_eq!(activity["error"], serde_json::Value::Null);
    assert!(!activity.to_string().contains("a literal"), "{activity}");
    let text = process(&activity).expect("the session")["digest_text"].to_string();
    assert!(text.contains("SLEEP"), "{text}");
    assert!(activity["process_count"].as_u64() > Some(1), "{activity}");
    let written = server.product.named("Tacho_records_written");
    for name in ["Uptime", "Threads_running", "max_connections", &written] {
        assert!(activity["status"][name].is_string(), "{name}: {activity}");
    }
    let session = process(&seen(&admin, "db1")).expect("the session");
    assert!(session["digest_text"].is_null() && session["user"] == "root", "{session}");

    // A login that the server refuses is said, and the log is shipped all the same.
    wait::until("the refusal is shown", || {
        // MySQL's client may end before the server has named the account.
        seen(&auditor, "db2")["error"].as_str().is_some_and(|error| !error.is_empty())
    });
    wait::until("the log arrives", || {
        let state = auditor.server("db2").expect("an answer").unwrap_or_default();
        state["landed_seq"].as_u64() > Some(0)
    });

    root.query_drop(format!("KILL {id}")).expect("an answer");
    sleeper.join().expect("no panic");
    known.stop().expect("stops");
    unknown.stop().expect("stops");
}
