//! `kill -9` of database, shipper, hub and query process at random, under load: in the end the hub
//! finds each acknowledged statement once, and its copy of the log is byte-identical. It is so
//! after a bad network, and with a clock that is wrong.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tacho_replica::{ENDING, ReplicaFile};
use tacho_tests::hub::{Hub, HubClient, Process};
use tacho_tests::log::file_names;
use tacho_tests::proxy::{Fault, Proxy};
use tacho_tests::tagged::Tally;
use tacho_tests::verdict::Verdict;
use tacho_tests::wait;

use crate::crash::rounds;
use crate::scene::{Scene, Summary, start_paced_load};

/// Name of the server in the hubs.
const SERVER: &str = "db1";
/// Small files, so that rotations are among the moments of death.
const OPTIONS: [&str; 2] = ["tacho-rotate-bytes=131072", "tacho-flush-interval-ms=20"];

/// Faults take longer than the load needs to fill a disk.
const PAUSE: Duration = Duration::from_millis(10);

/// Number of records, of different numbers among them, and the newest.
fn count(client: &HubClient, up_to: u64) -> Option<[u64; 3]> {
    let sql = format!(
        "SELECT count(*), count(DISTINCT seq), coalesce(max(seq), 0) FROM records \
         WHERE server = '{SERVER}' AND seq <= {up_to}"
    );
    let answer = client.sql(&sql).ok()?;
    let number = |column: usize| answer["rows"][0][column].as_u64();
    Some([number(0)?, number(1)?, number(2)?])
}

