//! Two MySQL servers, one of which applies what the other one has executed.

use std::fs;

use crate::client::{Conn, Queryable as _};
use crate::mysql_server::{MySql, Release, release};

/// What both have to be started with, beside a `server-id` of their own.
pub const OPTIONS: [&str; 2] = ["gtid-mode=ON", "enforce-gtid-consistency=ON"];

/// The password of the account that replicates.
pub const SECRET: &str = "Repl1cat10nSecret";

/// Gives a replica that is running an identity of its own: both come from one template, and so does
/// what they take for it. Its sessions end.
///
/// # Panics
/// It does not come up again.
pub fn give_identity(replica: &mut MySql) {
    replica.stop().expect("stopping");
    fs::remove_file(replica.data_directory().join("auto.cnf")).expect("removing");
    replica.restart().expect("restarting");
}

/// Has the replica follow the source from now on: what both have executed so far is forgotten.
/// `START REPLICA` is the caller's.
///
/// # Panics
/// One of them refuses something.
pub fn connect(source: &MySql, at_source: &mut Conn, at_replica: &mut Conn) {
    let reset = match release() {
        Release::Mysql97 => "RESET BINARY LOGS AND GTIDS",
        Release::Mysql80 => "RESET MASTER",
    };
    at_replica.query_drop(reset).expect("an answer");
    at_source.query_drop(reset).expect("an answer");
    at_source.query_drop(format!("CREATE USER repl IDENTIFIED BY '{SECRET}'")).expect("an answer");
    at_source.query_drop("GRANT REPLICATION SLAVE ON *.* TO repl").expect("an answer");
    at_replica
        .query_drop(format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, \
             SOURCE_USER='repl', SOURCE_PASSWORD='{SECRET}', SOURCE_AUTO_POSITION=1, \
             GET_SOURCE_PUBLIC_KEY=1",
            source.port()
        ))
        .expect("an answer");
}
