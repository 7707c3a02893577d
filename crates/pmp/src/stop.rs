//! Stops one thread for as long as it takes to copy its registers and the top of its stack.
//!
//! No thread stays stopped, however this ends. A thread is traced for one copy and then released.
//! If a tracer dies, the kernel releases its threads: tracing began with `PTRACE_SEIZE`, which
//! sends no signal, so there is nothing to undo. The same holds for a single tracer thread that
//! ends, which is how a stop that does not happen is given up: only a stopped thread can be
//! released by request.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::memory::Stack;
use crate::task::Tid;
use crate::unwind::Registers;

/// A thread that does not stop within this time waits for the disk or for a CPU. Detecting that may
/// take twice as long.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);

/// Ends our own wait for a stop that does not happen. Its handler does nothing.
const WAKE_SIGNAL: Signal = Signal::SIGALRM;

/// The state of a stopped thread.
#[derive(Debug)]
pub struct Snapshot {
    /// All registers.
    pub registers: Registers,
    /// The top of its stack.
    pub stack: Stack,
    /// System call in which it was, and would have waited, with its second argument.
    pub waited_in: Option<(i64, u64)>,
    /// System call in which it was, or from which it returned; negative: none.
    pub call: i64,
    /// Whether it slept in that call: the stop woke it.
    pub is_asleep: bool,
    /// From the moment it was observed as stopped until it was released.
    pub held: Duration,
    /// From the request until it was released. For a part of this time it runs, or waits for a CPU,
    /// so this is an upper bound of the pause.
    pub held_max: Duration,
}

/// Why there is no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopError {
    /// The thread has ended.
    Gone,
    /// It did not stop in time, and was not held.
    NotInTime,
    /// The kernel rejected the request.
    Refused(Errno),
}

/// Stops these threads of `pid`, one after the other, each for as long as copying `bytes` of the
/// stack takes.
pub fn snapshots(pid: Tid, wanted: &[(Tid, usize)]) -> Vec<Result<Snapshot, StopError>> {
    let mut results = Vec::with_capacity(wanted.len());
    while results.len() < wanted.len() {
        results.extend(snapshots_of_one_tracer(pid, &wanted[results.len()..]));
    }
    results
}

/// Takes snapshots until a stop does not happen. For the kernel, the tracer is the thread, not the
/// process: then this thread ends, and the thread that should have stopped is free.
fn snapshots_of_one_tracer(pid: Tid, wanted: &[(Tid, usize)]) -> Vec<Result<Snapshot, StopError>> {
    let done = AtomicU64::new(0);
    let tracer_thread = AtomicU64::new(0);
    let is_finished = AtomicBool::new(false);
    let watcher = thread::current();
    thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            // SAFETY: the call has no conditions.
            let own = unsafe { libc::pthread_self() };
            // SYNC tracer: pairs with the load in the loop below.
            tracer_thread.store(own, Ordering::Release);
            hurry();
            let mut some = Vec::new();
            for (tid, bytes) in wanted {
                let result = snapshot(pid, *tid, *bytes);
                let give_up = matches!(result, Err(StopError::NotInTime));
                some.push(result);
                done.fetch_add(1, Ordering::Relaxed);
                if give_up {
                    break;
                }
            }
            // SYNC finished: pairs with the load in the loop below.
            is_finished.store(true, Ordering::Release);
            watcher.unpark();
            some
        });
        let mut done_before = None;
        // SYNC finished
        while !is_finished.load(Ordering::Acquire) {
            thread::park_timeout(STOP_TIMEOUT);
            let now = Some(done.load(Ordering::Relaxed));
            // SYNC tracer
            let thread = tracer_thread.load(Ordering::Acquire);
            if now == done_before && thread != 0 {
                wake(thread);
            }
            done_before = now;
        }
        match tracer.join() {
            Ok(some) => some,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Makes one of our threads return from a system call in which it waits.
fn wake(thread: libc::pthread_t) {
    static HANDLER: Once = Once::new();
    extern "C" fn nothing(_: libc::c_int) {}
    HANDLER.call_once(|| {
        // Without SA_RESTART: the interrupted call must end.
        let action =
            SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler does nothing, so it may run at any moment.
        let installed = unsafe { sigaction(WAKE_SIGNAL, &action) };
        // Only fails for signals that cannot be handled; without a handler, the signal would end
        // this process.
        assert!(installed.is_ok(), "no handler for {WAKE_SIGNAL}");
    });
    // SAFETY: the thread has not been joined: its number is valid, also if it has just ended.
    unsafe { libc::pthread_kill(thread, WAKE_SIGNAL as libc::c_int) };
}

/// Makes this thread run whenever it can: while it waits for a CPU, a stopped thread of the server
/// waits with it. Needs CAP_SYS_NICE; without it, stops take longer on a busy machine, which the
/// results show.
fn hurry() {
    let first_in_line = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the structure lives across the call; 0 means the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const first_in_line) };
}

