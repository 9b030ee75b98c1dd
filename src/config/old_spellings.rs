//! Former names of environment variables, which keep working.
//!
//! The former names of options are hidden aliases of the arguments themselves.

use clap::Command;

use super::environment::variable;

/// A variable that has a new name.
struct RenamedVariable {
    /// The id of the argument.
    id: &'static str,
    new: &'static str,
    old: &'static str,
}

const RENAMED: [RenamedVariable; 5] = [
    RenamedVariable { id: "available_tools", new: "TWOSTEP_AVAILABLE_TOOLS", old: "TWOSTEP_TOOLS" },
    RenamedVariable {
        id: "default_tools",
        new: "TWOSTEP_DEFAULT_TOOLS",
        old: "TWOSTEP_SESSION_TOOLS",
    },
    RenamedVariable {
        id: "permission_rules",
        new: "TWOSTEP_PERMISSION_RULES",
        old: "TWOSTEP_PERMISSIONS",
    },
    RenamedVariable {
        id: "session_workspaces",
        new: "TWOSTEP_SESSION_WORKSPACES",
        old: "TWOSTEP_WORKSPACES",
    },
    RenamedVariable {
        id: "shared_workspace",
        new: "TWOSTEP_SHARED_WORKSPACE",
        old: "TWOSTEP_WORKSPACE",
    },
];

/// Makes a command and its subcommands read the former name of a variable where only that is set.
pub fn accept_old_variables(command: Command) -> Command {
    let mut command = command;
    for RenamedVariable { id, new, old } in RENAMED {
        let has_option = command.get_arguments().any(|arg| arg.get_id() == id);
        if has_option && variable(new).is_none() && variable(old).is_some() {
            command = command.mut_arg(id, |arg| arg.env(old));
        }
    }
    command.mut_subcommands(accept_old_variables)
}
