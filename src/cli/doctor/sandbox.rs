//! `twostep doctor sandbox`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::cli::output;
use sandbox::{Facts, LevelTest};

#[derive(Debug, Args)]
pub(super) struct Sandbox {
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Folder for the test commands
    #[arg(long, value_name = "FOLDER", default_value = "/tmp")]
    pub(super) folder: PathBuf,
}

impl Sandbox {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let facts = Facts::gather(&self.folder).await;
        if self.json {
            output::print_json(&serde_json::to_string(&facts)?);
        } else {
            for line in lines(&facts) {
                output::print_line(&line);
            }
        }
        Ok(if facts.auto.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn lines(facts: &Facts) -> Vec<String> {
    let yes = |holds: bool| if holds { "yes" } else { "no" };
    let bubblewrap = facts.bubblewrap.as_ref().map_or_else(
        || "not installed".to_owned(),
        |found| format!("{} ({})", found.path.display(), found.version),
    );
    let namespaces = facts.max_user_namespaces.map_or("none".to_owned(), |most| most.to_string());
    let abi = match facts.landlock_abi {
        0 => "none".to_owned(),
        abi => format!("ABI {abi}"),
    };
    let mut lines = vec![
        format!("kernel            {}", facts.kernel),
        format!("user              {}", facts.uid),
        format!("Landlock          {abi}"),
        format!("seccomp           {}", yes(facts.has_seccomp)),
        format!("user namespaces   {namespaces}"),
        format!("bubblewrap        {bubblewrap}"),
        format!("limits processes  {}", yes(facts.limits_processes)),
    ];
    for LevelTest { level, unavailable_reason, .. } in &facts.levels {
        let outcome =
            unavailable_reason.as_ref().map_or("works".to_owned(), |why| format!("no: {why}"));
        lines.push(format!("{:<18}{outcome}", format!("level {level}")));
    }
    let auto = facts.auto.map_or("none: Bash is unavailable".to_owned(), |level| level.to_string());
    lines.push(format!("auto              {auto}"));
    lines.extend(facts.advice().into_iter().map(|advice| format!("note: {advice}")));
    lines
}
