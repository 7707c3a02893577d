//! Changed and hostile bundles. Each must get a failure, and none may take long or much memory.

use std::fs::File;

use tacho_chain::verify::LogState;
use tacho_evidence::container::{ReadError, list};

use crate::recorder;
use crate::support::{Exported, assert_state};

fn small() -> Exported {
    Exported::new(recorder::sealed(), |seq| seq == 2 || seq == 8)
}

#[test]
fn every_changed_byte_is_found() {
    let exported = Exported::new(recorder::sealed(), |seq| seq == 2);
    let good = exported.bytes();
    assert_state(&exported.check_bytes(&good), LogState::Ok);
    for at in 0..good.len() {
        let mut bytes = good.clone();
        // Another bit for each byte, so that all are tried.
        bytes[at] ^= 1 << (at % 8);
        let report = exported.check_bytes(&bytes);
        assert!(report.state() >= LogState::Modified, "byte {at}: {:?}", report.findings);
    }
}

#[test]
fn every_cut_is_found() {
    let exported = small();
    let good = exported.bytes();
    for length in (0..good.len()).step_by(97).chain([good.len() - 1, good.len() - 512]) {
        let report = exported.check_bytes(&good[..length]);
        assert_eq!(report.state(), LogState::Modified, "{length} bytes");
    }
    let longer = [&good[..], &[0; 512]].concat();
    assert_eq!(exported.check_bytes(&longer).state(), LogState::Modified);
}

#[test]
fn members_that_are_swapped_doubled_or_missing_are_found() {
    let exported = small();
    let good = exported.bytes();
    let path = exported.path();
    let members = list(&File::open(path).unwrap()).unwrap();
    let piece = |at: usize| {
        let member = &members[at];
        let begin = member.offset as usize - 512;
        let end = member.offset as usize + (member.bytes as usize).next_multiple_of(512);
        good[begin..end].to_vec()
    };
    let pieces: Vec<Vec<u8>> = (0..members.len()).map(piece).collect();
    let end = vec![0; 1024];
    let archive = |order: &[usize]| {
        let mut bytes: Vec<u8> = order.iter().flat_map(|&at| pieces[at].clone()).collect();
        bytes.extend(&end);
        bytes
    };
    let all: Vec<usize> = (0..members.len()).collect();
    assert_state(&exported.check_bytes(&archive(&all)), LogState::Ok);
    for at in 0..all.len() {
        let mut missing = all.clone();
        missing.remove(at);
        assert_eq!(exported.check_bytes(&archive(&missing)).state(), LogState::Modified, "{at}");
        let mut doubled = all.clone();
        doubled.insert(at, at);
        assert_eq!(exported.check_bytes(&archive(&doubled)).state(), LogState::Modified, "{at}");
        let mut swapped = all.clone();
        swapped.swap(at, (at + 1) % all.len());
        assert_eq!(exported.check_bytes(&archive(&swapped)).state(), LogState::Modified, "{at}");
    }
    assert_eq!(exported.check_bytes(&end).state(), LogState::Modified);
}

/// Archives of other programs: links, devices, long names, paths upwards.
#[test]
fn only_regular_members_with_known_names_are_read() {
    let exported = small();
    let directory = exported.directory.path().join("tar");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("manifest.json"), "{}").unwrap();
    std::fs::write(directory.join("x"), "").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", directory.join("records.jsonl")).unwrap();
    std::fs::hard_link(directory.join("x"), directory.join("manifest.sig")).unwrap();
    let long = "y".repeat(120);
    std::fs::write(directory.join(&long), "").unwrap();
    let cases: [&[&str]; 8] = [
        &["--format=ustar", "manifest.json"],
        &["--format=gnu", "manifest.json"],
        &["--format=pax", "manifest.json"],
        &["--format=ustar", "records.jsonl"],
        &["--format=ustar", "x", "manifest.sig"],
        &["--format=gnu", &long],
        &["--format=ustar", "--transform=s,^,../,", "x"],
        &["--format=gnu", "."],
    ];
    for case in cases {
        let path = exported.directory.path().join("other.tar");
        let mut command = std::process::Command::new("tar");
        command.args(["-P", "-cf"]).arg(&path).arg("-C").arg(&directory).args(case);
        assert!(command.status().unwrap().success(), "{case:?}");
        let listed = list(&File::open(&path).unwrap());
        assert!(matches!(listed, Err(ReadError::Malformed { .. })), "{case:?}: {listed:?}");
    }
}

/// A sparse file claims a member of 8 GiB, and an archive claims a manifest of that size.
#[test]
fn sizes_that_lie_are_not_believed() {
    let exported = small();
    let good = exported.bytes();
    let mut bytes = good.clone();
    let field = format!("{:011o}", (1_u64 << 33) - 1);
    bytes[124..135].copy_from_slice(field.as_bytes());
    let sum: u32 = bytes[..512]
        .iter()
        .enumerate()
        .map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { u32::from(byte) })
        .sum();
    bytes[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    let report = exported.check_bytes(&bytes);
    assert_state(&report, LogState::Modified);
    assert!(report.findings[0].text.contains("longer than the file"), "{:?}", report.findings);
}