/// Asks all the time while everything dies: no record is ever seen twice, and none that was there
/// once is missing later.
struct Watcher {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Watcher {
    fn start(client: HubClient) -> Self {
        let (stop, answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (is_stopped, answered) = (Arc::clone(&stop), Arc::clone(&answers));
        let thread = std::thread::spawn(move || {
            let [mut seen, mut newest] = [0, 0];
            while !is_stopped.load(Ordering::Relaxed) {
                // The hub may be dead, or its query process.
                let (Some([before, ..]), Some([all, distinct, last])) =
                    (count(&client, newest), count(&client, u64::MAX >> 1))
                else {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                assert_eq!(all, distinct, "a record is there twice");
                assert_eq!(before, seen, "of the records up to {newest}");
                [seen, newest] = [all, last];
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stop, answers, thread }
    }

    /// Ends it; how often it was answered.
    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every record once, at each moment");
        self.answers.load(Ordering::Relaxed)
    }
}

/// A directory beside the server's, with the hub's data and messages.
fn directory(scene: &Scene, name: &str) -> PathBuf {
    scene.server.directory().join(name)
}

/// Everything that must be true of a hub after the last byte was acknowledged.
fn check(hub: &Hub, scene: &Scene, tally: &Tally, run: &str, summary: &Summary) {
    let client = hub.client("auditor").expect("a token");
    let state = client.wait_until_complete(SERVER);
    assert_eq!(
        (&state["records"], &state["seal"]),
        (&summary.lines.into(), &"sealed".into()),
        "{state}"
    );
    let verdict = Verdict::new(tally, &client.tags(SERVER, run).expect("an answer"));
    assert!(verdict.duplicate.is_empty() && verdict.unknown.is_empty(), "{verdict}");
    // Those that the log itself does not have, which Scene::finish excuses.
    assert_eq!(verdict.missing.len(), summary.unannounced, "{verdict}");
    assert_eq!(state["generation"], 1, "nothing contradicts: {state}");
    assert_same(&scene.log_directory(), &hub.data().join("replica").join(SERVER).join("1"));
    let alerts = client.get("/api/v1/alerts", &[]).expect("an answer").to_string();
    for rule in ["\"tampered\"", "\"fork\"", "\"contradiction\"", "\"gap\"", "\"seal_broken\""] {
        assert!(!alerts.contains(rule), "{alerts}");
    }
}

/// Files of a log and its sidecars have the same bytes in a replica, which may be compressed.
fn assert_same(log: &Path, replica: &Path) {
    let landed = tacho_replica::names(replica).expect("reads");
    for extension in [".jsonl", ".chain"] {
        let plain = |name: &String| name.strip_suffix(ENDING).unwrap_or(name).to_owned();
        let is_it = |name: &String| name.starts_with("audit-") && name.ends_with(extension);
        let landed: BTreeSet<String> = landed.iter().map(plain).filter(is_it).collect();
        let names = file_names(log, extension);
        assert_eq!(landed, names);
        assert!(!names.is_empty());
        for name in names {
            let file = ReplicaFile::open(&replica.join(&name)).expect("opens");
            let mut bytes = Vec::new();
            file.into_reader(0).read_to_end(&mut bytes).expect("reads");
            assert!(fs::read(log.join(&name)).expect("reads") == bytes, "{name}");
        }
    }
}

/// The processes beside the server.
struct Central {
    hub: Hub,
    shipper: Process,
}

impl Central {
    fn start(scene: &Scene) -> Self {
        let hub = Hub::start(&directory(scene, "hub")).expect("a hub");
        let shipper = hub.ship(&scene.log_directory(), SERVER).expect("a shipper");
        Self { hub, shipper }
    }

    fn kill_shipper(&mut self, scene: &Scene) {
        self.shipper.kill9().expect("was alive");
        self.shipper = self.hub.ship(&scene.log_directory(), SERVER).expect("a shipper");
    }

    fn kill_hub(&mut self) {
        self.hub.process().kill9().expect("was alive");
        self.hub.restart().expect("restarts");
    }

    /// There may be none: workers end when they are idle.
    fn kill_query_processes(&self) -> usize {
        self.hub.kill_query_processes().expect("kills")
    }
}

#[test]
fn everything_dies_and_nothing_is_lost() {
    let mut scene = Scene::new(&OPTIONS);
    let running = start_paced_load(&scene, "hub", PAUSE);
    let mut central = Central::start(&scene);
    let watcher = Watcher::start(central.hub.client("auditor").expect("a token"));
    let mut deaths = [0; 4];
    let rounds = rounds();
    for round in 1..=rounds {
        // Each of them at least once, then by chance.
        let victim = if round <= 4 { round - 1 } else { scene.below(4) };
        match victim {
            0 => {
                scene.kill_under_load(&running, 100);
                scene.server.restart().expect("restarting");
            }
            victim => {
                running.wait_for_more(100);
                std::thread::sleep(Duration::from_millis(scene.below(300)));
                match victim {
                    1 => central.kill_shipper(&scene),
                    2 => central.kill_hub(),
                    _ => wait::until("there is a query process", || {
                        central.kill_query_processes() > 0
                    }),
                }
            }
        }
        deaths[victim as usize] += 1;
        println!("round {round} of {rounds}, {} answered", running.acknowledged_count());
    }
    running.wait_for_more(100);
    let tally = running.stop().expect("a tally");
    let summary = scene.finish(&tally, "hub");
    central.shipper.stop().expect("acknowledges the rest");
    central.hub.ship_once(&scene.log_directory(), SERVER).expect("nothing is left");
    let answers = watcher.stop();
    println!("deaths of server, shipper, hub, query process: {deaths:?}; {answers} answers");
    assert!(answers > 0, "the watcher was answered");
    check(&central.hub, &scene, &tally, "hub", &summary);
}

/// A network that is slow, cuts connections in the middle of a body, and hangs.
#[test]
fn a_bad_network_loses_and_doubles_nothing() {
    let mut scene = Scene::new(&OPTIONS);
    let hub = Hub::start(&directory(&scene, "hub")).expect("a hub");
    let address: SocketAddr = hub.url()["http://".len()..].parse().expect("an address");
    let proxy = Proxy::start(address).expect("a proxy");
    let url = format!("http://{}", proxy.address());
    let mut shipper = hub.ship_by(&url, &scene.log_directory(), SERVER).expect("a shipper");
    let running = start_paced_load(&scene, "net", PAUSE);
    let client = hub.client("auditor").expect("a token");
    let landed = || {
        let state = client.server(SERVER).expect("an answer");
        state.and_then(|state| state["landed_seq"].as_u64()).unwrap_or_default()
    };
    for fault in [
        Fault::CutAfter(1),
        Fault::CutAfter(3_000),
        Fault::Slow { bytes: 512, pause: Duration::from_millis(1) },
        Fault::LoseAnswers,
        Fault::CutAfter(70_000),
    ] {
        let before = proxy.faults();
        proxy.set(fault);
        wait::until("the fault has happened", || proxy.faults() > before);
        proxy.set(Fault::None);
        // So that the pauses of the shipper do not grow from fault to fault.
        let before = landed();
        wait::until("it continues", || landed() > before);
    }
    let tally = running.stop().expect("a tally");
    let summary = scene.finish(&tally, "net");
    shipper.stop().expect("acknowledges the rest");
    hub.ship_once(&scene.log_directory(), SERVER).expect("nothing is left");
    check(&hub, &scene, &tally, "net", &summary);
}

/// A clock that is set while the hub runs: libfaketime reads the difference from a file.
struct FakeClock {
    file: PathBuf,
}

impl FakeClock {
    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

    fn new(file: PathBuf) -> Self {
        assert!(Path::new(Self::LIBRARY).exists(), "libfaketime (scripts/setup.sh test)");
        let clock = Self { file };
        clock.set("+0");
        clock
    }

    /// Difference from the true time, s.
    fn set(&self, difference: &str) {
        // By renaming: half a number would be another one.
        let new = self.file.with_extension("new");
        fs::write(&new, difference).expect("a file");
        fs::rename(&new, &self.file).expect("a file");
    }

    fn environment(&self) -> [(&str, &OsStr); 4] {
        [
            ("LD_PRELOAD", Self::LIBRARY.as_ref()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.as_ref()),
            ("FAKETIME_NO_CACHE", "1".as_ref()),
            // As the kernel does: setting the time of day leaves other clocks alone.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".as_ref()),
        ]
    }
}

/// The hub's clock is set an hour forward, two back, and five years forward, while records arrive.
#[test]
fn a_hub_whose_clock_is_wrong_keeps_everything() {
    let mut scene = Scene::new(&OPTIONS);
    let clock = FakeClock::new(directory(&scene, "clock"));
    let hub = Hub::start_with(&directory(&scene, "hub"), &clock.environment()).expect("a hub");
    let mut shipper = hub.ship(&scene.log_directory(), SERVER).expect("a shipper");
    let running = start_paced_load(&scene, "clock", PAUSE);
    let client = hub.client("auditor").expect("a token");
    let state = || client.server(SERVER).expect("an answer").unwrap_or_default();
    for (difference, sign) in [("+3600", -1.0), ("-3600", 1.0)] {
        running.wait_for_more(100);
        clock.set(difference);
        // Seen with a heartbeat.
        wait::until("the hub knows how wrong the clocks are", || {
            let skew_s = state()["shipper"]["clock_skew_s"].as_f64().unwrap_or_default();
            (skew_s * sign - 3600.0).abs() < 60.0
        });
        let alerts = || client.get("/api/v1/alerts", &[]).expect("an answer").to_string();
        wait::until("it says so", || alerts().contains("\"clock_skew\""));
        let alerts = alerts();
        // Both would be for silence that a clock only pretends.
        for rule in ["\"silent\"", "\"shipper_silent\"", "\"unsealed_tail\""] {
            assert!(!alerts.contains(rule), "{alerts}");
        }
        // Not for long: a busy machine can make it "behind" meanwhile.
        wait::until("it is in order", || state()["state"] == "ok");
        let before = state()["landed_seq"].as_u64();
        wait::until("records arrive", || state()["landed_seq"].as_u64() > before);
    }
    // Five years ahead every file is older than the retention, and some are not the newest. After
    // ten the token with which the hub ships its own log has expired.
    clock.set("+157680000");
    let retention = |days: &str, waits_for: Option<&str>| {
        hub.run(&["retention", "set", "--server", SERVER, "--days", days]).expect("is set");
        wait::until("retention has looked at the files and the clock", || {
            let storage = client.get("/api/v1/storage", &[]).expect("an answer");
            let servers = storage["servers"].as_array().expect("servers");
            let server = servers.iter().find(|it| it["server"] == SERVER).expect("the server");
            server["waits_for"].as_str() == waits_for
        });
    };
    retention("30", Some("clock"));
    // The shipper of the hub's own log has the time of the hub, and confirms nothing.
    let seen = || {
        let own = client.server("tacho-hub").expect("an answer").unwrap_or_default();
        own["shipper"]["last_seen"].as_str().unwrap_or_default().to_owned()
    };
    wait::until("the hub has heard of itself at its time", || {
        let record = state()["last_record_ts"].as_str().unwrap_or_default().to_owned();
        // Compares the years.
        !record.is_empty() && seen().get(..4) > record.get(..4)
    });
    let before = seen();
    wait::until("a heartbeat of the hub has its time", || seen() != before);
    retention("0", None);
    retention("31", Some("clock"));
    clock.set("+0");
    let tally = running.stop().expect("a tally");
    let summary = scene.finish(&tally, "clock");
    shipper.stop().expect("acknowledges the rest");
    hub.ship_once(&scene.log_directory(), SERVER).expect("nothing is left");
    check(&hub, &scene, &tally, "clock", &summary);
}

/// One log, two hubs: each has everything, and the death of one does not concern the other.
#[test]
fn two_hubs_have_everything() {
    let mut scene = Scene::new(&OPTIONS);
    let mut one = Hub::start(&directory(&scene, "one")).expect("a hub");
    let two = Hub::start(&directory(&scene, "two")).expect("a hub");
    let mut shippers = [
        one.ship(&scene.log_directory(), SERVER).expect("a shipper"),
        two.ship(&scene.log_directory(), SERVER).expect("a shipper"),
    ];
    let running = start_paced_load(&scene, "two", PAUSE);
    running.wait_for_more(300);
    one.process().kill9().expect("was alive");
    let client = two.client("auditor").expect("a token");
    let before =
        client.server(SERVER).expect("an answer").map(|state| state["landed_seq"].as_u64());
    running.wait_for_more(300);
    wait::until("the other hub receives", || {
        client.server(SERVER).expect("an answer").map(|state| state["landed_seq"].as_u64()) > before
    });
    one.restart().expect("restarts");
    let tally = running.stop().expect("a tally");
    let summary = scene.finish(&tally, "two");
    for (hub, shipper) in [&one, &two].into_iter().zip(&mut shippers) {
        shipper.stop().expect("acknowledges the rest");
        hub.ship_once(&scene.log_directory(), SERVER).expect("nothing is left");
        check(hub, &scene, &tally, "two", &summary);
    }
}
