//! Log files that are compressed: stopped before each of their steps as by a crash, asked for by
//! late requests, shared by generations, removed.

use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use serde_json::json;
use tacho_hub::hub_key;
use tacho_hub::landing::compress::{Outcome, Step};
use tacho_hub::retention::burial::Due;
use tacho_hub::retention::{Recorded, Steps};
use tacho_replica::{ENDING, FORMER_ENDING, ReplicaFile, columns, seekable};
use tacho_ship::protocol::digest::Before;

use crate::bench::{Answer, Bench, ONE, Request, TWO, chain, lines};

/// More than two frames.
const LINES: usize = 30_000;

pub fn text() -> Vec<u8> {
    let line = |seq: usize| {
        let ts = format!("2020-01-01T{:02}:{:02}:{:02}", seq / 3600, seq / 60 % 60, seq % 60);
        format!(
            "{{\"v\":1,\"seq\":{seq},\"ts\":\"{ts}.000000+00:00\",\"event\":\"statement\",\
             \"sql\":\"SELECT {seq}, '{:016x}'\"}}\n",
            // As good as random: the compressed form has some MB, too.
            (seq as u64)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
                .wrapping_mul(0xBF58_476D_1CE4_E5B9),
        )
    };
    (1..=LINES).map(line).collect::<String>().into_bytes()
}

/// Puts bytes behind others, with the digest of the end of those.
pub async fn put_after(bench: &Bench, name: &str, before: &[u8], body: &[u8]) -> Answer {
    let end = &before[before.len().saturating_sub(4096)..];
    let request = Request::put(name, before.len() as u64, body);
    bench.send(request.header("tacho-before", &Before::of(end).to_string())).await
}

/// Sends a log file, in bodies of 1 MiB.
pub async fn send(bench: &Bench, name: &str, text: &[u8]) {
    for begin in (0..text.len()).step_by(1 << 20) {
        let end = text.len().min(begin + (1 << 20));
        let answer = put_after(bench, name, &text[..begin], &text[begin..end]).await;
        assert_eq!((answer.0, &answer.1["offset"]), (200, &json!(end)), "{}", answer.1);
    }
}

pub async fn filled(text: &[u8]) -> Bench {
    let bench = Bench::new();
    send(&bench, &lines(ONE), text).await;
    bench.put(&chain(ONE), 0, b"no entry\n").await;
    bench.put(&lines(TWO), 0, b"two\n").await;
    bench
}

/// Compresses the first file of the current generation; `permitted` steps are made.
async fn compress_until(bench: &Bench, permitted: usize) -> Outcome {
    let generation = bench.generation();
    compress_in(bench, generation, permitted).await
}

async fn compress_in(bench: &Bench, generation: u64, permitted: usize) -> Outcome {
    let landing = bench.landing.clone();
    let mut left = permitted;
    let compress = move || {
        let mut go_on = |_: Step| {
            let may = left > 0;
            left = left.saturating_sub(1);
            may
        };
        let (origin, stem) = ("db1".parse().unwrap(), ONE.parse().unwrap());
        landing.compress(&origin, generation, &stem, &mut go_on).unwrap()
    };
    tokio::task::spawn_blocking(compress).await.unwrap()
}

pub async fn compress(bench: &Bench) {
    let outcome = compress_until(bench, usize::MAX).await;
    assert!(matches!(outcome, Outcome::Compressed(..)), "{outcome:?}");
    assert_eq!(forms(bench, 1), [false, true]);
}

/// Whether the plain and the compressed form of the first file are there.
pub fn forms(bench: &Bench, generation: u64) -> [bool; 2] {
    ["", ENDING].map(|ending| bench.path(generation, &(lines(ONE) + ending)).exists())
}

