//! A file system in memory that fails on demand, for tests.
//!
//! It keeps what a real one keeps through the death of a process: all data written so far, and no
//! unlinked file that only the dead process had open. It counts operations, and a [`Fault`] can be
//! set for any later one. A power failure keeps what was synced, and any part of the rest: the two
//! extremes are tested.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::fs::{FileId, Fs, FsFile, OpenMode, Space, Stat};

/// Fault of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error number, and has no effect.
    Fail(i32),
    /// A write takes this many bytes at most (but one, at least).
    Short(usize),
    /// A write takes this many bytes, but fails with this error number.
    FailAfter(usize, i32),
    /// The process dies. A write has taken this many bytes by then; any other operation
    /// has been done if the number is odd.
    Die(usize),
    /// Just before it, another process removes the open log files.
    Unlink,
    /// Just before it, another process removes every directory of open files, with all its content.
    RemoveDir,
}

/// Which changes of names survive a power failure.
#[derive(Clone, Copy, Debug)]
pub enum NamesAfter {
    /// Those that were synced.
    NoChange,
    /// Removals and replacements: a disk may write these first.
    Removals,
    /// All changes.
    AllChanges,
}

#[derive(Default)]
struct Node {
    data: Vec<u8>,
    /// Content on the device.
    on_device: Vec<u8>,
    /// Bytes that the page cache would write back.
    dirty: BTreeSet<usize>,
    modified_s: i64,
    links: u64,
    handles: u64,
    locked_by: Option<u64>,
}

#[derive(Default)]
struct Disk {
    dirs: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, usize>,
    /// Names on the device.
    synced_names: BTreeMap<PathBuf, usize>,
    nodes: Vec<Node>,
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    forbidden: Option<PathBuf>,
    /// File that loses a bit when it is synced.
    spoiled: Option<PathBuf>,
    capacity_bytes: Option<u64>,
    file_bytes_max: Option<u64>,
    dead: bool,
    life: u64,
    handles: u64,
    now_s: i64,
}

/// All clones share it.
#[derive(Clone, Default)]
pub struct FaultyFs(Arc<Mutex<Disk>>);

/// An open file; the number of the process tells whether its process has died.
pub struct FaultyFile {
    fs: FaultyFs,
    node: usize,
    handle: u64,
    life: u64,
    append: bool,
    position: usize,
}

fn errno<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

/// Result in a dead process, which no real code sees.
fn gone<T>() -> io::Result<T> {
    Err(io::Error::other("this process is dead"))
}

impl Disk {
    fn used_bytes(&self) -> u64 {
        let in_use = self.nodes.iter().filter(|node| node.links + node.handles > 0);
        in_use.map(|node| node.data.len() as u64).sum()
    }

    fn stat(&self, node: usize) -> Stat {
        Stat {
            id: FileId { device: 1, inode: node as u64 },
            bytes: self.nodes[node].data.len() as u64,
            modified_s: self.nodes[node].modified_s,
            links: self.nodes[node].links,
            is_file: true,
            is_dir: false,
            mode: 0o600,
        }
    }

    fn files_in(&self, dir: &Path) -> Vec<PathBuf> {
        self.names.keys().filter(|path| path.parent() == Some(dir)).cloned().collect()
    }

    fn unlink(&mut self, path: &Path) {
        let node = self.names.remove(path).expect("tests unlink what exists");
        self.nodes[node].links -= 1;
    }

    fn remove_dir_all(&mut self, dir: &Path) {
        for path in self.files_in(dir) {
            self.unlink(&path);
        }
        self.dirs.remove(dir);
    }

    /// Counts an operation. A fault that another process causes before it is applied here.
    fn next_fault(&mut self) -> Option<Fault> {
        self.operations += 1;
        let fault = self.faults.remove(&self.operations);
        if matches!(fault, Some(Fault::Unlink | Fault::RemoveDir)) {
            let is_log = |path: &Path| path.extension().is_some_and(|ending| ending == "jsonl");
            let open = self.names.iter().filter(|(_, node)| self.nodes[**node].handles > 0);
            let open = open.map(|(path, _)| path.clone()).filter(|path| is_log(path));
            for path in open.collect::<Vec<_>>() {
                match (fault, path.parent()) {
                    (Some(Fault::RemoveDir), Some(dir)) => self.remove_dir_all(dir),
                    _ => self.unlink(&path),
                }
            }
        }
        fault
    }

    /// Runs one operation other than write, with its fault, if any.
    fn operate<T>(&mut self, run: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        if self.dead {
            return gone();
        }
        match self.next_fault() {
            None | Some(Fault::Short(_) | Fault::Unlink | Fault::RemoveDir) => run(self),
            Some(Fault::Fail(number) | Fault::FailAfter(_, number)) => errno(number),
            Some(Fault::Die(when)) => {
                if when % 2 == 1 {
                    // A file opened by a dying process is closed by its death, not by a drop (which
                    // would wait for the lock that is held here).
                    std::mem::forget(run(self));
                }
                self.dead = true;
                gone()
            }
        }
    }

