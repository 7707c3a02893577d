//! Compares every zone of the system's time zone database, around each of its transitions, with an
//! independent reader of the same database (Python's zoneinfo).

use std::collections::BTreeSet;
use std::process::Command;

use tacho_record::time::TimeFormatter;

/// Parses an RFC 3339 time: µs since 1970-01-01 UTC, and the printed offset in minutes. Days are
/// counted year by year, unlike in the code under test.
fn parse(text: &str) -> (i64, i64) {
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().expect("digits");
    for (at, expected) in
        [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":"), (19, "."), (29, ":")]
    {
        assert_eq!(&text[at..=at], expected, "{text}");
    }
    assert_eq!(text.len(), 32, "{text}");
    assert_ne!(&text[26..], "-00:00", "{text}");
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if is_leap { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = months.iter().take(usize::try_from(month - 1).expect("a month")).sum::<i64>();
    let days = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969) + before + day - 1;
    let seconds = ((days * 24 + number(11, 13)) * 60 + number(14, 16)) * 60 + number(17, 19);
    let sign = match &text[26..27] {
        "+" => 1,
        "-" => -1,
        other => panic!("no sign but {other:?} in {text}"),
    };
    let offset_minutes = sign * (number(27, 29) * 60 + number(30, 32));
    ((seconds - offset_minutes * 60) * 1_000_000 + number(20, 26), offset_minutes)
}

#[test]
fn every_zone_is_right_around_every_transition() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zone_transitions.py");
    let output = Command::new("python3").arg(script).output().expect("python3 is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("text");

    let mut zones = BTreeSet::new();
    let mut instants = 0;
    let mut formatter = TimeFormatter::utc();
    for line in lines.lines() {
        let [zone, time_us, offset_s] =
            line.split(' ').collect::<Vec<_>>().try_into().expect("three columns");
        if zones.insert(zone) {
            formatter = TimeFormatter::named(zone).expect(zone);
        }
        let time_us: i64 = time_us.parse().expect("a number");
        let offset_s: i64 = offset_s.parse().expect("a number");
        let text = String::from_utf8(formatter.format(time_us).to_vec()).expect("ASCII");
        let (read_us, offset_minutes) = parse(&text);
        assert_eq!(read_us, time_us, "{zone} {text}");
        let rounding_s = offset_minutes * 60 - offset_s;
        assert!((-29..=30).contains(&rounding_s), "{zone} {text}, but the offset is {offset_s} s");
        instants += 1;
    }
    // Debian's tzdata has about 600 names; a database that lost most of them proves nothing.
    assert!(zones.len() > 400, "only {} zones", zones.len());
    assert!(instants > 50_000, "only {instants} instants");
    let described = String::from_utf8(output.stderr).expect("text");
    assert_eq!(described.trim(), format!("{} zones", zones.len()));
}

/// The zone of the process is given by `TZ`, otherwise by /etc/localtime. Each case is a child
/// process, because a process has one environment.
#[test]
fn the_zone_of_the_process_is_used() {
    if let Ok(expected) = std::env::var("ZONES_TEST_EXPECTED") {
        let mut formatter = TimeFormatter::system().expect("a zone");
        let text = String::from_utf8(formatter.format(1_784_592_000_000_000).to_vec());
        assert_eq!(text.expect("ASCII"), expected);
        return;
    }
    for (zone, expected) in [
        ("Europe/Berlin", "2026-07-21T02:00:00.000000+02:00"),
        (":America/St_Johns", "2026-07-20T21:30:00.000000-02:30"),
        ("/usr/share/zoneinfo/Asia/Kathmandu", "2026-07-21T05:45:00.000000+05:45"),
        ("EST5EDT,M3.2.0,M11.1.0", "2026-07-20T20:00:00.000000-04:00"),
        ("", "2026-07-21T00:00:00.000000+00:00"),
    ] {
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "the_zone_of_the_process_is_used"])
            .env("TZ", zone)
            .env("ZONES_TEST_EXPECTED", expected)
            .output()
            .expect("this test again");
        let report = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && report.contains("1 passed"), "{zone}: {report}");
    }
}
