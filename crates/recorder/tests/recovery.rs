//! What a starting server finds: arenas that cannot be read, or that have moved.

mod support;

use std::fs;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use support::{TestLog, emit, event, place};
use tacho_probe::{Probe, Thread};
use tacho_recorder::control::Severity;
use tacho_recorder::recover::Recovered;
use tacho_recorder::{arena_file, arena_list};
use tacho_ring::codec::RecordKind;
use tacho_ring::consumer;
use tacho_ring::layout::Header;

/// Returns its path.
fn dead_arena(place: &TestLog, text: &'static [u8]) -> PathBuf {
    let file = place.arena();
    let probe = Probe::new(file.arena(), 1);
    emit(&probe, &mut Thread::default(), &event(RecordKind::Point, 1, 1, text));
    file.path().to_owned()
}

#[test]
fn an_unreadable_arena_is_reported_and_the_others_are_recovered() {
    let place = place();
    dead_arena(&place, b"SELECT 'found'");
    let name = |end: &str| format!("{}{end}.arena", arena_file::name_prefix(&place.log));
    fs::create_dir(place.arenas.join(name("1-1"))).expect("makes");
    unreadable(&place.arenas.join(name("2-2")));
    let (_writer, result) = place.recover();
    assert_eq!(result.expect("recovers"), Recovered { arenas: 1, lines: 2 });
    assert!(place.lines()[1].contains("'found'"));
    let errors = place.said(Severity::Error);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains(&name("2-2")) && errors[0].contains("is not an arena"));
    assert!(errors[0].contains("tacho recover"), "{errors:?}");
    let warnings = place.said(Severity::Warning);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(&name("1-1")) && warnings[0].contains("not a regular file"));
}

/// Something else holds the memory of a server that was killed, such as `ps` reading its command
/// line, and with it the lock of the arena.
#[test]
fn the_lock_of_a_dead_server_is_waited_for() {
    let place = place();
    let path = dead_arena(&place, b"SELECT 'found'");
    let mut child = std::process::Command::new("true").spawn().expect("starts");
    child.wait().expect("ends");
    let file = tacho_logdir::private_file::open(&path).expect("opens");
    let at = |offset: usize| offset as u64;
    file.write_all_at(&child.id().to_ne_bytes(), at(offset_of!(Header, owner_pid)))
        .expect("writes");
    drop(file);
    let held = arena_file::ArenaFile::open_dead(&path).expect("opens");
    let holder = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        drop(held);
    });
    let (_writer, result) = place.recover();
    assert_eq!(result.expect("recovers"), Recovered { arenas: 1, lines: 2 });
    assert!(place.lines()[1].contains("'found'"));
    holder.join().expect("ends");
}

/// All users may create files in /dev/shm.
#[test]
fn files_of_other_users_are_skipped() {
    let place = place();
    dead_arena(&place, b"SELECT 'found'");
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    for number in 0..4_000 {
        let name = |kind| {
            let prefix = arena_file::name_prefix(&place.log);
            place.arenas.join(format!("{prefix}{kind}{number}-{number}.arena"))
        };
        fs::create_dir(name(1)).expect("makes");
        symlink("/etc/passwd", name(2)).expect("links");
        fs::write(name(3), b"").expect("writes");
        // Only root can change the owner of a file. Otherwise these are files that SQL may have
        // created.
        if is_root {
            for kind in [1, 2, 3] {
                lchown(name(kind), Some(65_534), Some(65_534)).expect("gives away");
            }
        }
    }
    let (_writer, result) = place.recover();
    assert_eq!(result.expect("recovers"), Recovered { arenas: 1, lines: 2 });
    assert_eq!(place.lines().len(), 2, "{:?}", place.lines());
    assert_eq!(place.said(Severity::Error), [] as [String; 0]);
    let warnings = place.said(Severity::Warning);
    if is_root {
        assert_eq!(warnings, [] as [String; 0]);
    } else {
        assert!(warnings.len() == 1 && warnings[0].contains("and 11999 more"), "{warnings:?}");
    }
    assert_eq!(fs::read_dir(&place.arenas).expect("lists").count(), 12_000, "left alone");
}

/// A file as the recorder creates it, with damaged content.
fn unreadable(path: &Path) {
    fs::write(path, b"something else").expect("makes");
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("seals");
}

#[test]
fn an_arena_in_a_former_arena_directory_is_found() {
    let place = place();
    let old = dead_arena(&place, b"SELECT 'old place'");
    // As a server does after it created its arena.
    fs::create_dir(&place.log).expect("makes");
    arena_list::add(&place.log, &old).expect("adds");
    let elsewhere = place.log.with_file_name("elsewhere");
    fs::create_dir(&elsewhere).expect("makes");
    let (_writer, result) = place.recover_from(&elsewhere);
    assert_eq!(result.expect("recovers"), Recovered { arenas: 1, lines: 2 });
    assert!(place.lines()[1].contains("'old place'"));
    assert!(!old.exists());
    assert_eq!(arena_list::read(&place.log).expect("reads"), []);
}

/// The record has the mark of a line that never reached the file. Other lines get that number
/// before the arena can be read.
#[test]
fn marks_of_an_arena_that_was_unreadable_are_not_trusted_later() {
    let place = place();
    let path = dead_arena(&place, b"SELECT 'late'");
    {
        let dead = arena_file::ArenaFile::open_dead(&path).expect("opens");
        consumer::settle(&dead.arena(), 0, 0, 2);
    }
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).expect("renames");
    unreadable(&path);
    dead_arena(&place, b"SELECT 'at once'");
    let (writer, result) = place.recover();
    assert_eq!(result.expect("recovers"), Recovered { arenas: 1, lines: 2 });
    assert_eq!(place.said(Severity::Error).len(), 1);
    drop(writer);
    fs::remove_file(&path).expect("removes");
    fs::rename(&aside, &path).expect("renames");
    let (_writer, result) = place.recover();
    assert_eq!(result.expect("recovers"), Recovered { arenas: 1, lines: 2 });
    let lines = place.lines();
    assert!(lines[1].contains("'at once'") && lines[3].contains("'late'"), "{lines:?}");
    assert_eq!(arena_list::read(&place.log).expect("reads"), []);
}

#[test]
fn a_missing_arena_is_reported_once() {
    let place = place();
    let path = dead_arena(&place, b"SELECT 'gone with the machine'");
    fs::create_dir(&place.log).expect("makes");
    arena_list::add(&place.log, &path).expect("adds");
    fs::remove_file(&path).expect("removes");
    for _ in 0..2 {
        let (mut writer, result) = place.recover();
        assert_eq!(result.expect("recovers"), Recovered::default());
        assert!(writer.round());
        let lines = place.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("\"event\":\"lost\"") && lines[0].contains("\"start_ts\""));
        assert!(lines[0].contains("\"cause\":\"arena_gone\"") && !lines[0].contains("\"count\""));
        assert_eq!(place.said(Severity::Warning).len(), 1);
        assert_eq!(arena_list::read(&place.log).expect("reads"), []);
    }
}

/// If this server could not write the line, the next one retries.
#[test]
fn a_missing_arena_is_not_forgotten_before_its_line_is_written() {
    let place = place();
    let path = dead_arena(&place, b"SELECT 'gone'");
    fs::create_dir(&place.log).expect("makes");
    arena_list::add(&place.log, &path).expect("adds");
    fs::remove_file(&path).expect("removes");
    let (_writer, _) = place.recover();
    assert_eq!(arena_list::read(&place.log).expect("reads").len(), 1);
}
