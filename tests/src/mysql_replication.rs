//! Two MySQL servers: one applies what the other has executed.

use std::fs;

use crate::client::{Conn, Queryable as _};
use crate::mysql_server::{MySql, Release, release};

/// Options of both, besides their own `server-id`.
pub const OPTIONS: [&str; 2] = ["gtid-mode=ON", "enforce-gtid-consistency=ON"];

/// The password of the account that replicates.
pub const SECRET: &str = "Repl1cat10nSecret";

/// Gives a running replica its own identity: both are copied from one template, including its
/// identity. Its sessions end.
///
/// # Panics
/// It does not come up again.
pub fn give_identity(replica: &mut MySql) {
    replica.stop().expect("stopping");
    fs::remove_file(replica.data_directory().join("auto.cnf")).expect("removing");
    replica.restart().expect("restarting");
}

/// Makes the replica follow the source from now on: statements executed so far are forgotten. The
/// caller must send `START REPLICA`.
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
