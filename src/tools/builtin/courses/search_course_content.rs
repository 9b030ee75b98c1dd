//! `search_course_content`: the passages of courses that best match a question.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{checked, find_course, run_lookup, source};
use crate::domain::source::{Source, each_once};
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::store::courses::search::{FoundPassage, PassageSearch, find};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

/// The maximum number of passages in a result.
const PASSAGES: i64 = 5;

#[derive(Debug)]
pub(in crate::tools::builtin) struct SearchCourseContent;

/// A search in the content of courses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools::builtin) struct SearchCourseContentInput {
    /// The important words of the question, in any of their English forms.
    query: String,
    /// Searches only this course. A part of its name is sufficient, such as "MCP". Typing errors
    /// are tolerated.
    #[serde(default)]
    course_name: Option<String>,
    /// Searches only lessons with this number.
    #[serde(default)]
    lesson_number: Option<i32>,
}

#[derive(Serialize)]
struct SearchCourseContentOutput<'a> {
    passages: Vec<Passage<'a>>,
}

#[derive(Serialize)]
struct Passage<'a> {
    course: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lesson_number: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lesson: Option<&'a str>,
    text: &'a str,
}

impl TypedTool for SearchCourseContent {
    const NAME: &'static str = "search_course_content";
    const DESCRIPTION: &'static str = "Searches the content of courses and returns the best \
        matching passages as JSON, at most five, each with its course and lesson. Use it for \
        questions about the content of all courses or of one. An empty list means that no passage \
        matches: try other words. It does not list lessons; use get_course_outline for that.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    type Input = SearchCourseContentInput;

    async fn run(
        &self,
        context: &ToolContext,
        input: SearchCourseContentInput,
    ) -> Result<Output, ToolError> {
        let query = checked("query", &input.query)?;
        let name = input.course_name.as_deref();
        let name = name.map(|name| checked("name of the course", name)).transpose()?;
        let lesson = input.lesson_number;
        let found = run_lookup(context, async |conn, tenant| {
            let course = match name {
                Some(name) => Some(find_course(conn, tenant, name).await?),
                None => None,
            };
            let search = PassageSearch { tenant, query, course, lesson, limit: PASSAGES };
            Ok(find(conn, &search).await?)
        });
        let found = found.await?;
        let passages = found.iter().map(passage).collect();
        let sources = each_once(found.iter().map(source_of));
        Ok(Output::json(&SearchCourseContentOutput { passages })?.with_sources(sources))
    }
}

fn passage(found: &FoundPassage) -> Passage<'_> {
    Passage {
        course: &found.course,
        lesson_number: found.lesson,
        lesson: found.lesson_title.as_deref(),
        text: &found.text,
    }
}

/// Returns the lesson as a source, with its own link or else that of the course.
fn source_of(found: &FoundPassage) -> Source {
    let url = found.lesson_link.as_deref().or(found.course_link.as_deref());
    source(&found.course, found.lesson.zip(found.lesson_title.as_deref()), url)
}
