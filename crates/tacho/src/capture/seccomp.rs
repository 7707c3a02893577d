//! System calls that a capture never makes once its sockets are open, and which the kernel refuses
//! from then on: code that takes over the decoder cannot execute a program, look into other
//! processes, or change the system.
//!
//! This is a list of refused calls, and not of permitted ones: the recorder, the C library and a
//! name lookup make many calls, and another version of them others. The list is shorter, and a
//! mistake in it stops no recording. `tacho-capture.service` also has a list of permitted ones.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{BackendError, BpfProgram, Error, SeccompAction, SeccompFilter};

/// Other programs, and other processes.
const PROCESSES: [c_long; 7] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
];

/// Users, name spaces, file systems.
const PLACES: [c_long; 24] = [
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
];

/// The kernel: its modules, its clock, and its interfaces with the longest lists of errors.
const KERNEL: [c_long; 16] = [
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
];

/// Refuses them to this thread and to those that it starts. `uses_bpf`: it reads maps of programs
/// that it has loaded before.
///
/// # Errors
/// The kernel has no such filters, or another one forbids it.
pub fn refuse(uses_bpf: bool) -> Result<(), Error> {
    seccompiler::apply_filter(&filter(uses_bpf)?)
}

fn filter(uses_bpf: bool) -> Result<BpfProgram, BackendError> {
    /// Calls of the x32 ABI have this bit, and reach the same functions of a kernel that has it.
    const X32: c_long = 0x4000_0000;
    let bpf = (!uses_bpf).then_some(libc::SYS_bpf);
    let numbers = PROCESSES.into_iter().chain(PLACES).chain(KERNEL).chain(bpf);
    let rules = numbers.flat_map(|it| [it, it | X32]).map(|it| (it, Vec::new()));
    let rules = rules.collect::<BTreeMap<_, _>>();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::process::Command;
    use std::thread;

    use super::*;

    #[test]
    fn programs_cannot_be_executed_and_files_can_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        // A filter stays as long as its thread.
        let inside = thread::spawn(move || {
            refuse(false).expect("a filter");
            let error = Command::new("/bin/true").status().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            fs::write(&file, "text").expect("a file");
            // SAFETY: the call fails before it reads its arguments.
            let rc = unsafe { libc::syscall(libc::SYS_bpf, 0, 0, 0) };
            assert_eq!(
                (rc, std::io::Error::last_os_error().raw_os_error()),
                (-1, Some(libc::EPERM))
            );
            thread::spawn(move || fs::read_to_string(&file)).join().unwrap().expect("its text")
        });
        assert_eq!(inside.join().unwrap(), "text");
        assert!(Command::new("/bin/true").status().unwrap().success(), "other threads may");
    }

    #[test]
    fn a_capture_of_encrypted_sessions_keeps_its_maps() {
        let lengths = [false, true].map(|uses_bpf| filter(uses_bpf).unwrap().len());
        assert!(lengths[0] > lengths[1], "{lengths:?}");
    }
}
