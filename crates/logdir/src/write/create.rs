//! The file that lines go to: the newest one gone on with, the next one, or the same one again.

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

/// Opens the newest file to go on with it, and cuts off a torn last line.
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

/// Makes the file that follows the newest one. What has a newer name is not ours: it is set aside, so
/// that nobody moves the names of the log to the end of time.
pub(crate) fn create_next<F: Fs>(
    fs: &F,
    dir: &Path,
    made: &mut Made,
    events: &mut Vec<Event>,
) -> Result<Current<F::File>, FileError> {
    loop {
        let names = fs.list(dir).at("list", dir)?;
        // Whatever its ending: a sidecar or a compressed file has used up its number, too.
        let listed = names.iter().filter_map(|entry| FileName::parse(entry)).map(|(name, _)| name);
        let newest = made.newest().or(listed.max());
        events.extend(set_newer_aside(fs, dir, made, names)?);
        let name = FileName::after(newest, fs.now_s());
        made.add(fs, dir, name)?;
        if let Some(current) = create(fs, dir, name)? {
            return Ok(current);
        }
        // Somebody has made it since the listing.
        made.take_back();
    }
}

/// Makes the file of a name again, if nothing has that name or a newer one.
pub(crate) fn create_again<F: Fs>(
    fs: &F,
    dir: &Path,
    made: &mut Made,
    name: FileName,
) -> Result<Option<Current<F::File>>, FileError> {
    let entries = fs.list(dir).at("list", dir)?;
    // Its own sidecar goes on with it, and so does its rendition.
    let goes_on = |ending: &str| match Ending::parse(ending) {
        Some(Ending::Sidecar) => true,
        Some(Ending::File(content, Form::Plain)) => content != Content::Lines,
        _ => false,
    };
    let others = entries.iter().filter_map(|entry| FileName::parse(entry));
    let others = others.filter(|(other, ending)| *other != name || !goes_on(ending));
    let newest = others.map(|(name, _)| name).max();
    if newest.is_some_and(|newest| newest >= name) {
        return Ok(None);
    }
    // With the directory the list may be gone.
    made.write(fs, dir)?;
    create(fs, dir, name)
}

/// `None`: there is something of that name.
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
    // Nothing may fail from here on: a file that was made is the one that is written, and
    // no older one gets another line.
    Ok(Some(Current { file, name, path, bytes: 0, line_end: 0 }))
}
