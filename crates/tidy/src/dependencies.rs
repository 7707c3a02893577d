//! The crates that a database server loads.
//!
//! A crate that is not listed here fails, with the reason if it is one of those that must not get
//! in. A new one needs an entry with a reason, and a reviewer who has looked at what it does: it
//! runs in the process of the database, as its user.

use std::process::Command;

use crate::tree::root;

/// Crates of the workspace itself.
const OWN: &str = "tacho-";

/// On query threads: what `crates/probe` and the producer half of the arena are made of.
const HOT: &[(&str, &[&str])] = &[
    ("constants and types of the system calls in crates/ring/src/sys.rs", &["libc"]),
    (
        "vector instructions for comparing statements with rules; no allocation, and in the proof \
         link (scripts/proof.sh)",
        &["bytemuck", "safe_arch", "wide"],
    ),
];

/// On the recorder's own threads.
const COLD: &[(&str, &[&str])] = &[
    ("constants and types of system calls", &["cfg-if", "libc"]),
    ("hash of the seal, and of digests", &["arrayvec", "blake3", "constant_time_eq"]),
    (
        "finding bytes, and digests with vector instructions",
        &["bytemuck", "memchr", "safe_arch", "wide"],
    ),
    ("time zone of the server's machine, read from its own database", &["jiff", "jiff-core"]),
    (
        "JSON of filters and rules, and the messages between server and recorder outside",
        &["itoa", "jsonc-parser", "serde", "serde_core", "serde_json", "zmij"],
    ),
    ("text forms of keys and arbitrary bytes", &["base64"]),
    ("messages of errors", &["thiserror"]),
    ("random bytes for keys", &["getrandom"]),
    (
        "signatures of the seal",
        &[
            "const-oid",
            "cpufeatures",
            "curve25519-dalek",
            "der",
            "digest",
            "ed25519",
            "ed25519-dalek",
            "block-buffer",
            "crypto-common",
            "generic-array",
            "sha2",
            "signature",
            "subtle",
            "typenum",
            "zeroize",
        ],
    ),
    ("compression of closed files", &["zstd", "zstd-safe", "zstd-sys"]),
    (
        "encryption of closed files in the age format, with native keys only",
        &[
            "aead",
            "age",
            "age-core",
            "bech32",
            "chacha20",
            "chacha20poly1305",
            "cipher",
            "cookie-factory",
            "hkdf",
            "hmac",
            "inout",
            "io_tee",
            "nom",
            "opaque-debug",
            "pbkdf2",
            "pin-project",
            "poly1305",
            "rand",
            "rand_chacha",
            "rand_core",
            "salsa20",
            "scrypt",
            "secrecy",
            "universal-hash",
            "x25519-dalek",
            "ppv-lite86",
            "zerocopy",
        ],
    ),
    (
        "age cannot be compiled without its post-quantum and P-256 keys, which we do not offer",
        &[
            "aes",
            "aes-gcm",
            "base16ct",
            "crypto-bigint",
            "ctr",
            "elliptic-curve",
            "ff",
            "ghash",
            "group",
            "hpke",
            "hybrid-array",
            "keccak",
            "kem",
            "ml-kem",
            "p256",
            "polyval",
            "primeorder",
            "sec1",
            "sha3",
        ],
    ),
    (
        "age cannot be compiled without its translated messages, which we do not show",
        &[
            "arc-swap",
            "fluent",
            "fluent-bundle",
            "fluent-langneg",
            "fluent-syntax",
            "i18n-embed",
            "intl-memoizer",
            "intl_pluralrules",
            "lazy_static",
            "lock_api",
            "log",
            "parking_lot",
            "parking_lot_core",
            "rust-embed",
            "rust-embed-utils",
            "rustc-hash",
            "same-file",
            "scopeguard",
            "self_cell",
            "smallvec",
            "tinystr",
            "type-map",
            "unic-langid",
            "unic-langid-impl",
            "walkdir",
        ],
    ),
    (
        "age's cookie-factory names them in a signature; no executor is ever started",
        &[
            "futures",
            "futures-channel",
            "futures-core",
            "futures-executor",
            "futures-io",
            "futures-sink",
            "futures-task",
            "futures-util",
            "pin-project-lite",
            "slab",
        ],
    ),
];

