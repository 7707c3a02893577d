//! Whatever happens, in the end each rendition is what the lines of the log produce.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;

use proptest::prelude::*;
use tacho_format::Formatter;

use super::super::ending::SECONDARY_LIST;
use super::super::faulty::{Fault, FaultyFs, NamesAfter};
use super::*;

const DIR: &str = "/tacho";
const BEGIN_S: i64 = 951_827_696;
const FORMATS: [Format; 4] =
    [Format::Csv, Format::PerconaJson, Format::PerconaNew, Format::PerconaOld];

fn name(index: usize) -> FileName {
    let first = FileName::after(None, BEGIN_S);
    (0..index).fold(first, |name, _| FileName::after(Some(name), BEGIN_S))
}

fn log_path(index: usize) -> PathBuf {
    Path::new(DIR).join(name(index).log_file())
}

fn rendition_path(index: usize, format: Format) -> PathBuf {
    let content = Content::of_format(format).expect("one of ours");
    Path::new(DIR).join(format!("{}.{}", name(index), content.ending()))
}

fn new_fs() -> FaultyFs {
    let fs = FaultyFs::new();
    fs.create_dir(Path::new(DIR)).expect("an empty file system");
    fs.append(&log_path(0), b"");
    fs
}

/// A line of the log, of the kind with this number.
fn line(seq: u64, kind: u8, running: &mut Vec<u64>) -> String {
    let head = format!("{{\"v\":1,\"seq\":{seq},\"ts\":\"2000-02-29T12:34:56.000000+00:00\"");
    match kind {
        0 => format!("{head},\"event\":\"start\",\"server\":\"MariaDB\"}}\n"),
        1 => format!("{head},\"event\":\"stop\"}}\n"),
        2 => "another process was here\n".to_owned(),
        3..6 => {
            running.push(seq);
            let sql = "x".repeat(usize::from(kind) * 100);
            format!(
                "{head},\"event\":\"statement\",\"outcome\":\"running\",\"conn\":7,\
                 \"command\":\"Query\",\"sql\":\"SELECT '{seq} {sql}'\",\"sql_charset\":\"utf8mb4\"}}\n"
            )
        }
        6..9 if !running.is_empty() => {
            let of = running.remove(usize::from(kind) % running.len());
            format!(
                "{head},\"event\":\"statement\",\"outcome\":\"ok\",\"conn\":7,\
                 \"query_time_us\":12000000,\"running_seq\":{of}}}\n"
            )
        }
        _ => format!(
            "{head},\"event\":\"statement\",\"outcome\":\"ok\",\"conn\":7,\"command\":\"Query\",\
             \"sql\":\"SELECT {seq}\",\"sql_charset\":\"utf8mb4\",\"query_time_us\":5}}\n"
        ),
    }
}

/// The renditions of all files of a finished log, made at once.
fn converted(files: &[String], format: Format) -> Vec<Vec<u8>> {
    let mut joiner = Joiner::new(HELD_BYTES_MAX);
    let mut clock = TimeFormatter::utc();
    let mut all = Vec::new();
    for (index, text) in files.iter().enumerate() {
        let mut formatter = Formatter::new(format, "host");
        let mut out = Vec::new();
        formatter.begin(&mut out, name(index).stamp_s() * 1_000_000, &mut clock);
        let mut emit = |record: &OwnedRecord| {
            record.with(|record| formatter.write(&mut out, record, &mut clock));
            Ok::<_, Infallible>(())
        };
        for line in text.lines() {
            let Ok(line) = Line::parse(line.as_bytes()) else { continue };
            let Ok(()) = joiner.push(OwnedRecord::of_line(&line).expect("a record"), &mut emit);
        }
        if index + 1 == files.len() {
            let Ok(()) = joiner.finish(&mut emit);
        }
        formatter.end(&mut out);
        all.push(out);
    }
    all
}

