//! The authentication plugin `map_auth` (`tests/plugins/map_auth.c`), which maps a login to another
//! identity.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{server, source_root};

/// Builds it into a directory of the test, which the test removes.
///
/// # Panics
/// It does not compile.
pub fn build() -> PathBuf {
    let test = std::thread::current().name().unwrap_or("map_auth").replace("::", "-");
    let directory = crate::unused_directory(&format!("auth-{test}"));
    fs::create_dir_all(&directory).expect("a directory");
    let library = directory.join("map_auth.so");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers"])
        .args(["-Werror", "-DMYSQL_DYNAMIC_PLUGIN", "-isystem"])
        .arg(server::installation().usr().join("include/mariadb/server"))
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source_root().join("tests/plugins/map_auth.c")])
        .output()
        .expect("cc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}