/// What an attacker with the key of the hub, but not those of the log, can put into a bundle.
#[test]
fn a_hub_cannot_forge_records() {
    let exported = small();
    assert_state(&exported.forge(|_, _| {}), LogState::Ok);
    let replace = |members: &mut Vec<(String, Vec<u8>)>, ending: &str, from: &str, to: &str| {
        for (name, bytes) in members.iter_mut().filter(|(name, _)| name.ends_with(ending)) {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes = text.replacen(from, to, 1).into_bytes();
            assert!(text.len() == bytes.len(), "{name}");
        }
    };
    // In the log and in the records alike.
    let report = exported.forge(|members, _| replace(members, ".jsonl", "SELECT 8", "SELECT 9"));
    assert_state(&report, LogState::Modified);
    assert_eq!(report.proven(), 1);
    // In the records alone.
    let report =
        exported.forge(|members, _| replace(members, "records.jsonl", "SELECT 8", "SELECT 9"));
    assert_state(&report, LogState::Modified);
    // Another position of the same line.
    let report = exported
        .forge(|members, _| replace(members, "records.jsonl", "\"offset\":1", "\"offset\":2"));
    assert_state(&report, LogState::Modified);
    // Any byte of the seal.
    for ending in ["keys.chain", "-000001.chain", "-000002.chain"] {
        let (_, bytes) =
            exported.members().into_iter().find(|(name, _)| name.ends_with(ending)).unwrap();
        for at in 0..bytes.len() {
            let report = exported.forge(|members, _| {
                let found = members.iter_mut().find(|(name, _)| name.ends_with(ending));
                found.unwrap().1[at] ^= 1;
            });
            assert_ne!(report.state(), LogState::Ok, "{ending}, byte {at}");
            assert!(
                report.proven() < 2 || report.state() >= LogState::Modified,
                "{ending}, byte {at}"
            );
        }
    }
}

#[test]
fn a_hub_cannot_leave_out_what_proves() {
    let exported = small();
    // Without its sidecar a record is not sealed.
    let report =
        exported.forge(|members, _| members.retain(|(name, _)| !name.ends_with("2.chain")));
    assert_state(&report, LogState::NotSealed);
    assert_eq!((report.records(), report.proven()), (2, 1));
    // Without keys nothing leads to a root.
    let report =
        exported.forge(|members, _| members.retain(|(name, _)| !name.ends_with("keys.chain")));
    assert_state(&report, LogState::Modified);
    assert_eq!(report.proven(), 0);
    // Without its checkpoint a frame is not signed.
    let report = exported.forge(|members, _| {
        let found = members.iter_mut().find(|(name, _)| name.ends_with("1.chain")).unwrap();
        let text = String::from_utf8(found.1.clone()).unwrap();
        let end = text.rfind("frame ").unwrap();
        let end = end + text[end..].find('\n').unwrap() + 1;
        found.1.truncate(end);
    });
    assert_state(&report, LogState::UnsignedTail);
    assert_eq!(report.proven(), 1);
    // A frame of an interval, of which another one is there.
    let exported = Exported::new(recorder::sealed(), |seq| seq == 11);
    let report = exported.forge(|members, _| {
        let found = members.iter_mut().find(|(name, _)| name.ends_with("2.chain")).unwrap();
        let text = String::from_utf8(found.1.clone()).unwrap();
        let begin = text.rfind("frame ").unwrap();
        let before = text[..begin].rfind("frame ").unwrap();
        found.1.drain(before..begin);
    });
    assert_state(&report, LogState::Modified);
    assert_eq!(report.proven(), 0);
    // Records: fewer than stated, twice, or in another order.
    let exported = small();
    for lines in [&[0][..], &[0, 0, 1], &[1, 0]] {
        let report = exported.forge(|members, _| {
            let found = members.iter_mut().find(|(name, _)| name == "records.jsonl").unwrap();
            let all: Vec<Vec<u8>> =
                found.1.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
            found.1 = lines.iter().flat_map(|&at: &usize| all[at].clone()).collect();
        });
        assert_state(&report, LogState::Modified);
    }
}

#[test]
fn ranges_are_those_of_the_bytes() {
    let exported = small();
    for change in [
        |ranges: &mut Vec<(u64, u64)>| ranges[0].1 += 1,
        |ranges: &mut Vec<(u64, u64)>| ranges[0] = (u64::MAX - 3, u64::MAX),
        |ranges: &mut Vec<(u64, u64)>| ranges[0] = (5, 5),
        |ranges: &mut Vec<(u64, u64)>| ranges.push((0, u64::MAX)),
        |ranges: &mut Vec<(u64, u64)>| ranges.clear(),
        |ranges: &mut Vec<(u64, u64)>| {
            ranges[0].0 += 1;
            ranges[0].1 += 1;
        },
    ] {
        let report = exported.forge(|_, manifest| {
            let part = manifest.files.iter_mut().find(|part| !part.ranges.is_empty()).unwrap();
            change(&mut part.ranges);
        });
        assert!(report.state() >= LogState::Modified, "{:?}", report.findings);
    }
}
