//! The order of the blocks.
//!
//! Methods are compared under one load at a time; those that need a restart of the server are
//! compared separately. A round measures each method once, next to the server without it: a pair of
//! adjacent blocks, *off on* in one round and *on off* in the next, so that a steady drift of the
//! machine favours neither. Each round begins with another method.

use crate::lines::LoadLine;
use crate::method::{Method, NONE_AGAIN, Switch};
use crate::workload::Workload;

/// One load.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The work of the clients.
    pub workload: Workload,
    /// Connections.
    pub threads: u32,
    /// Events per second, with an open loop.
    pub rate: Option<f64>,
}

impl Cell {
    /// For the results.
    pub fn line(&self) -> LoadLine {
        LoadLine { workload: self.workload.name.clone(), threads: self.threads, rate: self.rate }
    }
}

/// Methods that are measured in the same way, including the A/A pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// How they are switched: as the method that needs most. What is restarted for one is restarted
    /// for all.
    pub switch: Switch,
    /// The methods; [`NONE_AGAIN`] is the first.
    pub methods: Vec<Method>,
}

/// Splits the methods into those that need a restart of the server, and the others.
pub fn groups(methods: &[Method]) -> Vec<Group> {
    let restart = |method: &&Method| method.switch == Switch::Restart;
    let (restarted, others): (Vec<&Method>, Vec<&Method>) = methods.iter().partition(restart);
    [others, restarted]
        .into_iter()
        .filter_map(|methods| {
            let switch = methods.iter().map(|method| method.switch).max()?;
            let all = std::iter::once(Method::none(NONE_AGAIN))
                .chain(methods.into_iter().cloned())
                .map(|method| Method { switch, ..method });
            Some(Group { switch, methods: all.collect() })
        })
        .collect()
}

/// The loads: every workload with every number of connections and every rate.
pub fn cells(workloads: &[Workload], threads: &[u32], rates: &[Option<f64>]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in workloads {
        for &threads in threads {
            for &rate in rates {
                cells.push(Cell { workload: workload.clone(), threads, rate });
            }
        }
    }
    cells
}

/// The order of the methods in a round, by their index in the group, and whether the block with the
/// method comes first.
pub fn round(number: u32, method_count: usize) -> (Vec<usize>, bool) {
    let first = number as usize % method_count;
    let order = (0..method_count).map(|index| (first + index) % method_count).collect();
    (order, !number.is_multiple_of(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::Methods;

    #[test]
    fn each_group_has_its_own_floor() {
        let known = Methods::built_in().expect("good files");
        let names = ["tacho", "general_log", "slow_log", "init_connect"].map(str::to_owned);
        let groups = groups(&known.choose(&names).expect("known"));
        let found: Vec<Vec<&str>> =
            groups.iter().map(|g| g.methods.iter().map(|m| &*m.name).collect()).collect();
        assert_eq!(
            found,
            [
                vec!["none-again", "tacho", "general_log", "slow_log"],
                vec!["none-again", "init_connect"],
            ]
        );
        assert_eq!((groups[0].switch, groups[1].switch), (Switch::Reconnect, Switch::Restart));
        assert!(groups.iter().all(|g| g.methods.iter().all(|m| m.switch == g.switch)));
        let alone = super::groups(&known.choose(&names[1..2]).expect("known"));
        assert_eq!((alone.len(), alone[0].switch), (1, Switch::Live));
    }

    #[test]
    fn rounds_alternate_and_begin_elsewhere() {
        assert_eq!(round(0, 3), (vec![0, 1, 2], false));
        assert_eq!(round(1, 3), (vec![1, 2, 0], true));
        assert_eq!(round(5, 3), (vec![2, 0, 1], true));
    }
}