    /// Syncs the names of a directory to the device.
    fn sync_names(&mut self, dir: &Path) {
        self.synced_names.retain(|path, _| path.parent() != Some(dir));
        let names = self.names.iter().filter(|(path, _)| path.parent() == Some(dir));
        self.synced_names.extend(names.map(|(path, node)| (path.clone(), *node)));
    }

    fn above(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().expect("tests use paths with a parent");
        if self.names.contains_key(parent) {
            return errno(libc::ENOTDIR);
        }
        if self.dirs.contains(parent) { Ok(()) } else { errno(libc::ENOENT) }
    }
}

impl FaultyFs {
    /// A file system with the directory `/`.
    pub fn new() -> FaultyFs {
        let fs = FaultyFs::default();
        fs.state().dirs.insert(PathBuf::from("/"));
        fs
    }

    fn state(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("no test panics while it holds this")
    }

    /// Sets a fault for the operation after `skipped` others.
    pub fn fault_after(&self, skipped: u64, fault: Fault) {
        let mut state = self.state();
        let at = state.operations + 1 + skipped;
        state.faults.insert(at, fault);
    }

    /// Forbids replacing or removing a file; `None`: permits it again.
    pub fn forbid(&self, path: Option<&Path>) {
        self.state().forbidden = path.map(Path::to_owned);
    }

    /// Clears all pending faults and limits.
    pub fn repair(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.capacity_bytes = None;
        state.file_bytes_max = None;
    }

    /// Leaves space for this many further bytes; `None`: unlimited.
    pub fn set_room(&self, room_bytes: Option<u64>) {
        let mut state = self.state();
        state.capacity_bytes = room_bytes.map(|room| state.used_bytes() + room);
    }

    /// Limits the length of each file, as `ulimit -f` does.
    pub fn set_file_bytes_max(&self, bytes: Option<u64>) {
        self.state().file_bytes_max = bytes;
    }

    /// Sets the time of the clock, s since 1970-01-01.
    pub fn set_now_s(&self, now_s: i64) {
        self.state().now_s = now_s;
    }

    /// Whether the process has died ([`Fault::Die`]).
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Ends the process: its files are closed and its locks released; then another one starts.
    pub fn restart_process(&self) {
        let mut state = self.state();
        state.dead = false;
        state.life += 1;
        state.faults.clear();
        for node in &mut state.nodes {
            node.handles = 0;
            node.locked_by = None;
        }
    }

    /// The machine loses power and restarts: data that was not synced is gone. `names`: which of
    /// the names survive that were created, removed or replaced since the directory was synced.
    pub fn cut_power(&self, names: NamesAfter) {
        let mut guard = self.state();
        let state = &mut *guard;
        let now = std::mem::take(&mut state.names);
        state.names = match names {
            NamesAfter::AllChanges => now,
            NamesAfter::NoChange => state.synced_names.clone(),
            NamesAfter::Removals => {
                let mut names = state.synced_names.clone();
                names.retain(|path, node| now.get(path) == Some(node));
                names
            }
        };
        state.synced_names.clone_from(&state.names);
        for node in &mut state.nodes {
            node.data.clone_from(&node.on_device);
            node.dirty.clear();
            node.links = 0;
        }
        for node in state.names.values() {
            state.nodes[*node].links = 1;
        }
        drop(guard);
        self.restart_process();
    }

    /// Syncs everything to the device.
    pub fn sync_all(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.synced_names.clone_from(&state.names);
        for node in &mut state.nodes {
            node.on_device.clone_from(&node.data);
            node.dirty.clear();
        }
    }

    // Changes by other programs.

    /// Removes a file.
    pub fn unlink(&self, path: &Path) {
        self.state().unlink(path);
    }

    /// Removes a directory with all its content.
    pub fn remove_dir_all(&self, dir: &Path) {
        self.state().remove_dir_all(dir);
    }

    /// Renames a file.
    pub fn rename(&self, from: &Path, to: &Path) {
        let mut state = self.state();
        let node = state.names.remove(from).expect("tests rename what exists");
        assert!(state.names.insert(to.to_owned(), node).is_none());
    }

    /// Cuts a file to this length.
    pub fn truncate(&self, path: &Path, bytes: usize) {
        let mut state = self.state();
        let node = state.names[path];
        state.nodes[node].data.truncate(bytes);
    }

