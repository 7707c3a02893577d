//! The command `tacho-hub` as a process, with shippers.

mod audit;
mod backup;
mod compression;
mod convert;
mod crowd;
mod examples;
mod export;
mod forecast;
mod hub;
mod pages;
#[path = "../alerts/receiver.rs"]
mod receiver;
#[path = "../../../chain/tests/support/mod.rs"]
#[expect(dead_code, reason = "the support of another crate's tests")]
mod recorder;
mod retention;
mod search;
mod shipping;
mod tls;
mod upgrade;

use hub::{HUB, Hub};

#[test]
fn it_serves_and_stops_in_order() {
    let mut hub = Hub::start();
    assert!(hub.get("/healthz", "").starts_with("HTTP/1.1 200"));
    assert_eq!(hub.stop(), Some(0));
}

#[test]
fn the_first_start_prints_a_link_until_there_is_an_administrator() {
    let mut hub = Hub::start();
    let link = hub.link().expect("a link");
    assert!(link.contains("/sign-in#tacho_signin_"), "{link}");
    hub.token(&["--role", "admin"]);
    hub.spawn(&[]);
    assert_eq!(hub.link(), None);
}

#[test]
fn two_hubs_do_not_share_a_directory() {
    let hub = Hub::start();
    let second = std::process::Command::new(HUB)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(hub.data.path())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another tacho-hub"));
}

#[test]
fn a_token_is_made_beside_a_running_hub() {
    let hub = Hub::start();
    let token = hub.token(&["--role", "agent", "--server", "db1"]);
    assert!(hub.get("/api/v1/origins/db1", &token).starts_with("HTTP/1.1 200"));
    assert_eq!(hub.run(&["token", "create", "--role", "agent"]).status.code(), Some(1));
    assert_eq!(hub.run(&["token", "create", "--role", "king"]).status.code(), Some(2));
}

#[test]
fn without_tls_it_listens_only_on_loopback() {
    let hub = Hub::start();
    let other = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(HUB)
        .args(["serve", "--listen", "0.0.0.0:0", "--data"])
        .arg(other.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("loopback"));
    drop(hub);
}
