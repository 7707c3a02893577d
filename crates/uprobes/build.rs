//! Compiles the programs for the kernel, with clang: the only compiler that every Debian has for
//! them.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "src/tls.bpf.c";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_LOAD").is_none() {
        return;
    }
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("OUT_DIR")).join("tls.bpf.o");
    let compiled = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-Wno-unused-parameter", "-nostdinc", "-c", SOURCE, "-o"])
        .arg(&object)
        .status();
    let why = match compiled {
        Ok(status) if status.success() => return,
        Ok(status) => format!("it ended with {status}"),
        Err(error) => error.to_string(),
    };
    panic!(
        "{} cannot compile {SOURCE}: {why}; install Debian's package clang, or build tacho with \
         --no-default-features, without `tacho capture --tls-uprobes`",
        clang.display()
    );
}
