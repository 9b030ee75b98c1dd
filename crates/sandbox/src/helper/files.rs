//! The Landlock rules: the files that a command can access.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};

use super::{Level, Parameters};

/// The folders with the programs of the machine.
pub(super) const SYSTEM: [&str; 7] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// The files of `/etc` that programs need.
pub(super) const ETC: [&str; 9] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];
/// Devices and files without access to other processes.
const READABLE: [&str; 4] = ["/dev/random", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo"];
const WRITABLE: [&str; 3] = ["/dev/full", "/dev/null", "/dev/zero"];
/// The version of Landlock that the basic level needs: it restricts signals and abstract sockets
/// (Linux 6.12).
const NEEDED: ABI = ABI::V6;

/// Restricts this process and its descendants.
pub(super) fn restrict(parameters: &Parameters) -> Result<(), String> {
    // With bubblewrap the rules of an older kernel are enough, because the namespaces cover the
    // rest.
    let compatibility = match parameters.level {
        Level::Full => CompatLevel::BestEffort,
        Level::Basic => CompatLevel::HardRequirement,
    };
    let ruleset = ruleset(compatibility).map_err(|error| format!("Landlock: {error}"))?;
    let restricted = rules(ruleset, parameters)
        .and_then(RulesetCreated::restrict_self)
        .map_err(|error| format!("Landlock: {error}"))?;
    if restricted.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock is not there".to_owned());
    }
    Ok(())
}

fn ruleset(compatibility: CompatLevel) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(compatibility)
        .handle_access(AccessFs::from_all(NEEDED))?
        .scope(Scope::from_all(NEEDED))?
        .create()
}

fn rules(ruleset: RulesetCreated, parameters: &Parameters) -> Result<RulesetCreated, RulesetError> {
    let ruleset = match parameters.level {
        // All files belong to the sandbox.
        Level::Full => ruleset
            .add_rules(path_beneath_rules(["/"], AccessFs::from_read(NEEDED)))?
            .add_rules(path_beneath_rules(["/dev"], AccessFs::from_all(NEEDED)))?,
        Level::Basic => ruleset
            .add_rules(path_beneath_rules(SYSTEM, AccessFs::from_read(NEEDED)))?
            .add_rules(path_beneath_rules(ETC, AccessFs::ReadFile | AccessFs::ReadDir))?
            .add_rules(path_beneath_rules(READABLE, AccessFs::ReadFile))?
            .add_rules(path_beneath_rules(WRITABLE, AccessFs::ReadFile | AccessFs::WriteFile))?,
    };
    let own = [parameters.workspace(), parameters.temporary()];
    ruleset.add_rules(path_beneath_rules(own, own_rights()))
}

/// All rights except the creation of devices, which no ordinary command needs.
fn own_rights() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEEDED) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

/// Returns the newest version of Landlock that the kernel supports, up to the one in use; 0 without
/// Landlock. It uses the system call, because securityfs is often not mounted.
pub(crate) fn abi() -> u8 {
    let known = [ABI::V1, ABI::V2, ABI::V3, ABI::V4, ABI::V5, ABI::V6];
    let known = known.into_iter().take_while(|abi| all_of(*abi).is_ok()).count();
    u8::try_from(known).unwrap_or(u8::MAX)
}

fn all_of(abi: ABI) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    // An empty set is an error.
    let (ports, scopes) = (AccessNet::from_all(abi), Scope::from_all(abi));
    if !ports.is_empty() {
        ruleset = ruleset.handle_access(ports)?;
    }
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    ruleset.create()
}
