//! `twostep completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use super::{Cli, output};

const EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  twostep completions bash > ~/.local/share/bash-completion/completions/twostep
  mkdir -p ~/.zfunc
  twostep completions zsh > ~/.zfunc/_twostep
  mkdir -p ~/.config/fish/completions
  twostep completions fish > ~/.config/fish/completions/twostep.fish";

/// The name of the program.
const NAME: &str = "twostep";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Command {
    /// Shell to generate the completions for
    shell: Shell,
}

impl Command {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let all = Cli::command();
        let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown =
            clap::Command::new(NAME).args(all.get_arguments()).subcommands(shown.cloned());
        let mut script = Vec::new();
        generate(self.shell, &mut shown, NAME, &mut script);
        output::print_data(String::from_utf8(script)?.trim_end());
        Ok(())
    }
}