pub fn content(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    ReplicaFile::open(path).unwrap().read_from(0).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Every moment at which a hub can be killed, of a file that two generations share.
#[tokio::test]
async fn a_crash_at_any_step_leaves_all_bytes() {
    let text = text();
    let mut steps = 0;
    loop {
        let bench = filled(&text).await;
        let fork = json!({"after": 1, "reason": "different", "file": "removed.chain", "offset": 0});
        assert_eq!(bench.fork(&fork).await.0, 201);
        let outcome = compress_until(&bench, steps).await;
        for generation in [1, 2] {
            assert!(content(&bench.path(generation, &lines(ONE))) == text, "before the restart");
        }
        // Another process.
        let bench = bench.restarted();
        for generation in [1, 2] {
            assert!(content(&bench.path(generation, &lines(ONE))) == text, "step {steps}");
            let forms = forms(&bench, generation);
            assert_eq!(forms.iter().filter(|form| **form).count(), 1, "step {steps}: {forms:?}");
            let names = std::fs::read_dir(bench.path(generation, "")).unwrap();
            let is_unfinished = |name: &str| name.starts_with('.');
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert_eq!(names.filter(|name| is_unfinished(name)).count(), 0, "step {steps}");
        }
        let offset = format!("2 {} {}", lines(ONE), text.len());
        assert!(bench.landed().contains(&offset), "{:?}", bench.landed());
        assert_eq!(bench.incidents(), [""; 0]);
        if let Outcome::Compressed(plain, stored) = outcome {
            assert_eq!(plain, text.len() as u64);
            assert!(stored < plain / 4, "{stored}");
            let path = |generation| bench.path(generation, &(lines(ONE) + ENDING));
            let inode = |generation| path(generation).metadata().unwrap().ino();
            assert_eq!(inode(1), inode(2), "generations share it");
            break;
        }
        assert_eq!(outcome, Outcome::Stopped);
        let again = compress_until(&bench, usize::MAX).await;
        assert!(matches!(again, Outcome::Compressed(..) | Outcome::Changed), "{again:?}");
        assert_eq!(forms(&bench, 2), [false, true], "step {steps}");
        steps += 1;
    }
    assert!(steps > 10, "{steps}");
}

#[tokio::test]
async fn a_shipper_does_not_notice() {
    let text = text();
    let bench = filled(&text).await;
    let before = bench.get("/api/v1/origins/db1").await;
    compress(&bench).await;
    assert_eq!(bench.get("/api/v1/origins/db1").await, before);
    let bench = bench.restarted();
    assert_eq!(bench.get("/api/v1/origins/db1").await, before);
    let name = lines(ONE);
    let stored = json!({"generation": 1, "offset": text.len()});
    // Again, in the middle, across frames, at the end.
    for at in [0, 1000, (1 << 20) - 50, text.len() - 100] {
        let body = &text[at..text.len().min(at + (1 << 20))];
        assert_eq!(put_after(&bench, &name, &text[..at], body).await, (200, stored.clone()));
    }
    assert_eq!(put_after(&bench, &name, &text, b"").await, (200, stored));
    assert_eq!(bench.incidents(), [""; 0]);
    // Other bytes are refused, and an incident.
    let mut other = text[..100].to_vec();
    other[50] ^= 1;
    for answer in
        [bench.put(&name, 0, &other).await, put_after(&bench, &name, &other, &text[100..200]).await]
    {
        assert_eq!((answer.0, &answer.1["code"]), (409, &json!("contradiction")));
        assert_eq!(answer.1["offset"], text.len());
    }
    assert_eq!(bench.incidents().len(), 2);
    assert_eq!(bench.put(&name, text.len() as u64 + 1, b"").await.1["code"], "offset");
    assert_eq!(forms(&bench, 1), [false, true]);
}

/// Bytes behind the end of a file that seemed to be complete are stored, as before.
#[tokio::test]
async fn more_of_a_file_makes_it_plain_again() {
    let text = text();
    let bench = filled(&text).await;
    compress(&bench).await;
    let answer = put_after(&bench, &lines(ONE), &text, b"more\n").await;
    assert_eq!((answer.0, &answer.1["offset"]), (200, &json!(text.len() + 5)));
    assert_eq!(forms(&bench, 1), [true, false]);
    let longer = [&text[..], b"more\n"].concat();
    assert!(bench.stored(1, &lines(ONE)) == longer);
    compress(&bench).await;
    assert!(content(&bench.restarted().path(1, &lines(ONE))) == longer);
}

/// A power failure between the copy and the end of the compressed form.
#[tokio::test]
async fn a_start_keeps_the_form_with_all_bytes() {
    let text = text();
    for more in [&b""[..], b"more\n"] {
        let bench = filled(&text).await;
        compress(&bench).await;
        let path = bench.path(1, &lines(ONE));
        let longer = [&text[..], more].concat();
        let bench = bench.restarted_after(|| std::fs::write(&path, &longer).unwrap());
        assert_eq!(forms(&bench, 1), [!more.is_empty(), more.is_empty()]);
        assert!(content(&bench.path(1, &lines(ONE))) == longer);
    }
    // The beginning alone, as of a file that was sent again: nothing is missing.
    for bytes in [0, 1000, text.len() - 1] {
        let bench = filled(&text).await;
        compress(&bench).await;
        let path = bench.path(1, &lines(ONE));
        let bench = bench.restarted_after(|| std::fs::write(&path, &text[..bytes]).unwrap());
        assert_eq!(forms(&bench, 1), [false, true]);
        assert!(bench.landed().contains(&format!("1 {} {}", lines(ONE), text.len())));
    }
    // Both are evidence.
    let bench = filled(&text).await;
    compress(&bench).await;
    let path = bench.path(1, &lines(ONE));
    let bench = bench.restarted_after(|| std::fs::write(&path, b"other\n").unwrap());
    assert_eq!(forms(&bench, 1), [true, true]);
    assert_eq!(content(&bench.path(1, &lines(ONE))), b"other\n", "the plain one counts");
    assert!(bench.landed().contains(&format!("1 {} 6", lines(ONE))));
    assert_eq!(compress_until(&bench, usize::MAX).await, Outcome::StaysPlain);
    assert_eq!(forms(&bench, 1), [true, true]);
}

/// The plain form could not be removed, and can be now.
#[tokio::test]
async fn a_plain_form_that_is_left_is_removed_without_a_start() {
    let text = text();
    let bench = filled(&text).await;
    compress(&bench).await;
    let inode = || bench.path(1, &(lines(ONE) + ENDING)).metadata().unwrap().ino();
    let before = inode();
    std::fs::write(bench.path(1, &lines(ONE)), &text).unwrap();
    assert_eq!(compress_until(&bench, usize::MAX).await, Outcome::Changed);
    assert_eq!((forms(&bench, 1), inode()), ([false, true], before));
}

/// After a compression that failed, a former generation may have a link to what it has written.
#[tokio::test]
async fn a_compression_never_writes_to_what_another_one_has_linked() {
    let text = text();
    let bench = filled(&text).await;
    let fork = json!({"after": 1, "reason": "different", "file": "removed.chain", "offset": 0});
    assert_eq!(bench.fork(&fork).await.0, 201);
    let frames = text.len().div_ceil(columns::CONTENT_BYTES);
    // Each part is written and read, the end is read, and the first generation has its link.
    assert_eq!(compress_until(&bench, 2 * frames + 2).await, Outcome::Stopped);
    let linked = bench.path(1, &(lines(ONE) + ENDING));
    let before = std::fs::read(&linked).unwrap();
    assert_eq!(compress_until(&bench, 1).await, Outcome::Stopped);
    assert!(std::fs::read(&linked).unwrap() == before);
}

#[tokio::test]
async fn generations_share_compressed_files_until_one_grows() {
    let text = text();
    let bench = filled(&text).await;
    compress(&bench).await;
    let fork = json!({"after": 1, "reason": "different", "file": lines(TWO), "offset": 4});
    let (status, state) = bench.fork(&fork).await;
    assert_eq!((status, &state["files"][0]["offset"]), (201, &json!(text.len())));
    let packed = bench.path(1, &(lines(ONE) + ENDING)).metadata().unwrap();
    assert_eq!((packed.nlink(), forms(&bench, 2)), (2, [false, true]));
    assert_eq!(put_after(&bench, &lines(ONE), &text, b"more\n").await.0, 200);
    assert_eq!((forms(&bench, 1), forms(&bench, 2)), ([false, true], [true, false]));
    assert!(content(&bench.path(1, &lines(ONE))) == text);
    let bench = bench.restarted();
    let offset = |generation: u64, bytes| format!("{generation} {} {bytes}", lines(ONE));
    let landed = bench.landed();
    assert!(landed.contains(&offset(1, text.len())) && landed.contains(&offset(2, text.len() + 5)));
}

/// The file because of which the log has forked: nothing lands in its generation any more.
#[tokio::test]
async fn the_own_files_of_former_generations_are_compressed() {
    let text = text();
    let fork = |after: u64, file: String| {
        let offset = text.len();
        json!({"after": after, "reason": "different", "file": file, "offset": offset})
    };
    let mut steps = 0;
    loop {
        let bench = filled(&text).await;
        // The second generation shares it, and stays as it is.
        assert_eq!(bench.fork(&fork(1, lines(TWO))).await.0, 201);
        assert_eq!(compress_in(&bench, 1, usize::MAX).await, Outcome::Changed);
        assert_eq!([forms(&bench, 1), forms(&bench, 2)], [[true, false]; 2]);
        // The third one does not have it, or another one.
        assert_eq!(bench.fork(&fork(2, lines(ONE))).await.0, 201);
        bench.put(&lines(ONE), 0, b"other\n").await;
        let outcome = compress_in(&bench, 2, steps).await;
        let bench = bench.restarted();
        for generation in [1, 2] {
            assert!(content(&bench.path(generation, &lines(ONE))) == text, "step {steps}");
            let forms = forms(&bench, generation);
            assert_eq!(forms.iter().filter(|form| **form).count(), 1, "step {steps}");
        }
        assert_eq!(bench.stored(3, &lines(ONE)), b"other\n");
        assert_eq!(forms(&bench, 3), [true, false]);
        if matches!(outcome, Outcome::Compressed(..)) {
            assert_eq!([forms(&bench, 1), forms(&bench, 2)], [[false, true]; 2]);
            let inode = |at: u64| bench.path(at, &(lines(ONE) + ENDING)).metadata().unwrap().ino();
            assert_eq!(inode(1), inode(2));
            break;
        }
        assert_eq!(outcome, Outcome::Stopped);
        steps += 1;
    }
    assert!(steps > 10, "{steps}");
}

fn due() -> Due {
    Due {
        origin: "db1".parse().unwrap(),
        stem: ONE.parse().unwrap(),
        generations: vec![(1, None)],
        newest_us: 7,
        days: 30,
    }
}

/// Removes the first file. Returns its tombstone without signature and time.
async fn remove(bench: &Bench) -> Vec<String> {
    let state = bench.state();
    let steps = Steps {
        key: hub_key::open(&state.data).unwrap(),
        data: state.data,
        database: state.database,
        landing: bench.landing.clone(),
        store: state.index.store().clone(),
        recorded: Recorded::default(),
        may_go_on: Box::new(|_| true),
    };
    let removed = tokio::task::spawn_blocking(move || steps.remove(&[due()]).unwrap());
    assert!(removed.await.unwrap().is_empty());
    assert_eq!(forms(bench, 1), [false, false]);
    let list = String::from_utf8(bench.stored(1, "hub-removed.chain")).unwrap();
    let is_same = |line: &&str| !line.starts_with("time ") && !line.starts_with('\u{2014}');
    list.lines().filter(is_same).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_tombstone_is_about_the_lines_and_not_their_form() {
    let text = text();
    let plain = remove(&filled(&text).await).await;
    let bench = filled(&text).await;
    compress(&bench).await;
    assert_eq!(remove(&bench).await, plain);
    assert!(plain.iter().any(|line| line.starts_with(&format!("bytes {} ", text.len()))));
    let name = lines(ONE);
    let stored = json!({"generation": 1, "offset": text.len()});
    assert_eq!(put_after(&bench, &name, &text, b"").await, (200, stored));
}

#[tokio::test]
async fn what_cannot_be_compressed_stays_as_it_is() {
    let bench = Bench::new();
    // A file that does not get smaller.
    bench.put(&lines(ONE), 0, b"one\n").await;
    assert_eq!(compress_until(&bench, usize::MAX).await, Outcome::StaysPlain);
    assert_eq!(forms(&bench, 1), [true, false]);
    // A file for which the disk has no space. It is sparse: no byte of it is on the disk.
    let free = tacho_hub::landing::free_bytes(bench.data.path()).unwrap();
    let path = bench.path(1, &lines(ONE));
    let grow = || std::fs::File::create(&path).unwrap().set_len(free * 2).unwrap();
    let bench = bench.restarted_after(grow);
    assert_eq!(compress_until(&bench, usize::MAX).await, Outcome::NoSpace);
    // A file that is not there.
    std::fs::remove_file(&path).unwrap();
    assert_eq!(compress_until(&bench, usize::MAX).await, Outcome::Changed);
}

/// Compresses the first file, and does something when it has begun.
async fn compress_while<F: Future<Output = ()>>(bench: &Bench, change: F) -> Outcome {
    let landing = bench.landing.clone();
    let (begun, wait) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let (begin, go_on) = (begun.0, wait.1);
    let compressing = tokio::task::spawn_blocking(move || {
        let mut is_first = true;
        let mut step = |_: Step| {
            if std::mem::take(&mut is_first) {
                begin.send(()).unwrap();
                go_on.recv().unwrap();
            }
            true
        };
        let (origin, stem) = ("db1".parse().unwrap(), ONE.parse().unwrap());
        landing.compress(&origin, 1, &stem, &mut step).unwrap()
    });
    begun.1.recv().unwrap();
    change.await;
    wait.0.send(()).unwrap();
    compressing.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_meanwhile_is_not_replaced() {
    let text = text();
    let bench = filled(&text).await;
    let more = async {
        assert_eq!(put_after(&bench, &lines(ONE), &text, b"more\n").await.0, 200);
    };
    assert_eq!(compress_while(&bench, more).await, Outcome::Changed);
    assert_eq!(forms(&bench, 1), [true, false]);
    assert!(bench.stored(1, &lines(ONE)) == [&text[..], b"more\n"].concat());
    // Another program writes into it.
    let bench = filled(&text).await;
    let written = async {
        let file = std::fs::OpenOptions::new().write(true).open(bench.path(1, &lines(ONE)));
        let file = file.unwrap();
        file.write_all_at(b"changed", 7).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    };
    assert_eq!(compress_while(&bench, written).await, Outcome::Changed);
    assert_eq!(&bench.stored(1, &lines(ONE))[7..14], b"changed");
}

/// What an earlier hub has compressed is read, and is replaced when something is appended.
#[tokio::test]
async fn a_file_of_an_earlier_hub_is_read() {
    let text = text();
    let bench = filled(&text).await;
    let [plain, former] = ["", FORMER_ENDING].map(|ending| bench.path(1, &(lines(ONE) + ending)));
    let pack = |text: &[u8]| {
        let mut writer = seekable::Writer::new(Vec::new(), 1).unwrap();
        text.chunks(seekable::CONTENT_BYTES).for_each(|part| writer.part(part).unwrap());
        std::fs::write(&former, writer.finish().unwrap()).unwrap();
    };
    let bench = bench.restarted_after(|| {
        pack(&text);
        std::fs::remove_file(&plain).unwrap();
    });
    assert!(bench.landed().contains(&format!("1 {} {}", lines(ONE), text.len())));
    assert!(content(&plain) == text && former.exists());
    assert_eq!(compress_until(&bench, usize::MAX).await, Outcome::Changed, "it is compressed");
    assert_eq!(put_after(&bench, &lines(ONE), &text, b"more\n").await.0, 200);
    assert!(plain.exists() && !former.exists());
    // A crash of that hub has left its form: it is the beginning of the file.
    let bench = bench.restarted_after(|| pack(&text));
    assert!(plain.exists() && !former.exists());
    pack(&text);
    compress(&bench).await;
    assert!(content(&plain) == [&text[..], b"more\n"].concat() && !former.exists());
}