/// A log, the renditions that follow it, and what the recorder does at its start.
struct Scene {
    fs: FaultyFs,
    format: Format,
    /// The lines of each file.
    files: Vec<String>,
    secondary_format: SecondaryFormat<FaultyFs>,
    seq: u64,
    running: Vec<u64>,
}

impl Scene {
    fn new(format: Format) -> Scene {
        let fs = new_fs();
        let secondary_format = begin(&fs, format, 0);
        let files = vec![String::new()];
        Scene { fs, format, files, secondary_format, seq: 0, running: Vec::new() }
    }

    fn plan(&self) -> Plan {
        let current = name(self.files.len() - 1);
        Plan { current, formats: vec![(name(0), Some(self.format))], utc: true }
    }

    fn write(&mut self, kind: u8) {
        self.seq += 1;
        let line = line(self.seq, kind, &mut self.running);
        let index = self.files.len() - 1;
        self.files[index].push_str(&line);
        self.fs.append(&log_path(index), line.as_bytes());
    }

    fn rotate(&mut self) {
        self.files.push(String::new());
        self.fs.append(&log_path(self.files.len() - 1), b"");
    }

    fn step(&mut self) -> Result<bool, Trouble> {
        let result = self.secondary_format.step(&self.plan());
        if self.fs.is_dead() {
            self.restart();
        }
        result
    }

    fn restart(&mut self) {
        self.fs.restart_process();
        self.secondary_format = begin(&self.fs, self.format, self.files.len() - 1);
    }

    /// Lets everything be written, ends the log, and compares.
    fn finish(mut self) {
        self.fs.repair();
        let plan = Plan { current: name(self.files.len()), ..self.plan() };
        let plan = Plan { formats: [plan.formats, vec![(plan.current, None)]].concat(), ..plan };
        let mut changes = 0;
        loop {
            match self.secondary_format.step(&plan) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Trouble::Changed { .. }) if changes < 2 => changes += 1,
                Err(trouble) => panic!("{trouble}"),
            }
        }
        for (index, wanted) in converted(&self.files, self.format).into_iter().enumerate() {
            let path = rendition_path(index, self.format);
            if self.files[index].is_empty() {
                assert!(!self.fs.files_in(Path::new(DIR)).contains(&path));
                continue;
            }
            let [found, wanted] =
                [self.fs.read(&path), wanted].map(|text| String::from_utf8(text).expect("UTF-8"));
            assert_eq!(found, wanted, "file {index}");
        }
        assert_eq!(self.secondary_format.oldest(), None);
        assert!(!self.fs.files_in(Path::new(DIR)).contains(&Path::new(DIR).join(SECONDARY_LIST)));
    }
}

fn begin(fs: &FaultyFs, format: Format, current: usize) -> SecondaryFormat<FaultyFs> {
    let dir = Path::new(DIR);
    let mut state = PendingFiles::read(fs, dir).expect("reads");
    if state.pending.is_empty() {
        state.pending.push_back((name(current), Some(format)));
    }
    let seen = state.pending.back().expect("one").0;
    SecondaryFormat::new(fs.clone(), dir, state, seen, "host")
}

