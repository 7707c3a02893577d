//! Another generation: after a log directory contradicts its replica.
//!
//! `<generation>.json` beside the directory of a generation says why it began.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tacho_ship::protocol::FileName;
use tacho_ship::protocol::answers::NewGeneration;

use super::replica::{Replica, UNFINISHED, make, remove_unfinished};
use super::space::sync_directory;
use crate::say::say;

/// Why a generation began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// When, µs since 1970-01-01 UTC.
    pub time_us: i64,
    /// What the shipper has found.
    #[serde(flatten)]
    pub request: NewGeneration,
}

impl Replica {
    /// Begins the next generation, which has the older files in common with the current one. A
    /// crash leaves either both generations or the current one alone.
    pub(super) fn begin_generation(
        &mut self,
        request: &NewGeneration,
        now_us: i64,
    ) -> io::Result<()> {
        let result = self.try_begin_generation(request, now_us);
        if result.is_err()
            && let Err(error) = remove_unfinished(&self.root)
        {
            say(&format!("{}: cannot remove an unfinished generation: {error}", self.origin));
        }
        result
    }

    fn try_begin_generation(&mut self, request: &NewGeneration, now_us: i64) -> io::Result<()> {
        let next = self.generation + 1;
        let unfinished = self.root.join(format!("{UNFINISHED}{next}"));
        remove_unfinished(&self.root)?;
        make(&unfinished)?;
        self.close_all();
        let offsets: BTreeMap<FileName, u64> = (self.offsets.iter())
            .filter(|(name, _)| is_shared(name, &request.file))
            .map(|(name, offset)| (name.clone(), *offset))
            .collect();
        for name in offsets.keys() {
            let name = name.to_string();
            std::fs::hard_link(self.path().join(&name), unfinished.join(&name))?;
        }
        sync_directory(&unfinished)?;
        let beginning = Beginning { time_us: now_us, request: request.clone() };
        write_json(&self.root, &format!("{next}.json"), &beginning)?;
        std::fs::rename(&unfinished, self.root.join(next.to_string()))?;
        self.enter(next, offsets);
        self.sync_name()
    }
}

/// Whether both generations have a file: it is older than the one that contradicts.
fn is_shared(name: &FileName, contradicted: &FileName) -> bool {
    match (name.stem(), contradicted.stem()) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(stem), Some(first)) => stem < first,
    }
}

pub(super) fn write_json(directory: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let unfinished = directory.join(format!("{UNFINISHED}{name}"));
    let mut file = File::create(&unfinished)?;
    serde_json::to_writer(&mut file, value)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&unfinished, directory.join(name))
}
