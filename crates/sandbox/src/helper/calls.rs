//! The seccomp filter: refuses system calls that rules for files and namespaces do not cover.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::Level;

/// Refused at both levels: access to other processes, mounts, namespaces, keys, the kernel itself,
/// and calls that circumvent the rules below.
const REFUSED: &[c_long] = &[
    // other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // mounts and roots
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // namespaces
    libc::SYS_unshare,
    libc::SYS_setns,
    // keys, and subsystems with many kernel vulnerabilities
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // the machine
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Refused at the basic level, which shares the network and shared memory with the machine.
const REFUSED_BASIC: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Restricted at the basic level, which can name the processes of the service: calls that act on
/// any process of the same user, with the index of the argument that must be 0, the caller.
const SELF_ONLY_BASIC: &[(c_long, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// The value of the first argument with which some of these calls act on all processes of the user
/// if the second is 0: `PRIO_USER` and `IOPRIO_WHO_USER`.
const WHOLE_USER_BASIC: &[(c_long, i32)] = &[(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// The types of namespaces that `clone` can create.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// The socket families that a network namespace isolates. Other families, such as vsock, bypass it.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The bit that marks x32 system calls, and the numbers that only x32 has.
#[cfg(target_arch = "x86_64")]
const X32: (c_long, std::ops::RangeInclusive<c_long>) = (0x4000_0000, 512..=547);

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Restricts this process and its descendants.
pub(super) fn restrict(level: Level) -> Result<(), String> {
    let failed = |error: seccompiler::Error| format!("seccomp: {error}");
    // A filter cannot read the arguments of `clone3`, which are in memory. C libraries fall back to
    // `clone`.
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    apply_filter(&program(clone3, libc::ENOSYS).map_err(failed)?).map_err(failed)?;
    let refused = refused(level).map_err(|error| failed(error.into()))?;
    apply_filter(&program(refused, libc::EPERM).map_err(failed)?).map_err(failed)
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::Error> {
    let arch = std::env::consts::ARCH.try_into()?;
    let errno = SeccompAction::Errno(errno.unsigned_abs());
    // The filter itself kills a process of another processor architecture.
    let filter = SeccompFilter::new(in_both_sets(rules), SeccompAction::Allow, errno, arch)?;
    Ok(filter.try_into()?)
}

#[cfg(target_arch = "x86_64")]
fn in_both_sets(mut rules: Rules) -> Rules {
    let (bit, only_there) = X32;
    let again: Rules = rules.iter().map(|(call, when)| (call | bit, when.clone())).collect();
    rules.extend(again);
    rules.extend(only_there.map(|call| (call | bit, Vec::new())));
    rules
}

#[cfg(not(target_arch = "x86_64"))]
fn in_both_sets(rules: Rules) -> Rules {
    rules
}

fn refused(level: Level) -> Result<Rules, seccompiler::BackendError> {
    // No condition: always refused.
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, all_of(&NAMESPACES, |kind| vec![has(0, kind)])?);
    // Writing input to another terminal.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX];
    let typing = typing.map(|request| i32::try_from(request).unwrap_or_default());
    rules.insert(libc::SYS_ioctl, all_of(&typing, |request| vec![is(1, request)])?);
    match level {
        Level::Full => {
            let unknown = FAMILIES.map(|family| is_not(0, family)).into();
            // The routing tables belong to the namespace; the other protocols are not isolated.
            let netlink = vec![is(0, libc::AF_NETLINK), is_not(2, libc::NETLINK_ROUTE)];
            rules.insert(libc::SYS_socket, vec![rule(unknown)?, rule(netlink)?]);
        }
        Level::Basic => {
            rules.extend(REFUSED_BASIC.iter().map(|call| (*call, Vec::new())));
            for (call, who) in SELF_ONLY_BASIC {
                rules.insert(*call, vec![rule(vec![is_not(*who, 0)])?]);
            }
            for (call, kind) in WHOLE_USER_BASIC {
                rules.entry(*call).or_default().push(rule(vec![is(0, *kind)])?);
            }
            // An unconnected socket of a pair can connect to any socket with a path.
            let loose = [libc::SOCK_DGRAM, libc::SOCK_RAW];
            rules.insert(libc::SYS_socketpair, all_of(&loose, |kind| vec![is_kind(1, kind)])?);
        }
    }
    Ok(rules)
}

type Condition = Result<SeccompCondition, seccompiler::BackendError>;

/// Returns one rule for each of these values. One matching rule is enough.
fn all_of(
    values: &[i32],
    conditions: impl Fn(i32) -> Vec<Condition>,
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    values.iter().map(|value| rule(conditions(*value))).collect()
}

/// Returns a rule that matches when all conditions hold.
fn rule(conditions: Vec<Condition>) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

fn is(argument: u8, value: i32) -> Condition {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: i32) -> Condition {
    condition(argument, SeccompCmpOp::Ne, value)
}

fn has(argument: u8, bit: i32) -> Condition {
    condition(argument, SeccompCmpOp::MaskedEq(u64::from(bit.cast_unsigned())), bit)
}

/// A condition on the type of a socket, regardless of its flags.
fn is_kind(argument: u8, kind: i32) -> Condition {
    condition(argument, SeccompCmpOp::MaskedEq(0xf), kind)
}

/// A condition on the lower 32 bits of an argument, which is what the kernel uses.
fn condition(argument: u8, operator: SeccompCmpOp, value: i32) -> Condition {
    let value = u64::from(value.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_both_levels_compile() {
        for level in [Level::Full, Level::Basic] {
            let program = program(refused(level).unwrap(), libc::EPERM).unwrap();
            assert!(program.len() > REFUSED.len(), "{level}");
        }
    }
}
