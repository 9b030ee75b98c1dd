//! The built-in tools.

#[cfg(test)]
mod against_rg;
pub mod bash;
mod courses;
pub(in crate::tools) mod current_file;
pub(in crate::tools) mod edit;
mod exit_plan_mode;
mod get_current_user;
mod get_temperature;
mod get_time;
mod get_weather;
mod glob;
mod grep;
mod list_files;
mod ls;
pub(in crate::tools) mod multi_edit;
mod notebook_edit;
mod paraphrase_query;
mod read;
mod read_file;
mod search_records;
mod sequential_thinking;
mod task;
#[cfg(test)]
mod tests;
mod todo_write;
mod tool_search;
mod weather;
mod web;
mod web_fetch;
mod web_search;
pub(in crate::tools) mod write;
mod write_file;

use std::sync::Arc;

use super::error::ToolError;
use super::pdf;
use super::tool::Tool;
use super::typed::Typed;
pub use search_records::Records;
pub(in crate::tools) use tool_search::ToolSearch;
pub use weather::{BadOpenMeteo, OpenMeteo};
pub use web::Web;
pub use web::search::{BadSearch, Provider as SearchProvider, Search};

/// The external services and settings of the tools. A tool without its service is not registered.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Settings of the file tools.
    pub files: FileOptions,
    /// The reader of PDF files.
    pub documents: pdf::Reader,
    /// The Bash tool, if a sandbox is available.
    pub bash: Option<bash::Bash>,
    /// The weather service.
    pub weather: Option<Arc<OpenMeteo>>,
    /// The table for `search_records`.
    pub records: Option<Arc<Records>>,
    /// The HTTP client for web pages.
    pub web: Option<Arc<Web>>,
    /// The web search service.
    pub search: Option<Arc<Search>>,
}

/// Settings of the file tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches that have nothing to do with each other"
)]
pub struct FileOptions {
    /// If set, Read returns a range of a file again that the model has already read and that has
    /// not changed. Omitting it saves tokens, but relies on the model to find the range in the
    /// conversation.
    pub repeat_reads: bool,
    /// If set, Read and LS add a reminder about malicious files.
    pub reminders: bool,
    /// If set, `write_file` requires that a file was read before it is replaced, as Write does.
    pub read_before_write: bool,
    /// If set, the service uses a simpler tool after an edit timed out.
    pub edit_fallback: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            repeat_reads: true,
            reminders: false,
            read_before_write: false,
            edit_fallback: false,
        }
    }
}

/// Returns the tools that the options enable, in the order in which the model sees them.
pub fn all(options: &Options) -> Vec<Arc<dyn Tool>> {
    let files = options.files;
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(Typed(read_file::ReadFile)),
        Arc::new(Typed(write_file::WriteFile(files))),
        Arc::new(Typed(list_files::ListFiles)),
        Arc::new(Typed(get_time::GetTime)),
        Arc::new(Typed(ls::Ls(files))),
        Arc::new(Typed(read::Read { options: files, documents: options.documents.clone() })),
        Arc::new(Typed(edit::Edit(files))),
        Arc::new(Typed(multi_edit::MultiEdit(files))),
        Arc::new(Typed(write::Write)),
        Arc::new(Typed(notebook_edit::NotebookEdit)),
        Arc::new(Typed(glob::Glob)),
        Arc::new(Typed(grep::Grep)),
        Arc::new(Typed(todo_write::TodoWrite)),
        Arc::new(Typed(exit_plan_mode::ExitPlanMode)),
        Arc::new(Typed(task::StartTask)),
        Arc::new(Typed(sequential_thinking::SequentialThinking)),
        Arc::new(Typed(get_current_user::GetCurrentUser)),
        Arc::new(Typed(paraphrase_query::ParaphraseQuery)),
        Arc::new(Typed(courses::SearchCourseContent)),
        Arc::new(Typed(courses::GetCourseOutline)),
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
    if let Some(web) = &options.web {
        tools.push(Arc::new(Typed(web_fetch::WebFetch(Arc::clone(web)))));
    }
    if let Some(search) = &options.search {
        tools.push(Arc::new(Typed(web_search::WebSearch(Arc::clone(search)))));
        tools.push(Arc::new(Typed(web_search::PlainSearch(Arc::clone(search)))));
    }
    tools
}

/// Escapes control characters in a file name. A line end would make one name look like two.
pub(in crate::tools) fn visible(name: &str) -> String {
    let is_shown = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    let shown = |c: char| {
        if is_shown(c) { c.to_string() } else { c.escape_default().to_string() }
    };
    name.chars().map(shown).collect()
}

/// Runs file operations on a blocking thread.
pub(in crate::tools) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ToolError::Failed("the file operation was aborted".to_owned())))
}
