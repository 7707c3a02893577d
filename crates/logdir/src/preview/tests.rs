use super::*;
use crate::faulty::FaultyFs;
use crate::retain::Keep;
use crate::write::{LogFiles, Options};
use tacho_chain::entry::RemovalReason;

const DIR: &str = "/log";
const DAY_S: i64 = 86_400;

/// A log of closed files of a day each, and an open one.
fn log(closed: i64) -> (FaultyFs, LogFiles<FaultyFs>) {
    let fs = FaultyFs::new();
    let (mut files, _) =
        LogFiles::open(fs.clone(), Path::new(DIR), Options { rotate_bytes: 0 }).unwrap();
    for seq in 1..=closed + 1 {
        let pad = "x".repeat(1000 * seq as usize);
        let line = format!("{{\"v\":1,\"seq\":{seq},\"a\":\"{pad}\"}}\n");
        files.write(line.as_bytes(), &mut 0).unwrap();
        fs.set_now_s(seq * DAY_S);
        if seq <= closed {
            files.rotate_now().unwrap();
        }
    }
    (fs, files)
}

fn asked(fs: &FaultyFs, keep: Keep) -> Preview {
    preview(fs, Path::new(DIR), &keep).unwrap().expect("there is a log")
}

fn numbers(preview: &Preview) -> Vec<u32> {
    preview.planned.iter().map(|planned| planned.name().unwrap().number()).collect()
}

/// What the recorder removes, one after the other.
fn removed(files: &mut LogFiles<FaultyFs>, keep: &Keep) -> Vec<Vec<Due>> {
    let mut all = Vec::new();
    while let Some(&due) = files.outlook(keep).unwrap().due.first() {
        all.push(files.outlook(keep).unwrap().due);
        files.bury(due).unwrap();
        files.remove(due.name).unwrap();
    }
    all
}

#[test]
fn it_is_what_the_recorder_removes() {
    for keep in [
        Keep::default(),
        Keep { days: 3, ..Keep::default() },
        Keep { bytes: 15_000, ..Keep::default() },
        Keep { files: 2, ..Keep::default() },
        Keep { days: 4, bytes: 20_000, files: 5 },
        Keep { bytes: 1, ..Keep::default() },
    ] {
        let (fs, mut files) = log(6);
        let before = asked(&fs, keep);
        assert_eq!(before, asked(&fs, keep), "it changes nothing");
        let planned: Vec<_> = before.planned.iter().map(|planned| planned.due.clone()).collect();
        assert_eq!(planned, removed(&mut files, &keep), "{keep:?}");
        let after = asked(&fs, keep);
        assert_eq!((numbers(&after), after.next), (vec![], before.next), "{keep:?}");
        let bytes: u64 = before.planned.iter().map(|planned| planned.bytes).sum();
        assert_eq!(before.bytes - bytes, after.bytes, "{keep:?}");
        assert_eq!(before.closed_count - planned.len() as u64, after.closed_count);
    }
}

#[test]
fn files_have_their_end_and_the_next_one_is_named() {
    let (fs, _files) = log(4);
    let found = asked(&fs, Keep { files: 3, ..Keep::default() });
    assert_eq!(numbers(&found), [1]);
    assert_eq!((found.planned[0].ended_s, found.planned[0].bytes), (DAY_S, 1023));
    assert_eq!(found.planned[0].due[0].reason, RemovalReason::Count);
    let next = found.next.unwrap();
    assert_eq!((next.name.number(), next.ended_s), (2, 2 * DAY_S));
    assert_eq!((found.current.number(), found.closed_count), (5, 4));
}

#[test]
fn the_last_line_stays() {
    let fs = FaultyFs::new();
    let (mut files, _) =
        LogFiles::open(fs.clone(), Path::new(DIR), Options { rotate_bytes: 0 }).unwrap();
    files.write(b"{\"v\":1,\"seq\":1}\n", &mut 0).unwrap();
    files.rotate_now().unwrap();
    let keep = Keep { bytes: 1, ..Keep::default() };
    assert_eq!(files.outlook(&keep).unwrap().due, []);
    let found = asked(&fs, keep);
    assert_eq!(numbers(&found), [0; 0]);
    assert_eq!(found.keeps_last_line.map(|name| name.number()), Some(1));
}

#[test]
fn files_that_the_recorder_did_not_create_are_not_the_current_one() {
    let (fs, _files) = log(2);
    let planted = Path::new(DIR).join("audit-20991231T235959Z-000009.jsonl");
    fs.append(&planted, b"{\"v\":1,\"seq\":9}\n");
    assert_eq!(asked(&fs, Keep::default()).current.number(), 3);
    assert_eq!(preview(&fs, Path::new("/"), &Keep::default()).ok().flatten(), None);
}
