//! The character set of a session by its collation, and after `COM_RESET_CONNECTION`.

use super::*;

#[test]
fn mysql_resets_the_character_set_to_its_own_and_mariadb_to_that_of_the_login() {
    for (version, after) in [
        ("5.7.44", "utf8mb3"),
        // The greeting has the low byte of 33 and of 289, which is of utf8mb4.
        ("9.7.4", ""),
        ("5.5.5-10.11.19-MariaDB", "utf8mb4"),
        ("11.4.5-MariaDB-log", "utf8mb4"),
        ("5.5.5-10.2.11-MariaDB-log", "utf8mb3"),
        ("5.5.5-10.2.22-MariaDB", "utf8mb4"),
        ("5.5.5-10.3.12-MariaDB", "utf8mb3"),
        ("5.5.5-10.3.13-MariaDB", "utf8mb4"),
    ] {
        let mut scene = Scene::new(false);
        scene.greet_as(version, 0).client(1, &login(0)).server(2, OK);
        assert_eq!(scene.session.who.charset, b"utf8mb4", "{version}");
        scene.client(0, b"\x03SET NAMES latin1").server(1, OK);
        assert_eq!(scene.session.who.charset, b"latin1", "{version}");
        scene.client(0, b"\x1f").server(1, OK);
        assert_eq!(scene.session.who.charset, after.as_bytes(), "{version}");
    }
}

#[test]
fn a_collation_that_the_server_does_not_know_has_no_character_set() {
    // Clients of MySQL 8.0 choose 255.
    for (version, collation, charset) in [
        ("5.6.24-log", 255, ""),
        ("5.7.44", 255, ""),
        ("8.0.36", 255, "utf8mb4"),
        ("5.5.5-10.1.23-MariaDB", 255, ""),
        ("11.4.5-MariaDB-log", 255, "utf8mb4"),
        ("5.6.24-log", 248, ""),
        ("5.7.44", 248, "gb18030"),
        ("5.6.24-log", 45, "utf8mb4"),
    ] {
        let mut scene = Scene::new(false);
        let mut answer = login(0);
        answer[8] = collation;
        scene.greet_as(version, 0).client(1, &answer).server(2, OK);
        let got = String::from_utf8_lossy(&scene.session.who.charset);
        assert_eq!(got, charset, "{version} {collation}");
    }
}
