//! What a server's release decides about a session: the character sets that it knows.

/// A server's release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    is_mariadb: bool,
    /// Parts of the number; 0 for those that the version does not have.
    number: [u16; 3],
}

impl Release {
    /// That of the version in a greeting.
    pub fn of(version: &[u8]) -> Release {
        let mut parts = version.split(|byte| *byte == b'.').map(|part| {
            let digits = part.iter().take(5).take_while(|byte| byte.is_ascii_digit());
            digits.fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'))
        });
        let number = [(); 3].map(|()| parts.next().unwrap_or(0).try_into().unwrap_or(u16::MAX));
        let is_mariadb = version.windows(7).any(|part| part == b"MariaDB");
        Release { is_mariadb, number }
    }

    /// After `COM_RESET_CONNECTION` a session has the character set of the server, and not that of
    /// its login: MySQL, and MariaDB before 10.2.22 and 10.3.13 (MDEV-18281).
    pub fn resets_to_own_charset(self) -> bool {
        match (self.is_mariadb, self.number) {
            (false, _) => true,
            (true, [10, 2, patch]) => patch < 22,
            (true, [10, 3, patch]) => patch < 13,
            (true, _) => false,
        }
    }
}

/// Whether a server knows the collation of this number. A session of one that it does not know has
/// the server's own character set, which packets do not show. `None`: a server whose greeting was
/// not captured.
pub fn knows_collation(release: Option<Release>, number: u16) -> bool {
    let since = |mysql: Option<[u16; 3]>, mariadb: Option<[u16; 3]>| {
        let Some(Release { is_mariadb, number }) = release else { return false };
        let first = if is_mariadb { mariadb } else { mysql };
        first.is_some_and(|first| number >= first)
    };
    match number {
        212..=215 | 244..=247 => since(Some([5, 6, 0]), Some([10, 0, 0])) || release.is_none(),
        // utf8mb4.
        45 | 46 | 224..=243 => since(Some([5, 5, 3]), Some([5, 5, 0])) || release.is_none(),
        // gb18030.
        248..=250 => since(Some([5, 7, 0]), None),
        // Those of UCA 9.0.0: MariaDB has MDEV-20912 since 11.4.5 and 11.7.2.
        255..=323 => {
            let is_between = release.is_some_and(|it| matches!(it.number, [11, 5 | 6, _]));
            let is_early = release.is_some_and(|it| it.number[..2] == [11, 7] && it.number[2] < 2);
            since(Some([8, 0, 0]), Some([11, 4, 5])) && !is_between && !is_early
        }
        // Of MariaDB only: its own ones, those without padding, those of UCA 14.0.0.
        576..=1023 => since(None, Some([10, 0, 0])),
        1024..=2047 => since(None, Some([10, 2, 0])),
        2048.. => since(None, Some([10, 10, 0])),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(version: &str, number: u16) -> bool {
        knows_collation(Some(Release::of(version.as_bytes())), number)
    }

    #[test]
    fn numbers_of_versions() {
        for (version, is_mariadb, number) in [
            ("5.7.44-log", false, [5, 7, 44]),
            ("8.0.mysql_aurora.3.04.0", false, [8, 0, 0]),
            ("10.11.19-MariaDB-0+deb12u2", true, [10, 11, 19]),
            ("9", false, [9, 0, 0]),
            ("", false, [0, 0, 0]),
            ("99999.999999999.x", false, [u16::MAX, u16::MAX, 0]),
        ] {
            assert_eq!(
                Release::of(version.as_bytes()),
                Release { is_mariadb, number },
                "{version}"
            );
        }
    }

    #[test]
    fn servers_know_the_collations_of_their_time() {
        // Verified with these servers.
        for (version, known, unknown) in [
            ("5.5.34-log", &[8, 45, 63, 224, 225][..], &[246, 247, 248, 249, 255][..]),
            ("5.6.24-log", &[8, 45, 63, 224, 246, 247], &[248, 249, 255]),
            ("10.1.23-MariaDB", &[8, 45, 63, 224, 246, 247], &[248, 249, 255]),
            ("10.2.11-MariaDB-log", &[8, 45, 63, 224, 246, 247], &[248, 249, 255]),
            ("11.4.5-MariaDB-log", &[8, 45, 63, 224, 246, 247, 255], &[248, 249]),
        ] {
            assert!(known.iter().all(|it| knows(version, *it)), "{version}");
            assert!(unknown.iter().all(|it| !knows(version, *it)), "{version}");
        }
        assert!(knows("5.7.44", 248) && !knows("5.7.44", 255) && knows("8.0.36", 255));
        assert!(knows("10.11.19-MariaDB", 2304) && !knows("10.6.20-MariaDB", 2304));
        assert!(!knows("11.7.1-MariaDB", 255) && knows("11.8.3-MariaDB", 255));
        assert!(knows("10.6.20-MariaDB", 1070) && !knows("9.7.4", 1070));
        // Of a session that was joined in its middle.
        assert!(knows_collation(None, 45) && !knows_collation(None, 255));
    }
}
