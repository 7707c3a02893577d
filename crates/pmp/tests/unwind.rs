//! Zone: outside. Known stacks: a C program with one thread for each difficulty, compiled here. The
//! results are compared with the expected stacks, and with those of elfutils.

mod fixture_program;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fixture_program::Fixture;
use tacho_pmp::processlist::SqlStates;
use tacho_pmp::profile::{Entry, Profile};
use tacho_pmp::sampler::{Sampler, StopPolicy};
use tacho_pmp::state::ThreadState;
use tacho_pmp::verdict::Patterns;

/// For a test that has failed: on a busy machine each step may take long.
const TIME_MAX: Duration = Duration::from_secs(600);

/// The whole stack of a thread that sleeps, innermost first, below the function that sleeps.
fn asleep(name: &str) -> Vec<String> {
    let functions = match name {
        "recursion" => vec!["recurse"; 30],
        "deep" => vec!["wide"; 600],
        "frame_pointer" => vec!["with_frame_pointer"],
        "small_frame" | "large_frame" => vec!["changing"],
        _ => panic!("no thread {name}"),
    };
    let mut stack = vec!["rest"];
    stack.extend(functions);
    stack.push(name);
    stack.into_iter().map(str::to_owned).collect()
}

const ASLEEP: [&str; 5] = ["recursion", "deep", "frame_pointer", "small_frame", "large_frame"];

const IN_HANDLER: [&str; 4] = ["rest", "handler", "interrupted", "in_handler"];

/// Functions of a thread without those of the C library, which need not have names.
fn own_functions(profile: &Profile, stack: &[usize]) -> Vec<String> {
    let frames = stack.iter().map(|number| &profile.frames[*number]);
    frames.filter(|frame| frame.is_program).map(|frame| frame.function.clone()).collect()
}

