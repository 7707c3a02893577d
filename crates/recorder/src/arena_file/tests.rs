use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// Writes a file as a version before 0.2 left it.
fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_dead_arena_is_found_and_a_living_one_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let log = Path::new("/var/lib/x/tacho");
    let made = ArenaFile::create(dir.path(), 1 << 20, log, "MariaDB 10.11").unwrap();
    let path = made.path().to_owned();
    assert!(matches!(ArenaFile::open_dead(&path), Err(ArenaError::InUse { .. })));
    assert_eq!(created_us(&path), Some(made.arena().header().created_us));
    assert_eq!(files(dir.path(), Some(log)).unwrap(), std::slice::from_ref(&path));
    let info = ArenaFile::open_unlocked(&path).unwrap().info();
    assert!(info.owned && info.server == "MariaDB 10.11");
    assert!(files(dir.path(), Some(Path::new("/elsewhere"))).unwrap().is_empty());
    drop(made);
    let dead = ArenaFile::open_dead(&path).unwrap();
    assert_eq!(dead.arena().free_count(), dead.arena().geometry().chunk_count);
    dead.remove().unwrap();
    assert!(files(dir.path(), None).unwrap().is_empty());
}

#[test]
fn files_of_other_users_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let log = Path::new("/var/lib/x/tacho");
    let made = ArenaFile::create(dir.path(), 1 << 20, log, "").unwrap();
    let path = made.path().to_owned();
    drop(made);
    let link = dir.path().join(format!("{}9-9.arena", name_prefix(log)));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(ArenaFile::open_dead(&link), Err(ArenaError::Planted { .. })));
    assert!(ArenaFile::open_dead(&path).is_ok());
    // Only root can change the owner of a file.
    if private_file::user_id() == 0 {
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        let error = ArenaFile::open_dead(&path).unwrap_err();
        assert!(matches!(error, ArenaError::Foreign { uid: 12_345, .. }), "{error}");
        assert!(ArenaFile::open_unlocked(&path).is_ok(), "any user may inspect it");
    }
}

#[test]
fn names_that_are_not_utf8_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let log = Path::new(std::ffi::OsStr::from_bytes(b"/var/lib/\xff/tacho"));
    let made = ArenaFile::create(dir.path(), 1 << 20, log, "").unwrap();
    assert_eq!(files(dir.path(), Some(log)).unwrap().len(), 1);
    assert_eq!(made.info().log_directory, log);
}

#[test]
fn only_unfinished_arenas_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let log = Path::new("/var/lib/x/tacho");
    let alive = ArenaFile::create(dir.path(), 1 << 20, log, "MariaDB 10.11").unwrap();
    let prefix = name_prefix(log);
    let dead = dir.path().join(format!("{prefix}1-1.arena"));
    std::fs::copy(alive.path(), &dead).unwrap();
    let foreign = dir.path().join(format!("{prefix}2-1.arena"));
    write(&foreign, b"another's file");
    let other_log = dir.path().join("tacho-0123456789abcdef-3-1.arena");
    write(&other_log, b"");
    let kept = || std::fs::read_dir(dir.path()).unwrap().count();
    for (name, bytes) in [("4-1", &[][..]), ("5-1", &[0; 3]), ("6-1", &[0; 1 << 20])] {
        write(&dir.path().join(format!("{prefix}{name}.arena")), bytes);
    }
    assert_eq!(kept(), 7);
    remove_unfinished(dir.path(), log).unwrap();
    assert_eq!(kept(), 4);
    assert!(alive.path().exists() && dead.exists() && foreign.exists() && other_log.exists());
}

#[test]
fn other_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tacho-0-1.arena");
    write(&path, &[7u8; 8192]);
    assert!(matches!(ArenaFile::open_dead(&path), Err(ArenaError::NotAnArena { .. })));
    write(&path, b"");
    assert!(matches!(ArenaFile::open_dead(&path), Err(ArenaError::NotAnArena { .. })));
}

#[test]
fn an_arena_that_sql_may_have_created_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let log = Path::new("/var/lib/x/tacho");
    let made = ArenaFile::create(dir.path(), 1 << 20, log, "MariaDB 10.11").unwrap();
    let path = dir.path().join(format!("{}7-7.arena", name_prefix(log)));
    std::fs::copy(made.path(), &path).unwrap();
    for mode in [0o644, 0o640] {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        for opened in [ArenaFile::open_dead(&path), ArenaFile::open_living(&path)] {
            let error = opened.unwrap_err();
            assert!(matches!(error, ArenaError::Planted { .. }), "{mode:o}: {error}");
            assert!(!error.may_have_records());
        }
    }
    for mode in [0o600, 0o000] {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(ArenaFile::open_dead(&path).is_ok(), "{mode:o}");
    }
}
