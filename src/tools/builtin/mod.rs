//! The tools that ship with the service.

#[cfg(test)]
mod against_rg;
pub mod bash;
mod exit_plan_mode;
mod get_current_user;
mod get_temperature;
mod get_time;
mod get_weather;
mod glob;
mod grep;
mod list_files;
mod read_file;
mod search_records;
mod sequential_thinking;
#[cfg(test)]
mod tests;
mod todo_write;
mod weather;
mod write_file;

use std::sync::Arc;

use super::{Tool, ToolError, Typed};
pub use search_records::Records;
pub use weather::{BadOpenMeteo, OpenMeteo};

/// What tools need of the outside. A tool that lacks what it needs is not there.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bash, if there is a sandbox for it.
    pub bash: Option<bash::Bash>,
    /// Who tells the weather.
    pub weather: Option<Arc<OpenMeteo>>,
    /// The table that is searched for records.
    pub records: Option<Arc<Records>>,
}

/// All of them that the options allow, in the order in which the model sees them.
pub fn all(options: &Options) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(Typed(read_file::ReadFile)),
        Arc::new(Typed(write_file::WriteFile)),
        Arc::new(Typed(list_files::ListFiles)),
        Arc::new(Typed(get_time::GetTime)),
        Arc::new(Typed(glob::Glob)),
        Arc::new(Typed(grep::Grep)),
        Arc::new(Typed(todo_write::TodoWrite)),
        Arc::new(Typed(exit_plan_mode::ExitPlanMode)),
        Arc::new(Typed(sequential_thinking::SequentialThinking)),
        Arc::new(Typed(get_current_user::GetCurrentUser)),
    ];
    if let Some(bash) = &options.bash {
        tools.push(Arc::new(Typed(bash.clone())));
    }
    if let Some(weather) = &options.weather {
        tools.push(Arc::new(Typed(get_weather::GetWeather(Arc::clone(weather)))));
        tools.push(Arc::new(Typed(get_temperature::GetTemperature(Arc::clone(weather)))));
    }
    if let Some(records) = &options.records {
        tools.push(Arc::new(Typed(search_records::SearchRecords(Arc::clone(records)))));
    }
    tools
}

/// Runs file work where it may block.
pub(in crate::tools) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ToolError::Failed("the file work stopped".to_owned())))
}
