//! What a term can ask for: the fields of a record, and a few more names.

use std::sync::LazyLock;

use tacho_record::{ACTIONS, CLASSES, EventKind, Field, Kind, Outcome};

/// A name in front of a colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name.
    pub name: &'static str,
    /// The columns that it asks for: one of them must match.
    pub columns: &'static [&'static str],
    /// The values that it takes.
    pub kind: TargetKind,
    /// Its description.
    pub what: &'static str,
}

/// The values that a target takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A number.
    Number,
    /// µs; with a unit any duration.
    Micros,
    /// The same; the unit is required, because the name does not say it.
    Duration,
    /// A time.
    Time,
    /// True or missing.
    Flag,
    /// A text: equal, or a pattern.
    Text,
    /// The same, from a list.
    Word(Vec<&'static str>),
    /// A long text: contains, without regard to case.
    Contains,
    /// The beginning of a digest.
    Digest,
    /// The text of a digest: contains, without regard to case, blanks and backticks.
    DigestText,
    /// A table, with or without its database.
    Table,
    /// Keys and values of a message.
    Attributes,
}

/// All targets, the fields of a record first, in their order.
pub fn targets() -> &'static [Target] {
    static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(|| {
        let mut targets: Vec<Target> = Field::ALL
            .iter()
            // Another name has it, or has more than it.
            .filter(|field| !matches!(field, Field::server | Field::host))
            .map(|&field| Target {
                name: field.name(),
                columns: column(field),
                kind: kind(field),
                what: field.what(),
            })
            .collect();
        targets.extend(others());
        targets
    });
    &TARGETS
}

/// The target of that name, in any case.
pub fn target(name: &str) -> Option<&'static Target> {
    targets().iter().find(|target| target.name.eq_ignore_ascii_case(name))
}

fn others() -> Vec<Target> {
    let of = |name, columns, kind, what| Target { name, columns, kind, what };
    vec![
        of("server", &["server"], TargetKind::Text, "name of the server (origin) at the hub"),
        of("server_version", &["server_version"], TargetKind::Text, "server and version"),
        of("host", &["host", "ip"], TargetKind::Text, "client host name or address"),
        of("time", &["query_time_us"], TargetKind::Duration, "duration of the statement"),
        of("lock_time", &["lock_time_us"], TargetKind::Duration, "time spent waiting for locks"),
        of("table", &["tables"], TargetKind::Table, "table used: `card`, `shop.card`, `shop.*`"),
        of(
            "digest_text",
            &["digest"],
            TargetKind::DigestText,
            "statement without its literals: `\"from card where\"`",
        ),
        of("generation", &["generation"], TargetKind::Number, "generation of the log at the hub"),
        of("file", &["file"], TargetKind::Text, "name of the log file"),
        of("offset", &["offset"], TargetKind::Number, "position of the line in its file"),
    ]
}

/// One column of a constant name, as a slice.
fn column(field: Field) -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<[&'static str; 1]>> =
        LazyLock::new(|| Field::ALL.iter().map(|field| [field.name()]).collect());
    &NAMES[field as usize]
}

fn kind(field: Field) -> TargetKind {
    let words = |all: &[&'static str]| TargetKind::Word(all.to_vec());
    match (field, field.kind()) {
        (Field::query_time_us | Field::lock_time_us | Field::first_byte_us, _) => {
            TargetKind::Micros
        }
        (Field::class, _) => words(&CLASSES),
        (Field::action, _) => words(&ACTIONS),
        (_, Kind::Event) => TargetKind::Word(EventKind::ALL.map(EventKind::name).to_vec()),
        (_, Kind::Outcome) => TargetKind::Word(Outcome::ALL.map(Outcome::name).to_vec()),
        (_, Kind::Seq | Kind::Number | Kind::Port | Kind::Errno) => TargetKind::Number,
        (_, Kind::Instant | Kind::Time) => TargetKind::Time,
        (_, Kind::Flag) => TargetKind::Flag,
        (_, Kind::Name | Kind::Word | Kind::CharsetName) => TargetKind::Text,
        (_, Kind::Message | Kind::Statement | Kind::Params) => TargetKind::Contains,
        (_, Kind::Digest) => TargetKind::Digest,
        (_, Kind::Tables) => TargetKind::Table,
        (_, Kind::Attributes) => TargetKind::Attributes,
    }
}

/// The name that is most like `name`, if one is.
pub fn similar(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let distance = |target: &Target| distance(&lower, target.name);
    let nearest = targets().iter().min_by_key(|target| distance(target))?;
    (distance(nearest) <= lower.len() / 3).then_some(nearest.name)
}

/// How many letters differ (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_mistakes_are_guessed() {
        let mut names: Vec<_> = targets().iter().map(|target| target.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(similar("usr"), Some("user"));
        assert_eq!(similar("row_sent"), Some("rows_sent"));
        assert_eq!(similar("zzz"), None);
        assert_eq!(target("errno").map(|it| it.columns), Some(&["errno"][..]));
    }
}
