//! Where DuckDB's library is.

use std::env;
use std::path::{Path, PathBuf};

/// Its file name.
const NAME: &str = "libduckdb.so";
/// The release that the declarations in `ffi` are of.
const RELEASE: &str = "1.5.5";

/// Finds the library: `TACHO_DUCKDB`; beside the program, or in the `lib/tachograph` beside the
/// program's directory; where `scripts/setup-duckdb.sh` leaves it. `None`: it is in none of them.
pub fn find_library() -> Option<PathBuf> {
    if let Some(path) = env::var_os("TACHO_DUCKDB") {
        return Some(path.into());
    }
    let program = env::current_exe().ok();
    let bin = program.as_deref().and_then(Path::parent);
    let beside = bin.map(|bin| bin.join(NAME));
    let installed = bin.and_then(Path::parent).map(|root| root.join("lib/tachograph").join(NAME));
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let fetched = cache.map(|cache| cache.join(format!("tachograph/duckdb-{RELEASE}")).join(NAME));
    [beside, installed, fetched].into_iter().flatten().find(|path| path.exists())
}