    /// Writes to the end of a file.
    pub fn append(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        let node = match state.names.get(path) {
            Some(node) => *node,
            None => {
                state.nodes.push(Node { links: 1, ..Node::default() });
                let node = state.nodes.len() - 1;
                state.names.insert(path.to_owned(), node);
                node
            }
        };
        state.nodes[node].data.extend_from_slice(bytes);
    }

    /// Number of operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// The device will lose a bit of this file.
    pub fn spoil(&self, path: &Path) {
        self.state().spoiled = Some(path.to_owned());
    }

    /// All files of a directory, sorted by name.
    pub fn files_in(&self, dir: &Path) -> Vec<PathBuf> {
        self.state().files_in(dir)
    }

    /// Content of a file.
    pub fn read(&self, path: &Path) -> Vec<u8> {
        let state = self.state();
        state.nodes[state.names[path]].data.clone()
    }

    /// Whether the process has it open.
    pub fn is_open(&self, path: &Path) -> bool {
        let state = self.state();
        state.nodes[state.names[path]].handles > 0
    }
}

impl Fs for FaultyFs {
    type File = FaultyFile;

    fn now_s(&self) -> i64 {
        self.state().now_s
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.state().operate(|state| {
            if state.names.contains_key(path) || state.dirs.contains(path) {
                return errno(libc::EEXIST);
            }
            state.above(path)?;
            state.dirs.insert(path.to_owned());
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = self
            .files_in(dir)
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect();
        // A real directory is not listed in the order of names either.
        names.reverse();
        self.state().operate(
            |state| {
                if state.dirs.contains(dir) { Ok(names) } else { errno(libc::ENOENT) }
            },
        )
    }

    fn canonical(&self, dir: &Path) -> io::Result<PathBuf> {
        // This file system has no links.
        Ok(dir.to_owned())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<FaultyFile> {
        self.state().operate(|state| {
            state.above(path)?;
            let node = match (state.names.get(path), mode) {
                (Some(_), OpenMode::AppendNew) => return errno(libc::EEXIST),
                (Some(node), _) => *node,
                (None, OpenMode::Read | OpenMode::Private | OpenMode::Append) => {
                    return errno(libc::ENOENT);
                }
                (None, OpenMode::AppendNew | OpenMode::Lock) => {
                    state.nodes.push(Node { links: 1, ..Node::default() });
                    let node = state.nodes.len() - 1;
                    state.names.insert(path.to_owned(), node);
                    node
                }
            };
            state.handles += 1;
            state.nodes[node].handles += 1;
            Ok(FaultyFile {
                fs: self.clone(),
                node,
                handle: state.handles,
                life: state.life,
                append: matches!(mode, OpenMode::Append | OpenMode::AppendNew),
                position: 0,
            })
        })
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.state().operate(|state| {
            // Compares equal to the path without it; only the meaning differs.
            let as_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/.");
            if let Some(node) = state.names.get(path) {
                return if as_directory { errno(libc::ENOTDIR) } else { Ok(state.stat(*node)) };
            }
            if state.dirs.contains(path) {
                let id = FileId { device: 2, inode: 0 };
                return Ok(Stat {
                    id,
                    bytes: 0,
                    modified_s: 0,
                    links: 2,
                    is_file: false,
                    is_dir: true,
                    mode: 0o750,
                });
            }
            state.above(path)?;
            errno(libc::ENOENT)
        })
    }

    fn replace(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
        self.state().operate(|state| {
            if state.forbidden.as_deref() == Some(path) {
                return errno(libc::EACCES);
            }
            state.above(path)?;
            if state.dirs.contains(path) {
                return errno(libc::EISDIR);
            }
            if let Some(old) = state.names.remove(path) {
                state.nodes[old].links -= 1;
            }
            let on_device = if sync { bytes.to_vec() } else { Vec::new() };
            let dirty = (0..bytes.len()).collect();
            state.nodes.push(Node {
                links: 1,
                data: bytes.to_vec(),
                on_device,
                dirty,
                ..Node::default()
            });
            let node = state.nodes.len() - 1;
            state.names.insert(path.to_owned(), node);
            if let Some(dir) = path.parent().filter(|_| sync) {
                state.sync_names(dir);
            }
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state().operate(|state| {
            if state.forbidden.as_deref() == Some(path) {
                return errno(libc::EPERM);
            }
            state.above(path)?;
            let Some(node) = state.names.remove(path) else { return errno(libc::ENOENT) };
            state.nodes[node].links -= 1;
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.state().operate(|state| {
            state.above(to)?;
            let Some(node) = state.names.remove(from) else { return errno(libc::ENOENT) };
            if let Some(old) = state.names.insert(to.to_owned(), node) {
                state.nodes[old].links -= 1;
            }
            Ok(())
        })
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        self.state().operate(|state| {
            let used_bytes = state.used_bytes();
            let total_bytes = state.capacity_bytes.unwrap_or(1 << 40);
            Ok(Space { free_bytes: total_bytes.saturating_sub(used_bytes), total_bytes })
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.state().operate(|state| {
            state.sync_names(dir);
            Ok(())
        })
    }
}

impl FsFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut guard = self.fs.state();
        let state = &mut *guard;
        if state.dead {
            return gone();
        }
        assert_eq!(self.life, state.life, "a dead process writes");
        let fault = state.next_fault();
        if let Some(Fault::Fail(number)) = fault {
            return errno(number);
        }
        let length = state.nodes[self.node].data.len();
        let start = if self.append { length } else { self.position };
        let limit = |max: Option<u64>, used: u64| match max {
            Some(max) => usize::try_from(max.saturating_sub(used)).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let room = limit(state.capacity_bytes, state.used_bytes());
        let under = limit(state.file_bytes_max, start as u64);
        let wanted = match fault {
            Some(Fault::Short(count)) => count.max(1).min(bytes.len()),
            Some(Fault::FailAfter(count, _) | Fault::Die(count)) => count.min(bytes.len()),
            _ => bytes.len(),
        };
        let count = wanted.min(room).min(under);
        let now_s = state.now_s;
        let node = &mut state.nodes[self.node];
        node.modified_s = now_s;
        node.data.truncate(start);
        node.data.extend_from_slice(&bytes[..count]);
        node.dirty.extend(start..start + count);
        self.position = start + count;
        match fault {
            Some(Fault::FailAfter(_, number)) => errno(number),
            Some(Fault::Die(_)) => {
                state.dead = true;
                gone()
            }
            _ if count > 0 || wanted == 0 => Ok(count),
            _ if under == 0 => errno(libc::EFBIG),
            _ => errno(libc::ENOSPC),
        }
    }

    fn reopen(&self) -> io::Result<FaultyFile> {
        self.fs.state().operate(|state| {
            state.handles += 1;
            state.nodes[self.node].handles += 1;
            Ok(FaultyFile {
                fs: self.fs.clone(),
                handle: state.handles,
                append: false,
                position: 0,
                ..*self
            })
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.fs.state().operate(|state| {
            let node = &mut state.nodes[self.node];
            let start = offset as usize;
            node.data[start..start + bytes.len()].copy_from_slice(bytes);
            node.dirty.extend(start..start + bytes.len());
            Ok(bytes.len())
        })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fs.state().operate(|state| {
            let data = &state.nodes[self.node].data;
            let start = data.len().min(offset as usize);
            let count = buffer.len().min(data.len() - start);
            buffer[..count].copy_from_slice(&data[start..start + count]);
            Ok(count)
        })
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.fs.state().operate(|state| {
            let data = &mut state.nodes[self.node].data;
            assert!(data.len() as u64 >= bytes, "a hole is made");
            data.truncate(bytes as usize);
            Ok(())
        })
    }

    fn stat(&self) -> io::Result<Stat> {
        self.fs.state().operate(|state| Ok(state.stat(self.node)))
    }

    fn copy_attributes(&self, from: &FaultyFile) -> io::Result<()> {
        self.fs.state().operate(|state| {
            state.nodes[self.node].modified_s = state.nodes[from.node].modified_s;
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.fs.state();
        let result = state.operate(|state| {
            let spoiled = state.spoiled.as_ref().and_then(|path| state.names.get(path));
            let is_spoiled = spoiled == Some(&self.node);
            let Node { data, on_device, dirty, .. } = &mut state.nodes[self.node];
            if let Some(byte) = data.last_mut().filter(|_| is_spoiled) {
                *byte ^= 1;
            }
            on_device.resize(data.len(), 0);
            for at in dirty.iter().filter(|at| **at < data.len()) {
                on_device[*at] = data[*at];
            }
            Ok(())
        });
        // As on Linux: in any case, the pages are clean afterwards.
        state.nodes[self.node].dirty.clear();
        result
    }

    fn start_sync(&self) {}

    fn try_lock(&self) -> io::Result<bool> {
        self.fs.state().operate(|state| {
            let holder = state.nodes[self.node].locked_by.get_or_insert(self.handle);
            Ok(*holder == self.handle)
        })
    }

    fn unlock(&self) -> io::Result<()> {
        // Dropping the file does the same, for a process that dies before.
        Ok(())
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        // Also while a test is failing, when the state may be poisoned.
        let Ok(mut state) = self.fs.0.lock() else { return };
        if self.life != state.life {
            return;
        }
        let node = &mut state.nodes[self.node];
        node.handles -= 1;
        if node.locked_by == Some(self.handle) {
            node.locked_by = None;
        }
    }
}
