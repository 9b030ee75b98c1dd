//! The confinement of the process that reads a document.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetError, Scope,
};
use libc::c_long;
use rustix::process::{
    Resource, Rlimit, Signal, getpid, getrlimit, set_parent_process_death_signal, setrlimit, setsid,
};
use rustix::thread::set_no_new_privs;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};

use super::{MEMORY, SECONDS};
use sandbox::drop_capabilities;

/// The allowed system calls: reading and writing open files, memory, time, random bytes, and exit.
const ALLOWED: [c_long; 19] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];
/// Calls that are allowed for memory without execute permission, with the index of the argument
/// for the permissions.
const MEMORY_CALLS: [(c_long, u8); 2] = [(libc::SYS_mmap, 2), (libc::SYS_mprotect, 2)];

/// The newest version of Landlock in use. Older kernels enforce what they support.
const NEWEST: ABI = ABI::V6;

/// Limits memory and CPU time, and closes inherited descriptors at the next `exec`.
pub(super) fn limit() -> Result<(), String> {
    close_fds::set_fds_cloexec(3, &[]);
    // Detaches from the service's terminal, if there is one.
    let _ = setsid();
    set(&[
        (Resource::Data, MEMORY),
        // Reserved memory and the program itself count here.
        (Resource::As, 4 * MEMORY),
        (Resource::Cpu, SECONDS),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Memlock, 0),
    ])
}

/// Drops access to everything except stdin, stdout and stderr. Landlock and seccomp apply if the
/// kernel supports them: the parser is safe code, so they are the second layer of protection.
pub(super) fn drop_access() -> Result<(), String> {
    drop_capabilities()?;
    set_no_new_privs(true).map_err(|error| format!("no_new_privs cannot be set: {error}"))?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("the parent death signal cannot be set: {error}"))?;
    set(&[(Resource::Nofile, 3), (Resource::Nproc, 0)])?;
    let _ = deny_files();
    let _ = filter_calls();
    Ok(())
}

fn set(limits: &[(Resource, u64)]) -> Result<(), String> {
    for (resource, most) in limits {
        // A lower hard limit stays: only root can raise it.
        let most = getrlimit(*resource).maximum.map_or(*most, |now| now.min(*most));
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(*resource, limit)
            .map_err(|error| format!("{resource:?} cannot be limited: {error}"))?;
    }
    Ok(())
}

/// Denies all files, ports, and signals to other processes.
fn deny_files() -> Result<(), RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .restrict_self()?;
    Ok(())
}

fn filter_calls() -> Result<(), seccompiler::Error> {
    apply_filter(&allowed()?)
}

/// A rule for the lower 32 bits of an argument, which is what the kernel uses.
fn only(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value)?;
    SeccompRule::new(vec![condition])
}

fn allowed() -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    for (call, argument) in MEMORY_CALLS {
        let code = u64::from(libc::PROT_EXEC.unsigned_abs());
        rules.insert(call, vec![only(argument, SeccompCmpOp::MaskedEq(code), 0)?]);
    }
    // An abort sends a signal to the own process.
    let ourselves = u64::from(getpid().as_raw_nonzero().get().unsigned_abs());
    rules.insert(libc::SYS_tgkill, vec![only(0, SeccompCmpOp::Eq, ourselves)?]);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?;
    Ok(filter.try_into()?)
}
