//! What the table says about a setting.

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Without the server's prefix: `flush_bytes`.
    pub name: &'static str,
    /// What the server shows as help. Other settings are named `tacho_x`; each server has its own
    /// spelling of that.
    pub help: &'static str,
    /// Type, default and range.
    pub kind: Kind,
    /// `SET GLOBAL` can change it.
    pub is_dynamic: bool,
    /// The owner of the value.
    pub owner: Owner,
    /// Which servers have it.
    pub servers: Servers,
}

/// Type, default and range of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `ON` or `OFF`.
    Switch {
        /// Whether it is `ON` by default.
        default: bool,
    },
    /// A number.
    Number {
        /// What it counts.
        unit: Unit,
        /// The default.
        default: u64,
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
        /// The server rounds down to a multiple of this.
        step: u64,
    },
    /// One of some names.
    Choice {
        /// The names; each has its index as number.
        names: &'static [&'static str],
        /// Index of the default.
        default: usize,
    },
    /// A text.
    Text {
        /// What it contains.
        content: Content,
        /// The default.
        default: &'static str,
    },
    /// A switch that always reads `OFF`: setting it to 1 does something.
    Command,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Days.
    Days,
    /// Files.
    Files,
    /// Hundredths.
    Percent,
}

impl Unit {
    /// How the name of such a setting ends.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Unit::Bytes => "_bytes",
            Unit::Milliseconds => "_ms",
            Unit::Seconds => "_s",
            Unit::Days => "_days",
            Unit::Files => "_files",
            Unit::Percent => "_percent",
        }
    }
}

/// What a text contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A path.
    Path,
    /// JSON.
    Json,
    /// Names with commas between them.
    List,
}

/// The owner of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The adapter. The recorder gets it when it starts, or by a function of its own.
    Adapter,
    /// The arena, for the query threads and for recovery.
    Arena,
    /// The recorder's part in the server that hands the log over.
    Server,
    /// The writer, in the server or outside.
    Writer,
}

/// Which servers have a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// All.
    All,
    /// MySQL 9.7 and 8.0.
    MySql,
}

impl Spec {
    /// Whether it can have this value, as an option file has it. Any text will do for a text.
    #[must_use]
    pub fn takes(&self, value: &str) -> bool {
        match self.kind {
            Kind::Switch { .. } | Kind::Command => ["ON", "OFF"].contains(&value),
            Kind::Number { min, max, .. } => {
                value.parse().is_ok_and(|number: u64| (min..=max).contains(&number))
            }
            Kind::Choice { names, .. } => names.contains(&value),
            Kind::Text { .. } => true,
        }
    }

    /// The kind of most settings: dynamic, on all servers, for the writer.
    const fn new(name: &'static str, kind: Kind) -> Spec {
        Spec { name, help: "", kind, is_dynamic: true, owner: Owner::Writer, servers: Servers::All }
    }

    pub(crate) const fn switch(name: &'static str, default: bool) -> Spec {
        Spec::new(name, Kind::Switch { default })
    }

    pub(crate) const fn number(
        name: &'static str,
        unit: Unit,
        default: u64,
        range: [u64; 2],
    ) -> Spec {
        let [min, max] = range;
        assert!(min <= default && default <= max, "the default is in the range");
        Spec::new(name, Kind::Number { unit, default, min, max, step: 1 })
    }

    /// The first name is the default.
    pub(crate) const fn choice(name: &'static str, names: &'static [&'static str]) -> Spec {
        Spec::new(name, Kind::Choice { names, default: 0 })
    }

    pub(crate) const fn text(name: &'static str, content: Content, default: &'static str) -> Spec {
        Spec { owner: Owner::Adapter, ..Spec::new(name, Kind::Text { content, default }) }
    }

    pub(crate) const fn command(name: &'static str) -> Spec {
        Spec { owner: Owner::Adapter, ..Spec::new(name, Kind::Command) }
    }

    /// It is read when the recorder starts, and cannot change.
    pub(crate) const fn at_start(self) -> Spec {
        Spec { is_dynamic: false, owner: Owner::Adapter, ..self }
    }

    pub(crate) const fn owned_by(self, owner: Owner) -> Spec {
        Spec { owner, ..self }
    }

    pub(crate) const fn only_mysql(self) -> Spec {
        Spec { servers: Servers::MySql, ..self }
    }

    /// The default of a choice is another one than the first.
    pub(crate) const fn default_choice(self, index: usize) -> Spec {
        match self.kind {
            Kind::Choice { names, .. } if index < names.len() => {
                Spec { kind: Kind::Choice { names, default: index }, ..self }
            }
            _ => panic!("no such choice"),
        }
    }

    /// A number is a multiple of this.
    pub(crate) const fn step(self, step: u64) -> Spec {
        match self.kind {
            Kind::Number { unit, default, min, max, .. } => {
                Spec { kind: Kind::Number { unit, default, min, max, step }, ..self }
            }
            _ => panic!("only a number has a step"),
        }
    }

    pub(crate) const fn help(self, help: &'static str) -> Spec {
        Spec { help, ..self }
    }
}
