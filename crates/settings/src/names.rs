//! How a server spells our settings, for messages that name one.

use crate::Setting;

/// How a name begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SettingNames {
    /// `tacho_logging`: a plugin's, on MariaDB and MySQL 8.0.
    #[default]
    Plugin,
    /// `tacho.logging`: a component's, on MySQL 9.7.
    Component,
}

impl SettingNames {
    /// Those of a server by its name, which is also in its arena: `MySQL 9.7.4`.
    #[must_use]
    pub fn of_server(server: &str) -> SettingNames {
        match server.strip_prefix("MySQL ") {
            Some(version) if !version.starts_with("8.0") => SettingNames::Component,
            _ => SettingNames::Plugin,
        }
    }

    /// Before the name of a setting.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            SettingNames::Plugin => "tacho_",
            SettingNames::Component => "tacho.",
        }
    }

    /// The whole name of a setting.
    #[must_use]
    pub fn name(self, setting: Setting) -> String {
        format!("{}{}", self.prefix(), setting.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_own() {
        for (server, expected) in [
            ("MariaDB 10.11.19-MariaDB-0+deb12u1", "tacho_logging"),
            ("MariaDB 11.8.2-MariaDB", "tacho_logging"),
            ("MySQL 8.0.33", "tacho_logging"),
            ("MySQL 8.0", "tacho_logging"),
            ("MySQL 9.7.4", "tacho.logging"),
            ("", "tacho_logging"),
        ] {
            assert_eq!(
                SettingNames::of_server(server).name(Setting::Logging),
                expected,
                "{server}"
            );
        }
    }
}
