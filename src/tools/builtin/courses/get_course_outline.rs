//! `get_course_outline`: the lessons of a course.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{checked, find_course, run_lookup, source};
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::store::courses::find_outline;
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

#[derive(Debug)]
pub(in crate::tools::builtin) struct GetCourseOutline;

/// A course.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools::builtin) struct GetCourseOutlineInput {
    /// The name of the course or a part of it, such as "MCP". Typing errors are tolerated.
    course_name: String,
}

impl TypedTool for GetCourseOutline {
    const NAME: &'static str = "get_course_outline";
    const DESCRIPTION: &'static str = "Returns the outline of a course as JSON: its title, link \
        and instructor, and the numbers and titles of all lessons. Use it for questions about the \
        topics of a course, and to find a lesson before you search its content. It does not return \
        the content of the lessons.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    type Input = GetCourseOutlineInput;

    async fn run(
        &self,
        context: &ToolContext,
        input: GetCourseOutlineInput,
    ) -> Result<Output, ToolError> {
        let name = checked("name of the course", &input.course_name)?;
        let found = run_lookup(context, async |conn, owner| {
            let course = find_course(conn, owner, name).await?;
            Ok(find_outline(conn, owner, course).await?)
        });
        // The course may have been deleted after its title was read.
        let gone = || ToolError::Failed(format!("the course {name:?} no longer exists"));
        let outline = found.await?.ok_or_else(gone)?;
        let sources = vec![source(&outline.title, None, outline.link.as_deref())];
        Ok(Output::json(&outline)?.with_sources(sources))
    }
}
