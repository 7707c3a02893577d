//! Loads the programs and attaches them to the functions of a process.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use aya::maps::{HashMap, Map, MapData, RingBuf};
use aya::programs::uprobe::UProbeScope;
use aya::programs::{RawTracePoint, UProbe};
use aya::{Btf, Ebpf, EbpfLoader};

use crate::counters::Counters;
use crate::library::{Library, tls_libraries};
use crate::{Losses, Piece, UprobeError};

static PROGRAMS: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tls.bpf.o"));

/// A program, the function that it is attached to, and whether every library must have that.
type Probe = (&'static str, &'static str, bool);

const PROBES: [Probe; 9] = [
    ("enter_read", "SSL_read", true),
    ("leave", "SSL_read", true),
    ("enter_write", "SSL_write", true),
    ("leave", "SSL_write", true),
    ("enter_free", "SSL_free", true),
    // Since OpenSSL 1.1.1.
    ("enter_read_ex", "SSL_read_ex", false),
    ("leave", "SSL_read_ex", false),
    ("enter_write_ex", "SSL_write_ex", false),
    ("leave", "SSL_write_ex", false),
];

/// The tracepoint by which a thread's connection is found.
const RECEIVE: (&str, &str) = ("receive", "tcp_rcv_space_adjust");

/// Uprobes of a process. They are removed when this is dropped, or when this process ends.
pub struct Uprobes {
    ring: RingBuf<MapData>,
    counters: Counters,
    process: OwnedFd,
    /// Keeps the programs attached.
    _programs: Ebpf,
}

impl Uprobes {
    /// Attaches to a process, to read its sessions on these ports of its own. `ring_bytes` is the
    /// size of the ring, which is rounded down to a power of two.
    ///
    /// # Errors
    /// See [`UprobeError`].
    pub fn attach(
        pid: NonZeroU32,
        ports: &[u16],
        ring_bytes: usize,
    ) -> Result<Uprobes, UprobeError> {
        let libraries = libraries(pid.get())?;
        let process = open_process(pid.get());
        let process = process.map_err(|error| UprobeError::Process { pid: pid.get(), error })?;
        let mut programs = load(ring_bytes)?;
        let ring = take(&mut programs, "RING", RingBuf::try_from)?;
        let Some(Map::Array(array)) = programs.map("COUNTERS") else {
            return Err(refused("the map COUNTERS", "it is not an array"));
        };
        let counters = Counters::map(array.fd().as_fd());
        let counters = counters.map_err(|error| refused("the counters", error))?;
        let mut wanted = take(&mut programs, "PORTS", HashMap::<_, u16, u8>::try_from)?;
        for port in ports {
            let inserted = wanted.insert(port, 1, 0);
            inserted.map_err(|error| refused("the port of a server", error))?;
        }
        attach_all(&mut programs, pid, &libraries)?;
        Ok(Uprobes { ring, counters, process, _programs: programs })
    }

    /// Passes the next piece to `take`. `false`: there is none now.
    pub fn next(&mut self, take: &mut dyn FnMut(Piece<'_>)) -> bool {
        let Some(item) = self.ring.next() else { return false };
        if let Some(piece) = Piece::read(&item) {
            take(piece);
        }
        true
    }

    /// Pieces that the ring had no space for.
    pub fn losses(&self) -> Losses {
        self.counters.losses()
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        let mut poll =
            libc::pollfd { fd: self.process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry; it does not wait.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }
}

/// Takes a map, as what it is to be.
fn take<T, E: std::fmt::Display>(
    programs: &mut Ebpf,
    name: &str,
    of: impl FnOnce(Map) -> Result<T, E>,
) -> Result<T, UprobeError> {
    let what = format!("the map {name}");
    let map = programs.take_map(name).ok_or_else(|| refused(&what, "it is missing"))?;
    of(map).map_err(|error| refused(&what, error))
}

fn refused(what: &str, why: impl std::fmt::Display) -> UprobeError {
    UprobeError::Kernel { what: what.to_owned(), why: why.to_string() }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        // The verifier's log is long; its first line says what it is.
        let cause_text = cause.to_string();
        text = format!("{text}: {}", cause_text.lines().next().unwrap_or_default());
        next = cause.source();
    }
    text
}

/// A descriptor that becomes readable when the process ends.
fn open_process(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the result is checked.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The files of a process that may have the functions: its TLS libraries, otherwise its program.
fn libraries(pid: u32) -> Result<Vec<Library>, UprobeError> {
    let maps = fs::read(format!("/proc/{pid}/maps"));
    let maps = maps.map_err(|error| UprobeError::Process { pid, error })?;
    let libraries = tls_libraries(pid, &String::from_utf8_lossy(&maps));
    if !libraries.is_empty() {
        return Ok(libraries);
    }
    let path = format!("/proc/{pid}/exe");
    let name = fs::read_link(&path).map(|name| name.display().to_string());
    let name = name.map_err(|error| UprobeError::Process { pid, error })?;
    Ok(vec![Library { path, name }])
}

fn load(ring_bytes: usize) -> Result<Ebpf, UprobeError> {
    let types = Btf::from_sys_fs().map_err(|error| UprobeError::NoTypes(chain(&error)))?;
    let ring_bytes = u32::try_from(ring_bytes).unwrap_or(u32::MAX);
    let ring_bytes = 1 << ring_bytes.max(1 << 12).ilog2();
    let mut loader = EbpfLoader::new();
    loader.btf(Some(&types)).map_max_entries("RING", ring_bytes);
    let mut programs = loader.load(PROGRAMS).map_err(|error| refused("the maps", chain(&error)))?;
    for (name, program) in programs.programs_mut() {
        let loaded = match program {
            aya::programs::Program::UProbe(program) => program.load(),
            aya::programs::Program::RawTracePoint(program) => program.load(),
            _ => continue,
        };
        loaded.map_err(|error| refused(&format!("the program {name}"), chain(&error)))?;
    }
    Ok(programs)
}

fn attach_all(
    programs: &mut Ebpf,
    pid: NonZeroU32,
    libraries: &[Library],
) -> Result<(), UprobeError> {
    let (name, tracepoint) = RECEIVE;
    let program = programs.program_mut(name).and_then(|it| <&mut RawTracePoint>::try_from(it).ok());
    let program = program.ok_or_else(|| refused(name, "it is missing"))?;
    let attached = program.attach(tracepoint);
    attached.map_err(|error| refused(&format!("the tracepoint {tracepoint}"), chain(&error)))?;
    let (scope, pid) = (UProbeScope::OneProcess(pid), pid.get());
    for library in libraries {
        for (name, function, is_needed) in PROBES {
            let program =
                programs.program_mut(name).and_then(|it| <&mut UProbe>::try_from(it).ok());
            let program = program.ok_or_else(|| refused(name, "it is missing"))?;
            match program.attach(function, &library.path, scope) {
                Ok(_) => {}
                Err(error) if is_unknown(&error) && !is_needed => {}
                Err(error) if is_unknown(&error) && library.path.ends_with("/exe") => {
                    return Err(UprobeError::NoLibrary { pid });
                }
                Err(error) => {
                    let (library, why) = (library.name.clone(), chain(&error));
                    return Err(UprobeError::Attach { function, library, pid, why });
                }
            }
        }
    }
    Ok(())
}

/// Whether the file does not have the function.
fn is_unknown(error: &aya::programs::ProgramError) -> bool {
    use aya::programs::ProgramError;
    use aya::programs::uprobe::UProbeError;
    matches!(error, ProgramError::UProbeError(UProbeError::SymbolError { .. }))
}
