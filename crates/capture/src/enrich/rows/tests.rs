use super::*;

fn row(id: u64, user: &str, host: &str) -> Row {
    Row {
        id,
        user: user.into(),
        host: host.to_owned(),
        db: Some(b"shop".to_vec()),
        command: IDLE.to_owned(),
        statement: Some(9),
    }
}

fn list(rows: &[Row]) -> List {
    List { reads: [rows.to_vec(), rows.to_vec(), rows.to_vec()], has_own_users: false }
}

fn session(ip: &str, port: u16) -> Unknown {
    Unknown::of_client(ip, port)
}

/// The user that a list names for a client, with the id of the connection.
fn user_of(list: &List, session: &Unknown) -> Option<(String, u64)> {
    let mut resolve = |name: &str| match name {
        "app.example" => vec!["10.0.0.5".parse().unwrap()],
        _ => Vec::new(),
    };
    let facts = list.facts(&[session], &mut resolve).remove(0)?;
    Some((String::from_utf8(facts.user.unwrap()).unwrap(), facts.conn))
}

#[test]
fn a_session_is_found_by_its_address_and_port() {
    let list = list(&[
        row(1, "v4", "10.0.0.5:4000"),
        row(2, "v6", "2001:db8::5:4000"),
        row(3, "port", "10.0.0.5:4001"),
        row(4, "lo", "localhost:4002"),
        row(5, "name", "app.example:4003"),
        row(6, "socket", "localhost"),
    ]);
    for (ip, port, user) in [
        ("10.0.0.5", 4000, Some("v4")),
        ("::ffff:10.0.0.5", 4000, Some("v4")),
        ("2001:db8::5", 4000, Some("v6")),
        ("127.0.0.1", 4002, Some("lo")),
        ("::1", 4002, Some("lo")),
        ("10.0.0.5", 4003, Some("name")),
        // Another client with this port; a client that is not this host; one that has another name.
        ("10.0.0.6", 4000, None),
        ("10.0.0.5", 4002, None),
        ("10.0.0.6", 4003, None),
        ("10.0.0.5", 4004, None),
    ] {
        let found = user_of(&list, &session(ip, port)).map(|(user, _)| user);
        assert_eq!(found.as_deref(), user, "{ip} {port}");
    }
}

#[test]
fn what_is_not_certain_is_nobodys() {
    let one = row(1, "me", "10.0.0.5:4000");
    let asked = session("10.0.0.5", 4000);
    assert_eq!(user_of(&list(std::slice::from_ref(&one)), &asked), Some(("me".to_owned(), 1)));
    // Two sessions with the address: one of them is about to end, or shows another client's.
    assert_eq!(user_of(&list(&[one.clone(), row(2, "other", "10.0.0.5:4000")]), &asked), None);
    // A session with this port that is busy shows the host of a definer, so it may be this one.
    let mut busy = row(2, "boss", "10.0.0.9:4000");
    let both = |busy: &Row| list(&[one.clone(), busy.clone()]);
    assert!(user_of(&both(&busy), &asked).is_some());
    busy.command = "Query".to_owned();
    assert_eq!(user_of(&both(&busy), &asked), None);
    let own = List { has_own_users: true, ..both(&busy) };
    assert!(user_of(&own, &asked).is_some());
    // The id of the connection is known, and another one.
    let known = |conn| {
        let mut known = asked.clone();
        known.conn = conn;
        known
    };
    assert_eq!(user_of(&list(std::slice::from_ref(&one)), &known(2)), None);
    assert!(user_of(&list(std::slice::from_ref(&one)), &known(1)).is_some());
    // A name that has lost its end.
    let long = format!("{}.example:400", "x".repeat(60));
    let mut everywhere = |_: &str| vec!["10.0.0.5".parse().unwrap()];
    let cut = list(&[row(1, "me", &long)]);
    assert_eq!(cut.facts(&[&session("10.0.0.5", 400)], &mut everywhere), [None]);
}

#[test]
fn a_session_that_executes_something_shows_nothing() {
    let idle = row(1, "me", "10.0.0.5:4000");
    let asked = session("10.0.0.5", 4000);
    let changes: [fn(&mut Row); 6] = [
        // The definer of a stored program.
        |row| row.user = b"root".to_vec(),
        |row| row.db = Some(b"sys".to_vec()),
        |row| row.command = "Query".to_owned(),
        |row| row.command = "Busy".to_owned(),
        |row| row.statement = Some(10),
        |row| row.id = 2,
    ];
    for (index, change) in changes.iter().enumerate() {
        for read in 0..READS {
            let mut list = list(std::slice::from_ref(&idle));
            change(&mut list.reads[read][0]);
            assert_eq!(user_of(&list, &asked), None, "{index} {read}");
        }
    }
    let mut uncounted = idle.clone();
    uncounted.statement = None;
    assert_eq!(user_of(&list(&[uncounted]), &asked), None);
}

#[test]
fn a_server_that_shows_the_user_of_the_login_need_not_be_idle() {
    let mut busy = row(1, "me", "10.0.0.5:4000");
    busy.command = "Execute".to_owned();
    let asked = session("10.0.0.5", 4000);
    let mut list = List { has_own_users: true, ..list(&[busy]) };
    let facts = |list: &List| list.facts(&[&asked], &mut |_| Vec::new()).remove(0);
    let found = facts(&list).expect("a user");
    assert_eq!((found.user, found.db), (Some(b"me".to_vec()), None));
    list.reads[1][0].user = b"other".to_vec();
    assert_eq!(facts(&list), None);
}

#[test]
fn sessions_without_an_address_are_local() {
    let mut daemon = row(1, "event_scheduler", "localhost");
    daemon.command = "Daemon".to_owned();
    for (row, is_local) in [
        (row(2, "root", "localhost"), true),
        (row(3, "app", "localhost:4000"), false),
        (row(4, "app", "10.0.0.5:4000"), false),
        (row(5, "system user", ""), false),
        (row(6, "unauthenticated user", "connecting host"), false),
        (daemon, false),
    ] {
        assert_eq!(row.is_local(), is_local, "{row:?}");
    }
}
