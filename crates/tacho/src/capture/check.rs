//! `tacho capture --check`: shows what a capture would record.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use tacho_capture::check::{Check, Findings, Interface, Verdict, try_uprobes};
use tacho_capture::enrich::Answers;
use tacho_capture::live::CaptureError as Live;
use tacho_capture::source::live::{ANY, LiveError};

use super::enrich::EnrichSource;
use super::{CaptureError, live};
use crate::cli::CaptureArgs;
use crate::recover::user::{self, User};
use crate::say::{self, counted};

/// As root, without a log whose owner it could become: the user that owns no file, on every Linux.
const UNPRIVILEGED: User = User { uid: 65_534, gid: 65_534 };

/// What was found, in words.
struct Words {
    /// The verdict, and what to do if no statement would be recorded.
    result: String,
    /// Other facts that a reader should know.
    notes: Vec<String>,
}

/// Listens, and shows what was found. Success: statements would be recorded.
pub fn run(args: &CaptureArgs, interface: &str) -> Result<ExitCode, CaptureError> {
    let facts = Interface::of(interface);
    if facts.is_none() && interface != ANY {
        return Err(Live::from(LiveError::NoInterface(interface.to_owned())).into());
    }
    let source = EnrichSource::of(args)?;
    let ring_bytes = usize::try_from(args.ring_size).unwrap_or(usize::MAX);
    let check = Check {
        interface: interface.to_owned(),
        servers: args.server.clone(),
        ring_bytes,
        budget: args.budget(),
    };
    let mut all = Survey { interface: facts, ..Survey::default() };
    let open = match check.open() {
        Ok(open) => open,
        Err(LiveError::Socket(error)) if error.kind() == ErrorKind::PermissionDenied => {
            show(args, &all)?;
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(Live::from(error).into()),
    };
    // It needs privileges, too.
    all.uprobes = args.tls_uprobes.map(|process| {
        try_uprobes(process, &args.server, ring_bytes)
            .map(|()| process)
            .map_err(|error| error.to_string())
    });
    become_user(args)?;
    let stopped = live::stopped_by_signal()?;
    say::problem(format!("listening on {interface} for {:?}", args.check_time));
    all.findings = Some(open.listen(args.check_time, stopped.as_fd()).map_err(Live::from)?);
    // Its link may have come up meanwhile.
    all.interface = Interface::of(interface).or(all.interface);
    all.asked = source.map(|mut source| source.ask(&[]));
    show(args, &all)?;
    let is_recorded = all.verdict() == Some(Verdict::Recorded);
    Ok(if is_recorded { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Gives up privileges as the capture itself does; with a log, tests whether it could be written.
fn become_user(args: &CaptureArgs) -> Result<(), CaptureError> {
    let Some(log) = &args.log else {
        return live::give_up_privileges(args, user_without_log(args)?);
    };
    let directory = |error| CaptureError::Directory { path: log.clone(), error };
    let log = std::path::absolute(log).map_err(directory)?;
    let new_user = live::user_of(args, &log)?;
    live::give_up_privileges(args, new_user)?;
    // The directory, or the one in which it will be made.
    let place = log.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(place, wanted).map_err(|error| directory(error.into()))?;
    live::check_key(&live::signing_key_file(args, &log))
}

/// The user to become if there is no log.
fn user_without_log(args: &CaptureArgs) -> Result<Option<User>, CaptureError> {
    if args.user.is_none() && !user::is_root() {
        return Ok(None);
    }
    let Some(name) = &args.user else { return Ok(Some(UNPRIVILEGED)) };
    let failed = |error| CaptureError::User { name: name.clone(), error };
    let user = User::named(name).map_err(failed)?;
    if user.uid == 0 {
        return Err(failed(io::Error::other("packets must not be decoded as root")));
    }
    let is_it = user.uid == rustix::process::geteuid().as_raw();
    Ok((!is_it).then_some(user))
}

/// What the server has said, if it was asked.
type Asked = Result<Answers, String>;

/// All that was found.
#[derive(Default)]
struct Survey {
    /// `None`: all of them.
    interface: Option<Interface>,
    /// `None`: the socket could not be opened.
    findings: Option<Findings>,
    /// `None`: the server was not asked.
    asked: Option<Asked>,
    /// The process whose encrypted sessions can be read, or why they cannot. `None`: not wanted.
    uprobes: Option<Result<NonZeroU32, String>>,
}

impl Survey {
    /// `None`: the kernel refuses the packet socket.
    fn verdict(&self) -> Option<Verdict> {
        let verdict = self.findings.as_ref()?.verdict(self.interface.as_ref());
        Some(match (&self.uprobes, verdict) {
            (Some(Err(_)), _) => Verdict::NoUprobes,
            (Some(Ok(_)), Verdict::Encrypted) => Verdict::Recorded,
            (_, verdict) => verdict,
        })
    }
}

fn show(args: &CaptureArgs, all: &Survey) -> Result<(), CaptureError> {
    let Survey { interface, findings, asked, .. } = all;
    let mut words = words(args, all);
    words.notes.extend(asked.iter().flat_map(asked_notes));
    let local_sessions = asked.as_ref().and_then(|it| it.as_ref().ok()).map(|it| it.local_sessions);
    if args.report.is_json() {
        let verdict = all.verdict();
        let found = findings.clone().unwrap_or_default();
        let value = json!({
            "recorded": verdict == Some(Verdict::Recorded),
            "reason": verdict.map_or("no_privileges", Verdict::name),
            "result": words.result,
            "notes": words.notes,
            "interface": interface,
            "packets": found.packets,
            "dropped": found.dropped,
            "damaged": found.damaged,
            "counts": found.counts,
            "servers": found.servers,
            "local_sessions": local_sessions,
        });
        return say::json(&value).map_err(CaptureError::Output);
    }
    let name = args.interface.as_deref().unwrap_or_default();
    let mut lines = vec![format!("interface: {}", described(name, interface.as_ref()))];
    if let Some(found) = findings {
        lines.extend(found_lines(found));
    }
    lines.extend(words.notes.iter().map(|note| format!("note: {note}")));
    lines.push(format!("result: {}", words.result));
    lines.iter().try_for_each(|line| say::result(line)).map_err(CaptureError::Output)
}

fn described(name: &str, interface: Option<&Interface>) -> String {
    let Some(it) = interface else { return format!("{name}, all interfaces of this host") };
    let state = if it.is_up { "up" } else { "down" };
    let mut text = format!("{name} is {state}, {}, MTU {}", it.link, it.mtu);
    if !it.offloads.is_empty() {
        text += &format!(", offloads {}", it.offloads.join(" "));
    }
    text
}

fn found_lines(found: &Findings) -> Vec<String> {
    let counts = &found.counts;
    let mut lines = vec![
        format!(
            "packets: {}, {} dropped by the kernel, {} with a wrong checksum",
            found.packets, found.dropped, found.damaged
        ),
        format!(
            "data: {} from clients, {} from servers",
            counted(counts.from_clients, "segment"),
            counted(counts.from_servers, "segment")
        ),
        format!(
            "connections: {} with data, {} encrypted; {}",
            counts.connections,
            counts.encrypted,
            counted(counts.logins, "login")
        ),
    ];
    for (address, server) in &found.servers {
        let version = match &server.version {
            Some(version) => format!("version {version}"),
            None => "version unknown, because no client connected".to_owned(),
        };
        lines.push(format!(
            "server {address}: {version}; {}, {} encrypted; {}",
            counted(server.connections, "connection"),
            server.encrypted,
            counted(server.statements, "statement")
        ));
    }
    lines.push(format!(
        "commands: {}, and {} without a text",
        counted(counts.statements, "statement"),
        counts.commands
    ));
    lines
}

fn words(args: &CaptureArgs, all: &Survey) -> Words {
    let name = args.interface.as_deref().unwrap_or_default();
    let (Some(found), Some(verdict)) = (&all.findings, all.verdict()) else {
        let result = "no statement would be recorded: the kernel refuses the packet socket; run as \
            root, use tacho-capture.service, or give the program the capability with `setcap \
            cap_net_raw=ep \"$(command -v tacho)\"`";
        return Words { result: result.to_owned(), notes: Vec::new() };
    };
    let mut notes = notes(found, all);
    notes.extend(local_note(&args.server, name, all.interface.as_ref()));
    let time = format!("{:?}", args.check_time);
    let why = match verdict {
        Verdict::Recorded => {
            return Words { result: "statements would be recorded".to_owned(), notes };
        }
        Verdict::Down => format!("{name} is down; `ip link set {name} up`"),
        Verdict::NoPackets => format!(
            "no data of a server passed in {time}; check the interface, the address and the port \
             of the server, and that a client is active"
        ),
        Verdict::OnlyClients => {
            "only packets to servers passed; capture where the answers pass, too, or let the \
             switch mirror both directions"
                .to_owned()
        }
        Verdict::OnlyServers => {
            "only packets from servers passed; capture where the commands pass, too, or let the \
             switch mirror both directions"
                .to_owned()
        }
        Verdict::Encrypted => {
            "all connections are encrypted; use the plugin in the server, --tls-uprobes on its \
             host, or connections without TLS"
                .to_owned()
        }
        Verdict::NoUprobes => {
            let why = all.uprobes.as_ref().and_then(|it| it.as_ref().err());
            format!("--tls-uprobes: {}", why.map_or("", String::as_str))
        }
        Verdict::NotUnderstood => format!(
            "no command was certain in {time}; listen longer with --check-time, and check that \
             the port is one of MySQL or MariaDB"
        ),
        Verdict::NoCommands => format!(
            "clients logged in, but sent no command in {time}; listen longer with --check-time"
        ),
    };
    Words { result: format!("no statement would be recorded: {why}"), notes }
}

/// What the server says about sessions that packets do not show.
fn asked_notes(asked: &Asked) -> Vec<String> {
    match asked {
        Err(problem) => vec![problem.clone()],
        Ok(answers) => {
            let local = (answers.local_sessions > 0).then(|| {
                format!(
                    "the server has {} on its Unix socket, without packets: their statements would \
                     not be recorded",
                    counted(answers.local_sessions, "session")
                )
            });
            local.into_iter().chain(answers.no_texts.clone()).collect()
        }
    }
}

fn notes(found: &Findings, all: &Survey) -> Vec<String> {
    let counts = &found.counts;
    let mut notes = Vec::new();
    if counts.encrypted > 0 && all.verdict() != Some(Verdict::Encrypted) {
        let consequence = match all.uprobes {
            Some(Ok(process)) => {
                format!("statements would be recorded of those of process {process}")
            }
            _ => "their statements would not be recorded".to_owned(),
        };
        notes.push(format!(
            "{} of {} connections are encrypted: {consequence}",
            counts.encrypted, counts.connections
        ));
    }
    if counts.partial_sessions > 0 {
        let user = if all.asked.is_some() {
            "the server would be asked for their users"
        } else {
            "and have no user until the next login"
        };
        notes.push(format!(
            "{} began before: records say `partial`, {user}",
            counted(counts.partial_sessions, "session")
        ));
    }
    if found.dropped > 0 {
        notes.push("the kernel dropped packets: use a larger --ring-size".to_owned());
    }
    if counts.missing_bytes > 0 {
        notes.push(format!(
            "{} were sent and not captured: the interface or the mirror port loses packets",
            counted(counts.missing_bytes, "byte")
        ));
    }
    notes
}

/// The packets of clients on this host pass the loopback interface, whatever the server's address.
fn local_note(servers: &[SocketAddr], name: &str, interface: Option<&Interface>) -> Option<String> {
    if interface?.is_loopback {
        return Some(
            "lo has the packets of clients on this host; the Unix socket has none at all"
                .to_owned(),
        );
    }
    let is_local = |address: &&SocketAddr| {
        !address.ip().is_unspecified() && UdpSocket::bind((address.ip(), 0)).is_ok()
    };
    let local = servers.iter().find(is_local)?;
    Some(format!(
        "{} is an address of this host: clients on this host use lo and not {name}; --interface \
         any captures both",
        local.ip()
    ))
}
