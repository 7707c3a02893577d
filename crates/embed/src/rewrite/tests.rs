//! Rules in force, and rules in the file.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tacho_recorder::arena_file::ArenaFile;
use tacho_rewrite::compile::{RuleSource, SHAPE_RULES_MAX};

use super::file::{Kept, NAME, NEW_NAME, Rule, VERSION};
use super::list::{RULES_MAX, TEXT_BYTES_MAX, WRONG_LOGGED_MAX};
use super::*;

fn list(rules: &[(u64, &str, &str)]) -> List {
    let mut list = List::default();
    for (id, pattern, replacement) in rules {
        let source = RuleSource {
            id: *id,
            pattern: pattern.as_bytes(),
            database: Some(b"shop"),
            replacement: replacement.as_bytes(),
        };
        list.add(&source).unwrap();
    }
    list
}

fn probe() -> Probe {
    let arena = Box::leak(Box::new(ArenaFile::placeholder().unwrap())).arena();
    Probe::keyed(arena, 1, random_key())
}

#[test]
fn rules_are_in_force_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
    assert!(rewriting.kept().unwrap().is_none());
    let rules = [(1, "SELECT ?", "SELECT ? + 1"), (2, "SELECT 'a'", "SELECT 'b'")];
    let (count, change) = rewriting.apply(Who::default(), list(&rules), &probe).unwrap();
    let change = change.unwrap();
    let file = std::fs::read(directory.path().join(NAME)).unwrap();
    assert_eq!((count, rewriting.rule_count()), (2, 2));
    assert_eq!(change.old_value, b"0");
    assert_eq!(String::from_utf8(change.new_value).unwrap(), show(2, &sha256(&file)));
    assert_eq!(probe.rewrites.epoch.load(Ordering::Relaxed), 1);
    // The same ones again: no change for the log.
    let (_, change) = rewriting.apply(Who::default(), list(&rules), &probe).unwrap();
    assert!(change.is_none());

    let again = Rewriting::new(directory.path());
    let kept = again.kept().unwrap().unwrap();
    assert_eq!(kept.rules, list(&rules).rules);
    let (count, change) = again.apply(Who::default(), kept, &super::tests::probe()).unwrap();
    assert_eq!(count, 2);
    assert_eq!(String::from_utf8(change.unwrap().new_value).unwrap(), show(2, &sha256(&file)));

    let (count, change) = again.apply(Who::default(), List::default(), &probe).unwrap();
    assert_eq!((count, change.unwrap().new_value), (0, b"0".to_vec()));
    assert_eq!(probe.rewrites.epoch.load(Ordering::Relaxed), 0);
    assert!(again.kept().unwrap().is_none());
}

#[test]
fn their_number_is_available_while_others_are_being_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
    rewriting.apply(Who::default(), list(&[(1, "SELECT ?", "SELECT 1")]), &probe).unwrap();
    // As `apply` does while it waits for the disk.
    let _held = rewriting.state();
    assert_eq!(rewriting.rule_count(), 1);
}

#[test]
fn rules_that_cannot_be_stored_are_not_in_force() {
    let directory = tempfile::tempdir().unwrap();
    let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
    rewriting.apply(Who::default(), list(&[(1, "SELECT ?", "SELECT 1")]), &probe).unwrap();
    let blocked = directory.path().join(NEW_NAME);
    std::fs::create_dir(&blocked).unwrap();
    let error = rewriting.apply(
        Who::default(),
        list(&[(1, "SELECT ?", "SELECT 1"), (2, "SELECT 2", "SELECT 1")]),
        &probe,
    );
    assert!(error.unwrap_err().contains(NAME));
    assert_eq!(rewriting.rule_count(), 1);
    assert_eq!(probe.rewrites.epoch.load(Ordering::Relaxed), 1);
    assert_eq!(rewriting.kept().unwrap().unwrap().rules.len(), 1);
}

