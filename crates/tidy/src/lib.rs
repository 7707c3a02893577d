//! Zone: outside. Checks of the source that no compiler or linter makes, each with its reason.
//!
//! `make lint` runs the tests of this crate. `tests/tidy.rs` applies every check to the files that
//! git knows; the unit tests of each module show that the check finds what it looks for.
//!
//! | module | what it checks |
//! |---|---|
//! | [`width`] | lines of at most 100 columns |
//! | [`length`] | functions of at most 80 lines, files of at most 500 |
//! | [`names`] | a type has a name of its own |
//! | [`wording`] | no wording that makes English sound translated |
//! | [`zone`] | crate roots and adapter files name their zone |
//! | [`dependencies`] | the crates that a database server loads |
//! | [`orderings`] | memory orderings name their partner |
//! | [`paths`] | paths that a document names exist |
//! | [`manifests`] | each crate inherits the lints of the workspace |
//! | [`releases`] | one header tests the release of the server |
//! | [`server_tabs`] | blocks of a guide that differ between servers are in a group |
//!
//! A check that the tree does not meet yet has a file in `ratchets/`: what is there today, as a
//! number for each place. See [`ratchet`].

pub mod changed;
pub mod dependencies;
pub mod length;
pub mod manifests;
pub mod names;
pub mod orderings;
pub mod paths;
pub mod ratchet;
pub mod releases;
pub mod server_tabs;
pub mod tree;
pub mod width;
pub mod wording;
pub mod zone;

use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Relative to the root of the repository.
    pub path: String,
    /// The first line is 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// Why it is wrong, or what to do instead.
    pub why: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}: {}", self.path, self.line, self.what, self.why)
    }
}

/// What a check found at one place, for comparison with the limit of that place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The place: a file, a function, or a wording and a directory.
    pub name: String,
    /// What the limit bounds: the number of findings, or a length in lines.
    pub size: usize,
    /// The findings behind `size`.
    pub findings: Vec<Finding>,
}

/// Groups findings by the name of their place; the size of a place is the number of its findings.
pub fn count(findings: impl IntoIterator<Item = (String, Finding)>) -> Vec<Extent> {
    let mut places = std::collections::BTreeMap::<String, Vec<Finding>>::new();
    for (name, finding) in findings {
        places.entry(name).or_default().push(finding);
    }
    let place = |(name, findings): (String, Vec<Finding>)| {
        let size = findings.len();
        Extent { name, size, findings }
    };
    places.into_iter().map(place).collect()
}