/// A thread that is traced and stopped. It is released on drop.
struct Stopped {
    tid: Pid,
    /// Number of a signal that was about to be delivered and must not be lost; 0: none.
    signal: libc::c_int,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // `nix` has no real-time signals. It only fails if the thread was killed meanwhile.
        // SAFETY: this request takes numbers and touches no memory of this process.
        unsafe {
            libc::ptrace(libc::PTRACE_DETACH, self.tid.as_raw(), 0, libc::c_long::from(self.signal))
        };
    }
}

fn snapshot(pid: Tid, tid: Tid, bytes: usize) -> Result<Snapshot, StopError> {
    let tid = Pid::from_raw(tid);
    ptrace::seize(tid, Options::empty()).map_err(refused)?;
    let asked = Instant::now();
    ptrace::interrupt(tid).map_err(refused)?;
    let stopped = wait_for_stop(tid)?;
    let seen = Instant::now();
    let registers = ptrace::getregs(tid).map_err(refused)?;
    let stack = Stack::copied(pid, registers.rsp, bytes);
    drop(stopped);
    let released = Instant::now();
    let stack = stack.map_err(|_| StopError::Gone)?;
    Ok(Snapshot {
        waited_in: waited_in(&registers),
        call: registers.orig_rax as i64,
        is_asleep: is_asleep(&registers),
        registers: in_dwarf_order(&registers),
        stack,
        held: released - seen,
        held_max: released - asked,
    })
}

fn refused(errno: Errno) -> StopError {
    if errno == Errno::ESRCH { StopError::Gone } else { StopError::Refused(errno) }
}

/// Waits until it is stopped, without consuming the event (`WNOWAIT`): an event that a tracer has
/// consumed is lost if the tracer dies then, and with it the signal that was about to be delivered.
fn wait_for_stop(tid: Pid) -> Result<Stopped, StopError> {
    // SAFETY: all bytes zero is a value of this structure of numbers.
    let mut news: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let id = tid.as_raw() as libc::id_t;
    let wanted = libc::WSTOPPED | libc::WEXITED | libc::__WALL | libc::WNOWAIT;
    // SAFETY: the structure lives across the call.
    let result = unsafe { libc::waitid(libc::P_PID, id, &raw mut news, wanted) };
    match Errno::result(result) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Err(StopError::NotInTime),
        Err(Errno::ECHILD) => return Err(StopError::Gone),
        Err(errno) => return Err(StopError::Refused(errno)),
    }
    if matches!(news.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) {
        // Only this thread can consume that event, and must. It cannot fail: the event exists.
        let _ = waitpid(tid, Some(WaitPidFlag::__WALL));
        return Err(StopError::Gone);
    }
    // SAFETY: events of this kind set the field.
    let status = unsafe { news.si_status() };
    // Our own stop is an event, in the second byte. There may be one for the delivery of a signal
    // instead; it serves as well.
    let is_event = status >> 8 != 0;
    Ok(Stopped { tid, signal: if is_event { 0 } else { status & 0xff } })
}

/// The kernel's codes for "start this call again", which user space never sees.
const RESTART_CODES: [i64; 4] = [-512, -513, -514, -516];

/// Whether the stop interrupted a wait in a system call.
fn is_asleep(registers: &libc::user_regs_struct) -> bool {
    registers.orig_rax as i64 >= 0 && RESTART_CODES.contains(&(registers.rax as i64))
}

fn waited_in(registers: &libc::user_regs_struct) -> Option<(i64, u64)> {
    let call = registers.orig_rax as i64;
    let argument = registers.rsi;
    // Woken, but not yet back: on a busy machine that is most of a wait for a lock.
    let command = argument as i32 & libc::FUTEX_CMD_MASK;
    let woken = call == libc::SYS_futex
        && matches!(command, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI);
    (call >= 0 && (woken || is_asleep(registers))).then_some((call, argument))
}

fn in_dwarf_order(registers: &libc::user_regs_struct) -> Registers {
    Registers(
        [
            registers.rax,
            registers.rdx,
            registers.rcx,
            registers.rbx,
            registers.rsi,
            registers.rdi,
            registers.rbp,
            registers.rsp,
            registers.r8,
            registers.r9,
            registers.r10,
            registers.r11,
            registers.r12,
            registers.r13,
            registers.r14,
            registers.r15,
            registers.rip,
        ]
        .map(Some),
    )
}
