//! The files that a process has mapped, and their addresses.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::image::{self, Image, Row};
use crate::maps::{self, Mapping};
use crate::memory;
use crate::symbols;
use crate::task::Tid;

/// A mapped file, or another piece of code.
#[derive(Debug)]
struct Module {
    start: u64,
    end: u64,
    /// Last part of the path.
    name: String,
    is_program: bool,
    /// Offset between an address and the file's own address.
    bias: u64,
    image: Option<Arc<Image>>,
}

/// The code of a process.
#[derive(Debug, Default)]
pub struct Modules {
    /// Sorted by start.
    modules: Vec<Module>,
    /// The last known mappings, to detect changes.
    mappings: Vec<Mapping>,
    /// By path and inode: a file that is still mapped is not read again.
    images: HashMap<(String, u64), Option<Arc<Image>>>,
    /// Files that could not be read, and the reasons.
    problems: Vec<String>,
}

/// A function on a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Its readable name. Without a name: its location, as in `[mariadbd+0x83a5d0]`.
    pub function: String,
    /// Last part of the path of its file; empty if it has none.
    pub module: String,
    /// Whether the file has its name.
    pub is_named: bool,
    /// Whether the file is the program itself, not a library.
    pub is_program: bool,
}

impl Modules {
    /// Reads the current mappings of the process. Returns whether they have changed.
    ///
    /// # Errors
    /// The process has ended, or permission is denied.
    pub fn refresh(&mut self, pid: Tid) -> io::Result<bool> {
        let mut mappings = maps::executable(pid)?;
        mappings.sort_by_key(|mapping| mapping.start);
        if mappings == self.mappings {
            return Ok(false);
        }
        self.mappings.clone_from(&mappings);
        // If it cannot be read, no module counts as the program: only the form of some names
        // depends on it.
        let program = std::fs::metadata(format!("/proc/{pid}/exe")).map_or(0, |meta| meta.ino());
        self.modules.clear();
        for mapping in mappings {
            let key = (mapping.path.clone(), mapping.inode);
            let image = match self.images.get(&key) {
                Some(image) => image.clone(),
                None => {
                    let image = self.load(pid, &mapping);
                    self.images.insert(key, image.clone());
                    image
                }
            };
            let address = image.as_ref().and_then(|image| image.address_of_offset(mapping.offset));
            let path = mapping.path.strip_suffix(" (deleted)").unwrap_or(&mapping.path);
            self.modules.push(Module {
                start: mapping.start,
                end: mapping.end,
                name: path.rsplit('/').next().unwrap_or_default().to_owned(),
                is_program: mapping.inode != 0 && mapping.inode == program,
                bias: mapping.start.wrapping_sub(address.unwrap_or(0)),
                image,
            });
        }
        Ok(true)
    }

    /// Files that could not be read so far, and the reasons.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Each file once: its name, and the number of its named functions.
    pub fn symbol_counts(&self) -> Vec<(String, usize)> {
        let mut counts: Vec<(String, usize)> = Vec::new();
        for module in &self.modules {
            if let Some(image) = &module.image
                && !counts.iter().any(|(name, _)| *name == module.name)
            {
                counts.push((module.name.clone(), image.symbol_count()));
            }
        }
        counts
    }

    /// Whether executable code is mapped there.
    pub fn is_code(&self, address: u64) -> bool {
        self.module_at(address).is_some()
    }

    /// The file at an address.
    pub fn image_at(&self, address: u64) -> Option<&Image> {
        self.module_at(address)?.image.as_deref()
    }

    /// How to unwind there, if the file describes it. The start of the function is its mapped
    /// address.
    pub fn row(&self, address: u64) -> Option<Row> {
        let module = self.module_at(address)?;
        let mut row = module.image.as_ref()?.row(address.wrapping_sub(module.bias)).ok()?;
        row.start = row.start.wrapping_add(module.bias);
        Some(row)
    }

    /// The function there.
    pub fn frame(&self, address: u64) -> Frame {
        let Some(module) = self.module_at(address) else {
            return Frame {
                function: "[unmapped]".to_owned(),
                module: String::new(),
                is_named: false,
                is_program: false,
            };
        };
        let in_file = address.wrapping_sub(module.bias);
        let (start, name) = match &module.image {
            Some(image) => image.function(in_file),
            None => (None, None),
        };
        let named = name.map(symbols::readable);
        let is_named = named.is_some();
        let function = named.unwrap_or_else(|| {
            let file = if module.name.is_empty() { "anonymous" } else { &module.name };
            // By the start of the function, so that all samples in it are counted together.
            match start {
                Some(start) => format!("[{file}+{start:#x}]"),
                None => format!("[{file}]"),
            }
        });
        Frame { function, module: module.name.clone(), is_named, is_program: module.is_program }
    }

    fn module_at(&self, address: u64) -> Option<&Module> {
        let after = self.modules.partition_point(|module| module.start <= address);
        let module = self.modules.get(after.checked_sub(1)?)?;
        (address < module.end).then_some(module)
    }

    fn load(&mut self, pid: Tid, mapping: &Mapping) -> Option<Arc<Image>> {
        let data = match contents(pid, mapping) {
            Ok(Some(data)) => data,
            Ok(None) => return None,
            Err(error) => {
                self.problems.push(format!("{}: {error}", mapping.path));
                return None;
            }
        };
        let debug_files = |path: &PathBuf| image::contents(path).ok();
        match Image::parse(&data, &debug_files) {
            Ok(image) => Some(Arc::new(image)),
            Err(error) => {
                self.problems.push(format!("{}: {error}", mapping.path));
                None
            }
        }
    }
}

/// The bytes of a mapped file; `None` for code without a file.
fn contents(pid: Tid, mapping: &Mapping) -> io::Result<Option<Vec<u8>>> {
    if mapping.path == "[vdso]" {
        return memory::read(pid, mapping.start, (mapping.end - mapping.start) as usize).map(Some);
    }
    if mapping.inode == 0 {
        return Ok(None);
    }
    // The exact file, even if it was deleted or replaced; needs more privileges than its path.
    let by_address: PathBuf =
        format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end).into();
    if let Ok(data) = image::contents(&by_address) {
        return Ok(Some(data));
    }
    // The path as seen by the process, which may run in a container.
    let by_path: PathBuf = format!("/proc/{pid}/root{}", mapping.path).into();
    let data = image::contents(&by_path)?;
    if std::fs::metadata(&by_path)?.ino() != mapping.inode {
        return Err(io::Error::other("the file was replaced since the process started"));
    }
    Ok(Some(data))
}
