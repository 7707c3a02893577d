//! What a session is after `COM_RESET_CONNECTION`.

use super::*;

#[test]
fn mysql_resets_the_character_set_to_its_own_and_mariadb_to_that_of_the_login() {
    for (version, after) in [("9.7.4", "utf8mb3"), ("5.5.5-10.11.19-MariaDB", "utf8mb4")] {
        let mut scene = Scene::new(false);
        scene.greet_as(version, 0).client(1, &login(0)).server(2, OK);
        assert_eq!(scene.session.who.charset, b"utf8mb4", "{version}");
        scene.client(0, b"\x03SET NAMES latin1").server(1, OK);
        assert_eq!(scene.session.who.charset, b"latin1", "{version}");
        scene.client(0, b"\x1f").server(1, OK);
        assert_eq!(scene.session.who.charset, after.as_bytes(), "{version}");
    }
}
