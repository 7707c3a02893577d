//! The current file: the newest one continued, the next one, or the same one created again.

use std::io;
use std::path::{Path, PathBuf};

use super::current::Current;
use crate::aside::set_newer_aside;
use crate::ending::{Content, Ending};
use crate::error::{At, FileError, FileErrorKind};
use crate::event::Event;
use crate::form::Form;
use crate::fs::{Fs, FsFile, OpenMode};
use crate::lines;
use crate::made::Made;
use crate::name::FileName;

/// Opens the newest file to continue it, and cuts off a torn last line.
pub(crate) fn reopen<F: Fs>(
    fs: &F,
    name: FileName,
    path: PathBuf,
) -> Result<(Current<F::File>, u64), FileError> {
    let file = fs.open(&path, OpenMode::Append).at("open", &path)?;
    let stat = file.stat().at("look at", &path)?;
    if !stat.is_file {
        return Err(FileError::of_kind(FileErrorKind::FileGone, "append to", &path));
    }
    let bytes = lines::line_end(&file, stat.bytes).at("read", &path)?;
    if bytes < stat.bytes {
        file.set_len(bytes).at("truncate", &path)?;
    }
    let current = Current { file, name, path, bytes, line_end: bytes };
    Ok((current, stat.bytes - bytes))
}

/// Creates the file after the newest one. Foreign files with newer names are set aside, so that no
/// account can move the names of the log to the end of time.
pub(crate) fn create_next<F: Fs>(
    fs: &F,
    dir: &Path,
    made: &mut Made,
    events: &mut Vec<Event>,
) -> Result<Current<F::File>, FileError> {
    loop {
        let names = fs.list(dir).at("list", dir)?;
        // With any ending: a sidecar or a compressed file has used up its number, too.
        let listed = names.iter().filter_map(|entry| FileName::parse(entry)).map(|(name, _)| name);
        let newest = made.newest().or(listed.max());
        events.extend(set_newer_aside(fs, dir, made, names)?);
        let name = FileName::after(newest, fs.now_s());
        made.add(fs, dir, name)?;
        if let Some(current) = create(fs, dir, name)? {
            return Ok(current);
        }
        // Another process has created it since the listing.
        made.take_back();
    }
}

/// Creates the file of a name again, unless that name or a newer one is taken.
pub(crate) fn create_again<F: Fs>(
    fs: &F,
    dir: &Path,
    made: &mut Made,
    name: FileName,
) -> Result<Option<Current<F::File>>, FileError> {
    let entries = fs.list(dir).at("list", dir)?;
    // Its own sidecar and its rendition stay.
    let stays = |ending: &str| match Ending::parse(ending) {
        Some(Ending::Sidecar) => true,
        Some(Ending::File(content, Form::Plain)) => content != Content::Lines,
        _ => false,
    };
    let others = entries.iter().filter_map(|entry| FileName::parse(entry));
    let others = others.filter(|(other, ending)| *other != name || !stays(ending));
    let newest = others.map(|(name, _)| name).max();
    if newest.is_some_and(|newest| newest >= name) {
        return Ok(None);
    }
    // The list may be gone with the directory.
    made.write(fs, dir)?;
    create(fs, dir, name)
}

/// `None`: the name is taken.
fn create<F: Fs>(
    fs: &F,
    dir: &Path,
    name: FileName,
) -> Result<Option<Current<F::File>>, FileError> {
    let path = dir.join(name.log_file());
    let file = match fs.open(&path, OpenMode::AppendNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        file => file.at("create", &path)?,
    };
    // No step may fail from here on: a created file becomes the current one, and no older one gets
    // another line.
    Ok(Some(Current { file, name, path, bytes: 0, line_end: 0 }))
}
