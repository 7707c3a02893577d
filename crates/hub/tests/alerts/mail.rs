//! Mail: TLS, logins, servers that are down, restarts, texts of others.

use crate::sinks::{Arrived, Certificates, Kind, Sink, free_address};
use crate::{AlertArgs, Hub, file, settings};

fn mail(server: String, to: &[&str]) -> AlertArgs {
    AlertArgs {
        mail_server: Some(server),
        mail_from: Some("hub@a.example".to_owned()),
        mail_to: to.iter().map(|to| (*to).to_owned()).collect(),
        ..settings()
    }
}

fn headers(mail: &Arrived) -> Vec<&str> {
    let (head, _) = mail.text.split_once("\r\n\r\n").unwrap();
    head.lines().filter(|line| !line.starts_with([' ', '\t'])).collect()
}

fn header<'a>(mail: &'a Arrived, name: &str) -> &'a str {
    let found = headers(mail).into_iter().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name} in {mail:?}"))
}

#[test]
fn an_alert_is_sent_over_starttls_with_a_login_and_so_is_its_end() {
    let certificates = Certificates::new(&["localhost"]);
    let sink = Sink::start(Kind::StartTls(certificates.acceptor.clone()));
    let mut hub = Hub::new();
    let mut settings =
        mail(format!("starttls://localhost:{}", sink.address.port()), &["ann@b.example"]);
    settings.mail_user = Some("ann".to_owned());
    settings.mail_password_file = Some(file(hub.directory.path(), "password", "right\n"));
    settings.alert_ca = Some(certificates.ca());
    hub.raise(&Hub::silent("db1", "no heartbeat"));
    hub.start(&settings);
    let mail = sink.next();
    let envelope = ["/ann/right", "FROM:<hub@a.example>", "TO:<ann@b.example>"];
    assert_eq!(mail.envelope, envelope);
    let subject = "Subject: Tachograph [high] The shipper is silent: db1";
    assert!(headers(&mail).contains(&subject), "{mail:?}");
    assert!(mail.text.contains("OPEN db1: no heartbeat\r\n"), "{mail:?}");
    let sent = hub.wait_sent("open");
    assert_eq!((sent.channel.as_str(), sent.tries), ("mail:ann@b.example", 1));
    hub.close_all();
    let mail = sink.next();
    assert!(mail.text.contains("RESOLVED db1: no heartbeat"), "{mail:?}");
    hub.wait_sent("closed");
    drop(hub);
    sink.assert_no_more();
}

#[test]
fn a_server_that_was_down_gets_the_mail_once() {
    let address = free_address();
    let mut hub = Hub::new();
    hub.raise(&Hub::silent("db1", "x"));
    hub.start(&mail(format!("plain://{address}"), &["ann@b.example"]));
    let error = hub.wait_failed_try();
    assert!(error.contains("refused"), "{error}");
    let sink = Sink::at(address, Kind::Smtp(None));
    sink.next();
    let sent = hub.wait_sent("open");
    assert!(sent.tries > 1 && sent.last_error.is_none(), "{sent:?}");
    drop(hub);
    sink.assert_no_more();
}

#[test]
fn a_restart_neither_loses_nor_repeats_a_mail() {
    let address = free_address();
    let mut hub = Hub::new();
    let settings = mail(format!("plain://{address}"), &["ann@b.example"]);
    hub.raise(&Hub::silent("db1", "x"));
    hub.start(&settings);
    hub.wait_failed_try();
    hub.stop();
    let sink = Sink::at(address, Kind::Smtp(None));
    hub.start(&settings);
    let first = sink.next();
    hub.wait_sent("open");
    hub.stop();
    hub.start(&settings);
    hub.close_all();
    let second = sink.next();
    assert!(second.text.contains("RESOLVED db1"), "{second:?}");
    hub.wait_sent("closed");
    drop(hub);
    sink.assert_no_more();
    assert_ne!(header(&first, "Message-ID: "), header(&second, "Message-ID: "));
}