#[derive(Clone, Debug)]
enum Happening {
    Line(u8),
    Rotate,
    Step,
    Fault(u64, Fault),
    Restart,
    /// Another process removes, truncates or overwrites a rendition.
    Remove(usize),
    Cut(usize, usize),
    Scribble(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    let fault = prop_oneof![
        Just(Fault::Fail(libc::ENOSPC)),
        Just(Fault::Fail(libc::EIO)),
        (0..300_usize).prop_map(Fault::Short),
        (0..300_usize).prop_map(|bytes| Fault::FailAfter(bytes, libc::EIO)),
        (0..300_usize).prop_map(Fault::Die),
    ];
    prop_oneof![
        10 => (0..20_u8).prop_map(Happening::Line),
        2 => Just(Happening::Rotate),
        8 => Just(Happening::Step),
        3 => (0..12_u64, fault).prop_map(|(skipped, fault)| Happening::Fault(skipped, fault)),
        1 => Just(Happening::Restart),
        1 => (0..3_usize).prop_map(Happening::Remove),
        1 => (0..3_usize, 0..500_usize).prop_map(|(back, bytes)| Happening::Cut(back, bytes)),
        1 => (0..3_usize).prop_map(Happening::Scribble),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn faults_deaths_and_others_change_nothing_in_the_end(
        format in proptest::sample::select(FORMATS.to_vec()),
        happenings in proptest::collection::vec(happening(), 1..60),
    ) {
        let mut scene = Scene::new(format);
        // The list exists from the first step on.
        scene.step().expect("nothing is wrong yet");
        // Lengths of renditions before they were truncated.
        let mut cut_from: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for happening in happenings {
            // Complete renditions off the list are not checked again.
            let unfinished = |scene: &Scene, back: usize| {
                let index = (scene.files.len() - 1).checked_sub(back)?;
                let path = rendition_path(index, format);
                let is_there = scene.fs.files_in(Path::new(DIR)).contains(&path);
                let is_pending = scene.secondary_format.oldest().is_some_and(|name_| name_ <= name(index));
                (is_there && is_pending).then_some(path)
            };
            match happening {
                Happening::Line(kind) => scene.write(kind),
                Happening::Rotate => scene.rotate(),
                // Failed steps are repeated at the end.
                Happening::Step => drop(scene.step()),
                Happening::Fault(skipped, fault) => scene.fs.fault_after(skipped, fault),
                Happening::Restart => scene.restart(),
                Happening::Remove(back) => {
                    unfinished(&scene, back).inspect(|path| scene.fs.unlink(path));
                }
                Happening::Cut(back, bytes) => {
                    if let Some(path) = unfinished(&scene, back) {
                        let length = scene.fs.read(&path).len();
                        scene.fs.truncate(&path, bytes);
                        let longest = cut_from.entry(path).or_default();
                        *longest = length.max(*longest);
                    }
                }
                Happening::Scribble(back) => {
                    // In written parts, changes are detected only by the length: a file that is
                    // truncated and grows to the same length between two checks is not detected.
                    let is_whole = |path: &PathBuf| {
                        cut_from.get(path).is_none_or(|length| scene.fs.read(path).len() >= *length)
                    };
                    let path = unfinished(&scene, back).filter(is_whole);
                    path.inspect(|path| scene.fs.append(path, b"scribble\n"));
                }
            }
        }
        scene.finish();
    }
}

/// A log of three files with statements that end in a later file.
fn three_files(format: Format) -> Scene {
    let mut scene = Scene::new(format);
    for kinds in [[0, 9, 3, 4, 9], [9, 6, 3, 2, 9], [6, 9, 1, 0, 9]] {
        kinds.into_iter().for_each(|kind| scene.write(kind));
        scene.rotate();
    }
    scene
}

#[test]
fn a_death_or_a_power_cut_at_any_operation() {
    for format in FORMATS {
        for names in [
            None,
            Some(NamesAfter::NoChange),
            Some(NamesAfter::Removals),
            Some(NamesAfter::AllChanges),
        ] {
            let mut at = 0;
            loop {
                let mut scene = three_files(format);
                scene.secondary_format.list(&scene.plan()).expect("listed");
                scene.fs.sync_all();
                scene.fs.fault_after(at, Fault::Die(37));
                let plan = scene.plan();
                while scene.secondary_format.step(&plan).unwrap_or(false) {}
                let is_past = !scene.fs.is_dead();
                if let Some(names) = names {
                    scene.fs.cut_power(names);
                }
                scene.restart();
                scene.finish();
                if is_past {
                    break;
                }
                at += 1;
            }
            assert!(at > 20, "{at}");
        }
    }
}

#[test]
fn an_obstacle_blocks_one_file_and_is_reported() {
    let format = Format::Csv;
    let mut scene = Scene::new(format);
    let obstacle = rendition_path(0, format);
    scene.fs.create_dir(&obstacle).expect("made");
    // A short event, and one that ends in the next file.
    [9, 3].into_iter().for_each(|kind| scene.write(kind));
    let bytes = scene.files[0].len() as u64;
    for _ in 0..2 {
        let trouble = scene.step().expect_err("it is in the way");
        assert!(matches!(&trouble, Trouble::InTheWay(path) if *path == obstacle), "{trouble}");
        assert_eq!(scene.secondary_format.behind_bytes(name(0)), bytes);
    }
    assert_eq!(
        scene.secondary_format.take_notes(),
        Vec::<String>::new(),
        "an operator may move it away"
    );

    // The next file is begun: it continues there.
    scene.rotate();
    scene.write(6);
    while scene.step().expect("continues") {}
    let notes = scene.secondary_format.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("is not a regular file"), "{notes:?}");
    assert!(notes[0].contains(&name(0).log_file()), "{notes:?}");
    assert_eq!(scene.secondary_format.oldest(), Some(name(1)));
    assert_eq!(scene.secondary_format.behind_bytes(name(1)), 0);
    let text = String::from_utf8(scene.fs.read(&rendition_path(1, format))).expect("UTF-8");
    assert!(text.contains("xxxxxxxx"), "the text of what began in the other file: {text}");
}

#[test]
fn an_obstacle_that_is_moved_in_time_costs_nothing() {
    let format = Format::PerconaOld;
    let mut scene = Scene::new(format);
    let obstacle = rendition_path(0, format);
    scene.fs.create_dir(&obstacle).expect("made");
    [9, 3, 9].into_iter().for_each(|kind| scene.write(kind));
    assert!(matches!(scene.step(), Err(Trouble::InTheWay(_))));
    scene.fs.remove_dir_all(&obstacle);
    scene.write(6);
    scene.finish();
}

#[test]
fn an_empty_file_gets_a_rendition_after_a_change_of_the_format() {
    let format = Format::PerconaNew;
    let mut scene = Scene::new(format);
    scene.write(9);
    scene.rotate();
    let lines_alone = vec![(name(0), Some(format)), (name(1), None)];
    let plan = Plan { formats: lines_alone.clone(), ..scene.plan() };
    while scene.secondary_format.step(&plan).expect("continues") {}
    assert_eq!(scene.secondary_format.oldest(), None, "no file is unfinished");
    let list = Path::new(DIR).join(SECONDARY_LIST);
    assert!(!scene.fs.files_in(Path::new(DIR)).contains(&list));

    let plan = Plan { formats: vec![(name(0), Some(format))], ..plan };
    assert!(!scene.secondary_format.step(&plan).expect("nothing to do yet"));
    assert_eq!(PendingFiles::read(&scene.fs, Path::new(DIR)).expect("reads").pending.len(), 1);
    scene.write(9);
    scene.finish();
}

#[test]
fn the_backlog_follows_the_written_lines() {
    let format = Format::Csv;
    let mut scene = three_files(format);
    let bytes: usize = scene.files.iter().map(String::len).sum();
    scene.secondary_format.list(&scene.plan()).expect("listed");
    let current = name(scene.files.len() - 1);
    assert_eq!(scene.secondary_format.behind_bytes(current), bytes as u64);
    // Lines that were read but cannot be written count.
    scene.fs.set_room(Some(0));
    assert!(scene.step().is_err());
    assert_eq!(scene.secondary_format.behind_bytes(current), bytes as u64);
    scene.fs.repair();
    let mut before = bytes as u64;
    while scene.step().expect("continues") {
        let now = scene.secondary_format.behind_bytes(current);
        assert!(now <= before, "{now}, {before}");
        before = now;
    }
    assert_eq!(scene.secondary_format.behind_bytes(current), 0);
}
