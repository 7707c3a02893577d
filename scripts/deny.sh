#!/usr/bin/env bash
# Checks third-party crates with cargo-deny: licences, bans and sources of all (deny.toml), and the
# licences of those that a server loads (crates/embed/deny.toml).
#
#   scripts/deny.sh               needs no network, except for a first run that compiles cargo-deny
#   scripts/deny.sh advisories    also known vulnerabilities: fetches the RustSec database
set -euo pipefail
cd "$(dirname "$0")/.."

deny=$(scripts/cargo-tool.sh cargo-deny 0.20.2)

# cargo-deny reads the licence files in the sources of the crates.
cargo fetch --locked --quiet --target x86_64-unknown-linux-gnu
# The workspace, then the crates that a server loads.
"$deny" --workspace --offline check bans licenses sources
"$deny" --manifest-path crates/embed/Cargo.toml --config crates/embed/deny.toml --offline \
    check licenses
if [ "${1:-}" = advisories ]; then
    "$deny" --workspace check advisories
fi