#[test]
fn too_many_rules_leave_those_before_in_force() {
    let directory = tempfile::tempdir().unwrap();
    let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
    rewriting.apply(Who::default(), list(&[(1, "SELECT ?", "SELECT 1")]), &probe).unwrap();
    let long = format!("SELECT '{}'", "a".repeat(32_000));
    let cases = [(RULES_MAX, "SELECT 1"), (TEXT_BYTES_MAX / 33_000, &long)];
    for (fitting, replacement) in cases {
        let mut many = List::default();
        let mut refused = None;
        for id in 0.. {
            let pattern = format!("SELECT a{id}");
            let (pattern, replacement) = (pattern.as_bytes(), replacement.as_bytes());
            let source = RuleSource { id, pattern, database: None, replacement };
            if let Err(error) = many.add(&source) {
                refused = Some((id as usize, error));
                break;
            }
        }
        let (id, error) = refused.unwrap();
        assert!(id >= fitting && error == too_many(), "{id}: {error}");
        // Even if later ones would fit.
        let last =
            RuleSource { id: 1, pattern: b"SELECT 1", database: None, replacement: b"SELECT 2" };
        assert_eq!(many.add(&last).unwrap_err(), too_many());
        assert_eq!(rewriting.apply(Who::default(), many, &probe).unwrap_err(), too_many());
        assert_eq!(rewriting.rule_count(), 1);
    }
}

#[test]
fn a_load_writes_the_file_whatever_its_content() {
    let directory = tempfile::tempdir().unwrap();
    let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
    let (first, second) = ([(1, "SELECT ?", "SELECT 1")], [(2, "SELECT ?", "SELECT 2")]);
    rewriting.apply(Who::default(), list(&first), &probe).unwrap();
    // As after a load that failed after it had renamed its file.
    let other = Rewriting::new(directory.path());
    other.apply(Who::default(), list(&second), &super::tests::probe()).unwrap();
    rewriting.apply(Who::default(), list(&first), &probe).unwrap();
    assert_eq!(rewriting.kept().unwrap().unwrap().rules, list(&first).rules);
}

#[test]
fn a_start_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(NAME);
    let rules = [(1, "SELECT ?", "SELECT 1")];
    Rewriting::new(directory.path()).apply(Who::default(), list(&rules), &probe()).unwrap();
    let text = [std::fs::read(&path).unwrap(), b"\n".to_vec()].concat();
    std::fs::write(&path, &text).unwrap();
    let rewriting = Rewriting::new(directory.path());
    let kept = rewriting.kept().unwrap().unwrap();
    let (_, change) = rewriting.apply(Who::default(), kept, &probe()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), text);
    assert_eq!(change.unwrap().new_value, show(1, &sha256(&text)).into_bytes());
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn only_a_private_file_of_the_server_is_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(NAME);
    let rewriting = Rewriting::new(directory.path());
    // A file that another process began is not continued.
    let new = directory.path().join(NEW_NAME);
    std::fs::write(&new, "x").unwrap();
    set_mode(&new, 0o644);
    let rules = [(1, "SELECT ?", "SELECT 1")];
    rewriting.apply(Who::default(), list(&rules), &probe()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);

    let refused = |expected: &str| {
        let Err(error) = rewriting.kept() else { panic!("{expected}") };
        assert!(error.contains(NAME) && error.contains(expected), "{error}");
    };
    for mode in [0o640, 0o604, 0o620, 0o610] {
        set_mode(&path, mode);
        refused(&format!("its mode is {mode:04o}"));
        refused("chmod 600");
    }
    set_mode(&path, 0o600);
    assert!(rewriting.kept().unwrap().is_some());
    // Only root can change the owner of a file.
    if std::os::unix::fs::chown(&path, Some(12_345), None).is_ok() {
        refused("belongs to the user 12345");
    }
    let elsewhere = directory.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    refused("symbolic link");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused("not a regular file");
    // A load repairs it, if it can.
    std::fs::remove_dir(&path).unwrap();
    rewriting.apply(Who::default(), list(&rules), &probe()).unwrap();
    assert!(rewriting.kept().unwrap().is_some());
}

