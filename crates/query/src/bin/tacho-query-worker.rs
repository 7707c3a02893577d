//! Zone: outside.
//!
//! A worker alone, for tests and benchmarks: the hub starts itself as one.

fn main() -> std::io::Result<()> {
    tacho_query::run_worker()
}
