//! Permissions. A caller has one or more roles, and sees all servers or those of a list.

use std::fmt;
use std::str::FromStr;

use tacho_ship::protocol::Origin;

/// What a token or an account may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Ships to one origin, nothing else.
    Agent,
    /// Sees records without literals: digest texts instead of statements.
    Viewer,
    /// Sees everything.
    Auditor,
    /// Manages accounts, tokens and settings; sees no statements.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Agent, Self::Viewer, Self::Auditor, Self::Admin];

    /// Its word in JSON, on the command line and in the database.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Viewer => "viewer",
            Self::Auditor => "auditor",
            Self::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A text that names no roles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a role: use agent, viewer, auditor, admin, or several with + between them")]
pub struct UnknownRole(String);

/// A set of roles, as text `admin+auditor`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u8);

impl Roles {
    /// Whether the role is in the set.
    #[must_use]
    pub fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// The same with another role.
    #[must_use]
    pub fn with(self, role: Role) -> Self {
        Self(self.0 | role.bit())
    }

    /// The words of its roles, those with more rights first.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        Role::ALL.into_iter().rev().filter(|role| self.has(*role)).map(Role::word).collect()
    }

    /// Whether records may be searched, at least without literals.
    #[must_use]
    pub fn may_search(self) -> bool {
        self.has(Role::Viewer) || self.has(Role::Auditor)
    }

    /// Whether statements, parameters and other literals may be shown.
    #[must_use]
    pub fn may_see_statements(self) -> bool {
        self.has(Role::Auditor)
    }

    /// Whether accounts, tokens and settings may be changed.
    #[must_use]
    pub fn may_administer(self) -> bool {
        self.has(Role::Admin)
    }

    /// Whether the state of servers and alerts is visible: to all roles except a shipper.
    #[must_use]
    pub fn may_see_state(self) -> bool {
        self.may_search() || self.may_administer()
    }
}

impl From<Role> for Roles {
    fn from(role: Role) -> Self {
        Self::default().with(role)
    }
}

impl FromStr for Roles {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        text.split('+').try_fold(Self::default(), |roles, word| {
            let role = Role::ALL.into_iter().find(|role| role.word() == word);
            role.map(|role| roles.with(role)).ok_or_else(|| UnknownRole(text.to_owned()))
        })
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join("+"))
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roles({self})")
    }
}

/// The servers that a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every one, also those that come later.
    All,
    /// These.
    Servers(Vec<Origin>),
}

impl Scope {
    /// Whether a server is in it.
    #[must_use]
    pub fn has(&self, server: &Origin) -> bool {
        match self {
            Self::All => true,
            Self::Servers(servers) => servers.contains(server),
        }
    }

    /// The list; `None`: all.
    #[must_use]
    pub fn servers(&self) -> Option<&[Origin]> {
        match self {
            Self::All => None,
            Self::Servers(servers) => Some(servers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        for text in ["agent", "viewer", "auditor", "admin", "admin+auditor"] {
            assert_eq!(text.parse::<Roles>().unwrap().to_string(), text);
        }
        for bad in ["", "root", "admin+", "admin,auditor", "Admin"] {
            assert!(bad.parse::<Roles>().is_err(), "{bad}");
        }
    }

    #[test]
    fn administrators_and_shippers_see_no_statements() {
        let roles = |text: &str| text.parse::<Roles>().unwrap();
        assert!(!roles("admin").may_search() && roles("admin").may_administer());
        assert!(!roles("agent").may_see_state());
        assert!(roles("viewer").may_search() && !roles("viewer").may_see_statements());
        assert!(roles("admin+auditor").may_see_statements());
        assert!(!roles("auditor").may_administer());
    }
}