#[test]
fn invalid_files_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let rewriting = Rewriting::new(directory.path());
    let cases = [("", "EOF"), ("{\"version\":2,\"rules\":[]}", "version 2")];
    for (text, expected) in cases {
        std::fs::write(directory.path().join(NAME), text).unwrap();
        set_mode(&directory.path().join(NAME), 0o600);
        let Err(error) = rewriting.kept() else { panic!("{text}") };
        assert!(error.contains(NAME) && error.contains(expected), "{error}");
    }
}

#[test]
fn a_rule_of_the_file_that_is_wrong_leaves_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let (rewriting, probe) = (Rewriting::new(directory.path()), probe());
    let mut rules = list(&[(1, "SELECT ?", "SELECT 1"), (2, "SELECT 2, 3", "SELECT 3")]).rules;
    let wrong = Rule { pattern: "'".to_owned(), ..rules[0].clone() };
    rules.extend((7..30).map(|id| Rule { id, ..wrong.clone() }));
    let text = serde_json::to_vec(&Kept { version: VERSION, rules }).unwrap();
    let path = directory.path().join(NAME);
    std::fs::write(&path, &text).unwrap();
    set_mode(&path, 0o600);
    let kept = rewriting.kept().unwrap().unwrap();
    let lines: Vec<_> = kept.left_out().collect();
    assert_eq!(lines.len(), WRONG_LOGGED_MAX + 1);
    assert_eq!(
        lines[0],
        "left out of .rewrite_rules.json: rule 7: pattern, character 1: a quote that is not \
         closed"
    );
    assert_eq!(lines[10], "left out of .rewrite_rules.json: 13 more rules");
    let (count, change) = rewriting.apply(Who::default(), kept, &probe).unwrap();
    assert_eq!((count, rewriting.rule_count()), (2, 2));
    assert_eq!(change.unwrap().new_value, show(2, &sha256(&text)).into_bytes());
    assert_eq!(std::fs::read(&path).unwrap(), text);
}

#[test]
fn a_rule_beyond_the_limit_of_its_shape_is_reported_by_its_id() {
    let mut list = List::default();
    let mut add = |id: u64, pattern: &str| {
        let (pattern, replacement) = (pattern.as_bytes(), &b"SELECT 'x'"[..]);
        list.add(&RuleSource { id, pattern, database: None, replacement })
    };
    for id in 1..=66 {
        let added = add(id, &format!("SELECT {id}"));
        assert_eq!(added.is_ok(), id <= SHAPE_RULES_MAX as u64, "{id}");
    }
    add(67, "SELECT a").unwrap();
    add(9, "'").unwrap_err();
    let expected = "there are 64 rules of this shape already";
    assert_eq!(
        list.faults(),
        format!(
            "{{\"9\":\"pattern, character 1: a quote that is not closed\",\
             \"65\":\"pattern: {expected}\",\"66\":\"pattern: {expected}\"}}"
        )
    );
    assert_eq!(list.rules.len(), 65);
    assert_eq!(list.left_out().count(), 3);
    assert_eq!(List::default().faults(), "{}");
}

#[test]
fn a_rule_that_is_wrong_is_not_in_the_list() {
    let mut list = list(&[(1, "SELECT ?", "SELECT 1")]);
    let wrong =
        |pattern, database, replacement| RuleSource { id: 2, pattern, database, replacement };
    let long = [&b"SELECT 1 -- "[..], &[b'a'; 33 << 10]].concat();
    for source in [
        wrong(b"SELECT '", None, b"SELECT 1"),
        wrong(b"SELECT 1", None, b"SELECT ?"),
        wrong(b"SELECT \xFF", None, b"SELECT 1"),
        wrong(b"SELECT 1", Some(b"\xFF"), b"SELECT 1"),
        wrong(b"", None, b"SELECT 1"),
        wrong(&long, None, b"SELECT 1"),
        wrong(b"SELECT 1", Some(&long), b"SELECT 1"),
        wrong(b"SELECT 1", None, &long),
    ] {
        assert!(list.add(&source).is_err());
    }
    assert_eq!((list.rules.len(), list.compiler.count()), (1, 1));
    let first = "left out of rewrite_rules: rule 2: pattern, character 8: a quote";
    assert!(list.left_out().next().unwrap().starts_with(first));
    assert_eq!(super::tests::list(&[]).left_out().count(), 0);
}