/// Crates that a server must never load, by the beginning of their names.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "an async runtime starts threads that outlive UNINSTALL and allocates in ways that we \
         cannot bound",
        &["async-std", "async-io", "mio", "monoio", "smol", "tokio"],
    ),
    (
        "a table format belongs into the service that reads the log: it would multiply the size \
         of the plugin",
        &["arrow", "datafusion", "parquet", "polars"],
    ),
    (
        "no connection to other machines is made from the server's process: `tacho convert --send` \
         does that outside of it",
        &["hyper", "native-tls", "openssl", "quinn", "reqwest", "rustls", "ureq"],
    ),
    (
        "another allocator, or a handler of signals or panics, changes the process of the database",
        &["ctrlc", "jemalloc", "mimalloc", "signal-hook", "tikv-jemalloc"],
    ),
];

/// Crates that query threads run.
pub fn check_hot() -> Vec<String> {
    check("tacho-probe", &names(&cargo_tree("tacho-probe")), HOT)
}

/// Crates that a server loads.
pub fn check_cold() -> Vec<String> {
    check("tacho-embed", &names(&cargo_tree("tacho-embed")), COLD)
}

/// What is linked into `package`: without what only the compiler runs.
fn cargo_tree(package: &str) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p}"])
        .args(["--edges", "normal,no-proc-macro", "--package", package])
        .output()
        .expect("cannot run cargo");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree --package {package}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn names(tree: &str) -> Vec<&str> {
    let mut names: Vec<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    names.retain(|name| !name.is_empty() && !name.starts_with(OWN));
    names.sort_unstable();
    names.dedup();
    names
}

fn check(package: &str, names: &[&str], allowed: &[(&str, &[&str])]) -> Vec<String> {
    let line =
        |name: &str| format!("crates/{}/Cargo.toml:1: {package} loads {name}: ", &package[6..]);
    let is_allowed = |name: &&&str| allowed.iter().any(|(_, crates)| crates.contains(*name));
    let reason = |name: &str| {
        let is_forbidden = |crates: &[&str]| crates.iter().any(|begin| name.starts_with(begin));
        FORBIDDEN.iter().find(|(_, crates)| is_forbidden(crates)).map_or(
            "not listed in crates/tidy/src/dependencies.rs; add it with the reason why a database \
             server has to run it",
            |(reason, _)| reason,
        )
    };
    let unknown = names.iter().filter(|name| !is_allowed(name));
    let mut messages: Vec<String> = unknown.map(|name| line(name) + reason(name)).collect();
    for (reason, crates) in allowed {
        for name in crates.iter().filter(|name| !names.contains(*name)) {
            messages.push(format!(
                "crates/tidy/src/dependencies.rs:1: {package} does not load {name} any more: \
                 remove it from the list ({reason})"
            ));
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[(&str, &[&str])] = &[("needed", &["libc"])];

    #[test]
    fn names_are_those_of_other_crates() {
        let tree = "tacho-x v0.1.0 (/x)\nlibc v0.2.1\nserde v1.0.0\n\nlibc v0.2.1 (*)\n";
        assert_eq!(names(tree), ["libc", "serde"]);
    }

    #[test]
    fn an_unknown_and_a_forbidden_crate_are_found() {
        let found = check("tacho-embed", &["libc", "tokio-util", "unheard-of"], ALLOWED);
        assert!(
            found[0].starts_with("crates/embed/Cargo.toml:1: tacho-embed loads tokio-util: an")
        );
        assert!(found[1].contains("loads unheard-of: not listed"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_crate_that_is_gone_leaves_the_list() {
        let found = check("tacho-embed", &[], ALLOWED);
        assert!(found[0].contains("does not load libc any more"), "{found:?}");
        assert_eq!(check("tacho-embed", &["libc"], ALLOWED), [""; 0]);
    }
}
