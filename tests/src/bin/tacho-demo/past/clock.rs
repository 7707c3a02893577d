//! The clock of a past day: files, signatures and lines of the log have its time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tacho_logdir::{Fs, OpenMode, RealFs, Space, Stat};

/// One second, in the unit of all times here.
pub const SECOND_US: i64 = 1_000_000;

/// The operating system's files, with a clock that is set.
#[derive(Clone, Default)]
pub struct TimedFs(Arc<AtomicI64>);

impl TimedFs {
    /// Sets the clock, µs since 1970-01-01 UTC.
    pub fn set_us(&self, now_us: i64) {
        self.0.store(now_us, Ordering::Relaxed);
    }
}

impl Fs for TimedFs {
    type File = <RealFs as Fs>::File;

    fn now_s(&self) -> i64 {
        self.0.load(Ordering::Relaxed) / SECOND_US
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealFs.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealFs.list(dir)
    }

    fn canonical(&self, dir: &Path) -> io::Result<PathBuf> {
        RealFs.canonical(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Self::File> {
        RealFs.open(path, mode)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        RealFs.stat(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
        RealFs.replace(path, bytes, sync)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealFs.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        RealFs.space(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealFs.sync_dir(dir)
    }
}