/// Samples until `is_enough`.
fn sample(
    fixture: &Fixture,
    policy: StopPolicy,
    mut is_enough: impl FnMut(&Profile) -> bool,
) -> Profile {
    let patterns = Patterns::built_in().expect("patterns");
    let mut sampler = Sampler::new(fixture.pid(), "threads", policy, &patterns).expect("a sampler");
    let begin = Instant::now();
    while begin.elapsed() < TIME_MAX {
        assert!(sampler.round(&SqlStates::default()).expect("a round"), "it ended");
        if is_enough(sampler.profile()) {
            return sampler.profile().clone();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let stacks: Vec<_> = sampler
        .profile()
        .entries
        .iter()
        .map(|entry| (entry.count, &entry.thread, own_functions(sampler.profile(), &entry.stack)))
        .collect();
    panic!("not found in {} rounds; found: {stacks:#?}", sampler.profile().rounds);
}

/// Waits until the condition is true.
fn until(mut is_true: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < TIME_MAX, "it never was");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a thread that was in `R` gave no stack: on a busy machine it may wait for a CPU longer
/// than a stop may take, or sleep when it stops.
fn has_no_stack(stack: &[String]) -> bool {
    stack == ["[not stopped]"] || stack == ["[asleep before it stopped]"]
}

fn has(profile: &Profile, thread: &str, is_it: impl Fn(&[String]) -> bool) -> bool {
    profile
        .entries
        .iter()
        .any(|entry| entry.thread == thread && is_it(&own_functions(profile, &entry.stack)))
}

#[test]
fn sleeping_threads_are_read_whole() {
    let fixture = Fixture::start();
    for policy in [StopPolicy::Needed, StopPolicy::Always] {
        let profile = sample(&fixture, policy, |profile| {
            ASLEEP.iter().all(|name| has(profile, name, |stack| stack == asleep(name)))
        });
        for entry in profile.entries.iter().filter(|e| ASLEEP.contains(&e.thread.as_str())) {
            let stack = own_functions(&profile, &entry.stack);
            // A truncated stack is marked; nothing else may be wrong.
            let is_cut_off = stack.last().is_some_and(|last| last == "[cut off]");
            let expected = asleep(&entry.thread);
            assert!(
                // In the first samples it was not there yet.
                expected.ends_with(&stack)
                    || is_cut_off && expected.starts_with(&stack[..stack.len() - 1])
                    || has_no_stack(&stack)
                    || stack.iter().any(|function| function == "arrive"),
                "{}: {stack:?}",
                entry.thread
            );
        }
    }
}

/// Its function keeps a frame pointer, which only a stop shows: after one stop, its size is known.
/// (Not for `changing`, whose frames at one location have two sizes.)
#[test]
fn a_thread_asleep_is_not_stopped_once_its_frames_are_known() {
    let fixture = Fixture::with_threads(&["frame_pointer"]);
    let mut stops = Vec::new();
    let profile = sample(&fixture, StopPolicy::Needed, |profile| {
        stops.push(profile.stops.held.count());
        // Some while it was starting, and then none any more.
        let rounds = stops.len();
        rounds >= 20
            && stops[rounds - 10] == stops[rounds - 1]
            && has(profile, "frame_pointer", |stack| stack == asleep("frame_pointer"))
    });
    let state =
        |entry: &&Entry| entry.thread == "frame_pointer" && entry.state == ThreadState::Sleep;
    let asleep = profile.entries.iter().find(state).expect("seen asleep");
    assert!(asleep.count >= 10, "{asleep:?}");
    assert!(stops[0] < 5 && stops[stops.len() - 1] > 0, "{stops:?}");
}

#[test]
fn no_thread_is_stopped_if_the_policy_forbids_it() {
    let fixture = Fixture::start();
    let profile = sample(&fixture, StopPolicy::Never, |profile| {
        profile.rounds >= 10 && has(profile, "deep", |stack| stack == asleep("deep"))
    });
    assert_eq!(profile.stops.held.count(), 0);
    // Whether it has a CPU depends on the load of the machine.
    assert!(has(&profile, "leaf", |stack| stack == ["[running]"] || stack == ["[runnable]"]));
}

#[test]
fn signal_handlers_lead_to_the_interrupted_function() {
    let fixture = Fixture::start();
    sample(&fixture, StopPolicy::Needed, |profile| {
        has(profile, "in_handler", |stack| stack == IN_HANDLER)
            && has(profile, "other_stack", |stack| {
                stack == ["rest", "other_handler", "other_stack"]
            })
    });
}

#[test]
fn running_threads_are_read_whole() {
    let fixture = Fixture::start();
    let mut deep: Vec<&str> = vec!["wide_running"; 200];
    deep.insert(0, "spin");
    deep.push("deep_running");
    let mut deep_is_whole = false;
    let profile = sample(&fixture, StopPolicy::Needed, |profile| {
        deep_is_whole |= has(profile, "deep_running", |stack| stack == deep);
        deep_is_whole
            && has(profile, "leaf", |stack| stack == ["spin", "leaf_caller", "leaf"])
            && has(profile, "clock", |stack| stack == ["ask_the_time", "clock_thread"])
    });
    assert!(profile.stops.held.count() > 0);
    let spins = |entry: &&Entry| own_functions(&profile, &entry.stack)[0] == "spin";
    for entry in profile.entries.iter().filter(spins) {
        assert!(matches!(entry.state, ThreadState::Running | ThreadState::Runnable), "{entry:?}");
    }
}

#[test]
fn code_of_the_kernel_in_user_space_has_a_name() {
    let fixture = Fixture::start();
    let profile = sample(&fixture, StopPolicy::Needed, |profile| {
        profile.entries.iter().any(|entry| {
            let mut frames = entry.stack.iter().map(|number| &profile.frames[*number]);
            entry.thread == "clock" && frames.any(|frame| frame.module == "[vdso]")
        })
    });
    for entry in profile.entries.iter().filter(|entry| entry.thread == "clock") {
        let stack = own_functions(&profile, &entry.stack);
        assert!(
            ["ask_the_time", "clock_thread"].map(str::to_owned).ends_with(&stack)
                || stack == ["arrive", "clock_thread"]
                || has_no_stack(&stack),
            "{stack:?}"
        );
    }
}

/// Real-time signals are queued, so each that is sent must be handled once.
#[test]
fn no_signal_is_lost_or_doubled_while_threads_are_stopped() {
    const SIGNALS: u64 = 3000;
    let mut fixture = Fixture::start();
    let pid = fixture.pid();
    let sender = std::thread::spawn(move || {
        for _ in 0..SIGNALS {
            // SAFETY: no memory is passed.
            while unsafe { libc::kill(pid, libc::SIGRTMIN()) } != 0 {
                // The queue is full.
                let error = std::io::Error::last_os_error();
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
                std::thread::yield_now();
            }
            std::thread::yield_now();
        }
    });
    let profile = sample(&fixture, StopPolicy::Always, |_| sender.is_finished());
    sender.join().expect("all signals are sent");
    assert_eq!(profile.stops.refused, 0);
    // Pending signals arrive when the thread gets a CPU; lost ones never do.
    until(|| fixture.signals() >= SIGNALS);
    assert_eq!(fixture.signals(), SIGNALS);
}

/// A process that was stopped (Ctrl-Z) stays stopped until it is continued.
#[test]
fn a_stopped_process_stays_stopped_until_it_is_continued() {
    let mut fixture = Fixture::start();
    let kill = |signal| {
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { libc::kill(fixture.pid(), signal) }, 0);
    };
    kill(libc::SIGSTOP);
    let all_stopped = |states: &str| states.chars().all(|state| state == 'T');
    until(|| all_stopped(&fixture.states()));
    for policy in [StopPolicy::Needed, StopPolicy::Always] {
        sample(&fixture, policy, |profile| profile.rounds == 10);
        // After its release, each thread stops again.
        until(|| all_stopped(&fixture.states()));
    }
    kill(libc::SIGCONT);
    assert_eq!(fixture.signals(), 0, "it answers");
    until(|| !fixture.states().contains(['T', 't']));
}

/// elfutils stops the whole process for as long as it reads; the stacks must be the same.
#[test]
fn elfutils_finds_the_same() {
    let fixture = Fixture::start();
    let ours = sample(&fixture, StopPolicy::Needed, |profile| {
        ASLEEP.iter().all(|name| has(profile, name, |stack| stack == asleep(name)))
            && has(profile, "in_handler", |stack| stack == IN_HANDLER)
    });
    let theirs = fixture.eu_stack();
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    for name in ASLEEP.iter().chain(&["in_handler"]) {
        let entry = ours
            .entries
            .iter()
            .filter(|entry| entry.thread == *name && entry.state == ThreadState::Sleep)
            // The first samples may be cut off.
            .max_by_key(|entry| entry.stack.len())
            .expect("seen");
        let frames = entry.stack.iter().map(|number| &ours.frames[*number]);
        // elfutils shows no name where we show a location.
        let ours: Vec<_> =
            frames.map(|f| if f.is_named { plain(&f.function) } else { String::new() }).collect();
        let theirs = theirs.get(*name).unwrap_or_else(|| panic!("eu-stack has no {name}"));
        let theirs: Vec<_> = theirs.iter().map(|function| plain(function)).collect();
        assert_eq!(ours, theirs, "{name}");
        compared.insert(name, ours.len());
    }
    assert_eq!(compared.len(), 6);
    assert!(compared["deep"] > 600);
}

/// Without versions and the underscores that distinguish the aliases of a function.
fn plain(name: &str) -> String {
    name.split('@').next().unwrap_or(name).trim_start_matches('_').to_owned()
}
