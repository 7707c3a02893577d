//! The log is written, sealed, continued and verified.

use tacho_chain::verify::{self, LogState, Report};
use tacho_logdir::read::directory::RealDirectory;
use tacho_logdir::read::identities::Identities;
use tacho_record::Line;

use super::*;
use crate::database::DatabaseError;

struct Bench {
    data: tempfile::TempDir,
    database: Database,
}

impl Bench {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let database = Database::open(&data.path().join("hub.sqlite")).unwrap();
        Self { data, database }
    }

    fn directory(&self) -> PathBuf {
        self.data.path().join("audit")
    }

    fn start(&self) -> (Audit, AuditThread) {
        let key_file = self.data.path().join("audit.key");
        let options = Options { directory: self.directory(), key_file, keep_days: 365 };
        Audit::start(options, self.database.clone()).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        let mut names: Vec<PathBuf> = std::fs::read_dir(self.directory())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
            .collect();
        names.sort();
        let text = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        names
            .iter()
            .flat_map(|path| text(path).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    /// The events and users, and whether the numbers have no gap.
    fn events(&self) -> Vec<String> {
        let lines = self.lines();
        let parsed = lines.iter().map(|line| Line::parse(line.as_bytes()).unwrap());
        let events = parsed.enumerate().map(|(at, line)| {
            assert_eq!(line.seq, at as u64 + 1);
            format!("{} {}", line.event, &*line.user).trim_end().to_owned()
        });
        events.collect()
    }

    fn verify(&self) -> Report {
        let directory = RealDirectory::new(&self.directory(), Identities::default()).unwrap();
        let lines = self.lines();
        let start = Line::parse(lines[0].as_bytes()).unwrap();
        let keys = vec![start.signing_key.parse().unwrap()];
        let options = verify::Options { keys, ..Default::default() };
        verify::verify(&directory, &options, &mut |_| ()).unwrap()
    }
}

fn entry(user: &str) -> Entry {
    let source = RequestSource { session: format!("of {user}"), ..RequestSource::default() };
    Entry { text: Some("x".to_owned()), ..Entry::new(Kind::Statement, user, source) }
}

#[tokio::test]
async fn it_continues_after_a_stop_and_verifies() {
    let bench = Bench::new();
    for user in ["ann", "bob"] {
        let (audit, thread) = bench.start();
        audit.write(entry(user)).await.unwrap();
        drop(thread);
        assert_eq!(audit.write(entry(user)).await, Err(NotRecorded), "it has ended");
    }
    let events = ["start", "statement ann", "stop", "start", "statement bob", "stop"];
    assert_eq!(bench.events(), events);
    let report = bench.verify();
    assert_eq!((report.state(), report.unsigned_lines), (LogState::Ok, 0), "{report:?}");
    assert!(
        bench.lines()[4].contains("\"run\":4,\"conn\":1,\"conn_seq\":1"),
        "{:?}",
        bench.lines()
    );
}

#[tokio::test]
async fn a_byte_that_is_changed_is_found() {
    let bench = Bench::new();
    let (audit, thread) = bench.start();
    audit.write(entry("ann")).await.unwrap();
    drop(thread);
    let file = std::fs::read_dir(bench.directory()).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|it| it == "jsonl"));
    let file = file.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"user\":\"ann\"", "\"user\":\"bob\"")).unwrap();
    assert_eq!(bench.verify().state(), LogState::Modified);
}

#[tokio::test]
async fn entries_of_the_database_are_moved_to_the_log_once() {
    let bench = Bench::new();
    let put = |user: &str| {
        let write =
            |transaction: &rusqlite::Transaction<'_>| outbox::put(transaction, &entry(user));
        bench.database.write::<_, DatabaseError>(write).unwrap();
    };
    put("ann");
    let (audit, thread) = bench.start();
    put("bob");
    audit.drain().await.unwrap();
    audit.drain().await.unwrap();
    assert_eq!(bench.events(), ["start", "statement ann", "statement bob"]);
    drop(thread);
    assert!(bench.database.read(outbox::read).unwrap().is_none());
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_refuses_until_it_can() {
    let bench = Bench::new();
    std::fs::write(bench.directory(), "in its place").unwrap();
    let (audit, _thread) = bench.start();
    assert_eq!(audit.ready(), Err(NotRecorded));
    assert_eq!(audit.write(entry("ann")).await, Err(NotRecorded));
    std::fs::remove_file(bench.directory()).unwrap();
    // The thread tries again every second; this asks it to do so now.
    let put = |transaction: &rusqlite::Transaction<'_>| outbox::put(transaction, &entry("bob"));
    bench.database.write::<_, DatabaseError>(put).unwrap();
    audit.drain().await.unwrap();
    assert_eq!(audit.ready(), Ok(()));
    audit.write(entry("eve")).await.unwrap();
    assert_eq!(bench.events(), ["start", "config", "statement bob", "statement eve"]);
    assert!(bench.lines()[1].contains("\"variable\":\"hub.log_error\",\"old_value\":\"cannot"));
}

#[tokio::test]
async fn many_wait_for_one_sync() {
    let bench = Bench::new();
    let (audit, _thread) = bench.start();
    let writes: Vec<_> = (0..1_000)
        .map(|number| {
            let audit = audit.clone();
            tokio::spawn(async move { audit.write(entry(&format!("u{number}"))).await })
        })
        .collect();
    for write in writes {
        write.await.unwrap().unwrap();
    }
    assert_eq!(bench.events().len(), 1_001);
}