#[test]
fn a_recipient_that_is_refused_does_not_keep_the_mail_from_others() {
    let sink = Sink::start(Kind::Choosy);
    let mut hub = Hub::new();
    hub.raise(&Hub::silent("db1", "x"));
    let server = format!("plain://{}", sink.address);
    hub.start(&mail(server, &["none@b.example", "ann@b.example"]));
    let mail = sink.next();
    assert_eq!(mail.envelope[1], "TO:<ann@b.example>");
    let both = |hub: &Hub| hub.alert().deliveries.into_iter().find(|it| it.last_error.is_some());
    hub.wait("both", |_| both(&hub).is_some());
    let refused = both(&hub).unwrap();
    assert_eq!(
        (refused.channel.as_str(), refused.state.as_str()),
        ("mail:none@b.example", "pending")
    );
    assert!(refused.last_error.unwrap().contains("no such mailbox"));
}

#[test]
fn a_certificate_that_is_wrong_gets_neither_password_nor_mail() {
    let (good, other) = (Certificates::new(&["localhost"]), Certificates::new(&["a.example"]));
    let directory = tempfile::tempdir().unwrap();
    for (kind, scheme, ca, expected) in [
        (Kind::StartTls(good.acceptor.clone()), "starttls", other.ca(), "authority is not known"),
        (Kind::Smtp(Some(good.acceptor.clone())), "tls", other.ca(), "authority is not known"),
        (Kind::Smtp(Some(other.acceptor.clone())), "tls", other.ca(), "for another name"),
        (Kind::Smtp(None), "starttls", good.ca(), "STARTTLS"),
    ] {
        let sink = Sink::start(kind);
        let mut hub = Hub::new();
        let server = format!("{scheme}://localhost:{}", sink.address.port());
        let mut settings = mail(server, &["ann@b.example"]);
        settings.mail_user = Some("ann".to_owned());
        settings.mail_password_file = Some(file(directory.path(), "password", "right"));
        settings.alert_ca = Some(ca);
        hub.raise(&Hub::silent("db1", "x"));
        hub.start(&settings);
        let error = hub.wait_failed_try();
        assert!(error.contains(expected), "{scheme}: {error}");
        drop(hub);
        sink.assert_no_more();
    }
}

#[test]
fn a_wrong_password_is_an_error_that_does_not_show_it() {
    let certificates = Certificates::new(&["localhost"]);
    let sink = Sink::start(Kind::Smtp(Some(certificates.acceptor.clone())));
    let mut hub = Hub::new();
    let mut settings = mail(format!("tls://localhost:{}", sink.address.port()), &["a@b.example"]);
    settings.mail_user = Some("ann".to_owned());
    settings.mail_password_file = Some(file(hub.directory.path(), "password", "hidden"));
    settings.alert_ca = Some(certificates.ca());
    hub.raise(&Hub::silent("db1", "x"));
    hub.start(&settings);
    let error = hub.wait_failed_try();
    assert!(error.contains("wrong") && !error.contains("hidden"), "{error}");
}

#[test]
fn a_text_of_others_is_only_text() {
    let sink = Sink::start(Kind::Smtp(None));
    let mut hub = Hub::new();
    let hostile = "x\r\nBcc: evil@c.example\r\n\r\n.\r\nMAIL FROM:<evil@c.example>\r\n";
    hub.raise(&Hub::silent("db1", hostile));
    hub.start(&mail(format!("plain://{}", sink.address), &["ann@b.example"]));
    let mail = sink.next();
    assert_eq!(mail.envelope, ["FROM:<hub@a.example>", "TO:<ann@b.example>"]);
    let names: Vec<&str> =
        headers(&mail).iter().map(|line| line.split(':').next().unwrap()).collect();
    assert!(!names.contains(&"Bcc"), "{mail:?}");
    hub.wait_sent("open");
    drop(hub);
    sink.assert_no_more();
    // A server's name cannot have such characters at all.
    assert!("db1\r\nBcc: evil@c.example".parse::<tacho_ship::protocol::Origin>().is_err());
}
