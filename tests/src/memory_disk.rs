//! A file system in memory whose size a test changes: it is full without anything that fills it up,
//! and has space again after a call.
//!
//! It is mounted in the mount namespace of this process ([`crate::namespace`]).

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

/// A file system that ends with it.
#[derive(Debug)]
pub struct MemoryDisk {
    path: PathBuf,
}

impl MemoryDisk {
    /// Mounts one of so many bytes on a directory, which is made.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn mount(path: &Path, bytes: u64) -> Result<Self> {
        fs::create_dir_all(path)?;
        let size = size(bytes)?;
        let mounted = mount("tacho-test", path, "tmpfs", MountFlags::empty(), Some(&*size));
        mounted.with_context(|| format!("mounting a tmpfs on {}", path.display()))?;
        Ok(Self { path: path.to_owned() })
    }

    /// Changes its size, which cannot be less than what is in use.
    ///
    /// # Errors
    /// It is less, or the kernel refuses.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        let resized = mount_remount(&self.path, MountFlags::empty(), &*size(bytes)?);
        resized.with_context(|| format!("resizing the tmpfs on {}", self.path.display()))
    }
}

impl Drop for MemoryDisk {
    fn drop(&mut self) {
        // A test that has failed may still have files open there.
        if let Err(error) = unmount(&self.path, UnmountFlags::DETACH) {
            eprintln!("unmounting {}: {error}", self.path.display());
        }
    }
}

fn size(bytes: u64) -> Result<CString> {
    Ok(CString::new(format!("size={bytes}"))?)
}
