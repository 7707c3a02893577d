//! The bytes of a compiled filter, as a recorder receives them from a server's socket, and a
//! statement: there is an answer, without a panic.
#![no_main]

use tacho_filter::{Begun, CommandSet, Coverage, Ended, Event, Facts, Program, Session, Tables};

libfuzzer_sys::fuzz_target!(|input: (u8, i32, &[u8], &[u8])| {
    let (known, sql_command, text, bytes) = input;
    let program = Program::new(bytes);
    let (first, second) = text.split_at(text.len() / 2);
    let session =
        Session { user: first, host: second, ip: second, db: first, command: b"Query" };
    let reported = &[(first, second)];
    let coverage = [Coverage::Unknown, Coverage::Doubtful, Coverage::Complete];
    let coverage = coverage[usize::from(known >> 4) % coverage.len()];
    let ended = Ended {
        sql_command: (known & 1 != 0).then_some(sql_command),
        errno: u32::from(known),
        tables: (known & 2 != 0).then_some(Tables { reported, coverage }),
    };
    let event = if known & 4 != 0 { Event::Statement } else { Event::Table };
    let ended = (known & 8 != 0).then_some(ended);
    let _ = program.decide(&Facts { session: Some(session), event, ended }).action();
    let _ = program.decide(&Facts { session: None, event, ended }).action();
    let table = Some((first, second));
    let _ = program.blocks(&Begun { session, sql_command, table });
    let _ = program.may_block(&session).has(sql_command);
    let _ = program.may_leave_out(&CommandSet::default());
});
