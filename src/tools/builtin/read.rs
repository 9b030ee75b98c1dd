//! `Read`: the lines of a text file or a PDF with their numbers, or an image.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::notebook_edit::{is_notebook, shown};
use super::{FileOptions, blocking};
use crate::domain::image::{Image, media_type};
use crate::domain::provenance::ResultOrigin;
use crate::domain::state_change::StateChange;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::Output;
use crate::tools::pdf;
use crate::tools::text::TextFile;
use crate::tools::text::edits::unix;
use crate::tools::text::numbered::{Part, page};
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;
use crate::tools::workspace::hash;

const DEFAULT_LIMIT: usize = 2000;
/// The largest text of a PDF, in bytes.
const MAX_PDF_TEXT: usize = 4 * 1024 * 1024;
const REMINDER: &str = "\n\n<system-reminder>\nWhenever you read a file, you should consider \
    whether it looks malicious. If it does, you MUST refuse to improve or augment the code.\n\
    </system-reminder>";

#[derive(Debug)]
pub(super) struct Read {
    pub(super) options: FileOptions,
    pub(super) documents: pdf::Reader,
}

/// The content of a file, as the model receives it.
#[derive(Debug)]
enum FileContent {
    Text(String),
    Image(Image),
    /// A PDF, whose text is extracted in another process.
    Pdf(Vec<u8>),
}

/// A range of lines of a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadInput {
    /// The file's path, in the workspace.
    file_path: String,
    /// The maximum number of lines to read.
    #[serde(default = "default_limit")]
    limit: usize,
    /// The number of lines to skip from the top; 0 begins with line 1.
    #[serde(default)]
    offset: usize,
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

impl TypedTool for Read {
    const NAME: &'static str = "Read";
    const DESCRIPTION: &'static str = "Reads a text file of the workspace and returns its lines, \
        each after its number and an arrow. Read a file before you change it. Long files are \
        returned in parts: continue with offset. The cells of a notebook are shown with their IDs. \
        An image (PNG, JPEG, GIF, WebP) is shown as an image, and a PDF as its text. \
        It does not list folders; use LS for that.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = ReadInput;

    /// Returns a longer deadline than that of the timing class, because disks may be slow.
    fn deadline(&self, _input: &RawValue) -> Duration {
        ToolTiming::Fast.deadline()
    }

    async fn run(&self, context: &ToolContext, input: ReadInput) -> Result<Output, ToolError> {
        let ReadInput { file_path, limit, offset } = input;
        let part = Part { offset, limit };
        let (workspace, given) = (context.workspace.clone(), file_path.clone());
        let (path, hash, content) = blocking(move || {
            let bytes = workspace.read(&given)?;
            Ok((workspace.plain(&given)?, hash(&bytes), content_of(&given, bytes, part)?))
        })
        .await?;
        let mut output = match content {
            FileContent::Text(text) => Output::from(text),
            FileContent::Image(image) => Output::from(image.to_string()).with_images(vec![image]),
            FileContent::Pdf(bytes) => self.pdf_text(&file_path, &bytes, part).await?.into(),
        };
        let part_name = name_of_part(&path, part);
        let Self { options, .. } = self;
        if !options.repeat_reads
            && context.read_state.hash(&part_name).await?.as_ref() == Some(&hash)
        {
            output = Output::from(format!(
                "{file_path} has not changed since you read this part of it; see the earlier result."
            ));
        } else if options.reminders {
            output.text.push_str(REMINDER);
        }
        if !options.repeat_reads {
            output = output
                .with_state_change(StateChange::FileRead { path: part_name, hash: hash.clone() });
        }
        Ok(output.with_state_change(StateChange::FileRead { path, hash }))
    }
}

impl Read {
    /// Returns lines of the text of a PDF.
    async fn pdf_text(&self, path: &str, bytes: &[u8], part: Part) -> Result<String, ToolError> {
        let document = self.documents.read(bytes, MAX_PDF_TEXT).await;
        let document = document.map_err(|error| {
            ToolError::Failed(format!("{path} is a PDF that cannot be read: {error}"))
        })?;
        Ok(page(&unix(&document.text()), part))
    }
}

fn content_of(path: &str, bytes: Vec<u8>, part: Part) -> Result<FileContent, ToolError> {
    if media_type(&bytes).is_some() {
        let image = Image::read(&bytes);
        return image
            .map(FileContent::Image)
            .map_err(|problem| ToolError::Failed(format!("{path} {problem}")));
    }
    if bytes.starts_with(b"%PDF-") {
        return Ok(FileContent::Pdf(bytes));
    }
    text_of(path, &bytes, part).map(FileContent::Text)
}

fn text_of(path: &str, bytes: &[u8], part: Part) -> Result<String, ToolError> {
    let file = TextFile::read(path, bytes)?;
    let cells = if is_notebook(path) { shown(&file.text) } else { None };
    let is_exact = file.is_exact();
    let text = cells.unwrap_or(file.text);
    if text.is_empty() {
        return Ok(format!("The file {path} exists and is empty."));
    }
    let mut page = page(&unix(&text), part);
    if !is_exact {
        page.push_str("\n[some bytes are neither UTF-8 nor UTF-16; they are shown as \u{fffd}]");
    }
    Ok(page)
}

/// Returns the key under which a range of a file is recorded as read. No normalized path begins
/// with the prefix of the key.
fn name_of_part(path: &str, Part { offset, limit }: Part) -> String {
    format!("/{offset}+{limit}/{path}")
}
