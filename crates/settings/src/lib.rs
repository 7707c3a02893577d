//! Zone: cold. The settings of the recorder, in one table ([`table`]).
//!
//! From it follow:
//!
//! - the variables of MariaDB's plugin, MySQL 9.7's component and MySQL 8.0's plugin, through the
//!   generated `include/tacho_settings.h`;
//! - the numbers that go through the C interface, [`Setting`];
//! - the values that the writer reads, and that the server sends to `tacho recorder`
//!   (`tacho_recorder::settings`);
//! - the names and ranges that `tacho migrate` uses;
//! - the tables of `docs/guide/settings.md`.
//!
//! The tests of this crate compare the two generated files with the table, and write them with
//! `TACHO_BLESS=1`.

mod names;
mod spec;
mod table;

pub use names::SettingNames;
pub use spec::{Content, Kind, Owner, Servers, Spec, Unit};
pub use table::Setting;

impl Setting {
    /// Its row of the table.
    #[must_use]
    pub const fn spec(self) -> &'static Spec {
        &table::TABLE[self as usize]
    }

    /// The name without the server's prefix: `flush_bytes`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// The number that it has in the C interface, and its place in the table.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The setting with this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Setting> {
        Setting::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The setting with this name, without the server's prefix.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Setting> {
        Setting::ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// The default as the C interface has it: 0 and 1 for a switch, the index of a choice.
    ///
    /// # Panics
    /// It is a text.
    #[must_use]
    pub const fn default_number(self) -> u64 {
        match self.spec().kind {
            Kind::Switch { default } => default as u64,
            Kind::Number { default, .. } => default,
            Kind::Choice { default, .. } => default as u64,
            Kind::Command => 0,
            Kind::Text { .. } => panic!("a text is not a number"),
        }
    }

    /// Its smallest and its largest value.
    ///
    /// # Panics
    /// It is not a number.
    #[must_use]
    pub const fn range(self) -> [u64; 2] {
        match self.spec().kind {
            Kind::Number { min, max, .. } => [min, max],
            _ => panic!("only a number has a range"),
        }
    }
}
