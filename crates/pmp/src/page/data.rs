//! The stacks for the script of the page.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::averages::what;
use crate::profile::Profile;
use crate::state::ThreadState;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageData<'a> {
    rounds: u64,
    with_idle: bool,
    states: [&'static str; ThreadState::ALL.len()],
    labels: BTreeMap<&'static str, String>,
    /// Function and file.
    frames: Vec<(&'a str, &'a str)>,
    /// Number of the state, whether it waits for work, samples, frames from the outermost.
    stacks: Vec<(usize, u8, u64, Vec<usize>)>,
}

/// As JSON that may be inside an element `script`.
pub(super) fn json(profile: &Profile, with_idle: bool) -> String {
    let number = |state: ThreadState| {
        ThreadState::ALL.iter().position(|it| *it == state).unwrap_or_default()
    };
    let stacks = profile.seen(true).map(|entry| {
        let frames = entry.stack.iter().rev().copied().collect();
        (number(entry.state), u8::from(entry.idle), entry.count, frames)
    });
    let labels = ThreadState::ALL
        .iter()
        .map(|state| (state.name(), format!("{}: {}", state.name(), what(*state))));
    let data = PageData {
        rounds: profile.rounds.max(1),
        with_idle,
        states: ThreadState::ALL.map(ThreadState::name),
        labels: labels.chain([("idle", "idle: waiting for work".to_owned())]).collect(),
        frames: profile.frames.iter().map(|it| (&*it.function, &*it.module)).collect(),
        stacks: stacks.collect(),
    };
    // Numbers and texts always have a JSON form. `<` could begin `</script>` or `<!--`.
    serde_json::to_string(&data).unwrap_or_default().replace('<', "\\u003c")
}
