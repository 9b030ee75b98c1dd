//! `search_course_content`: the passages of courses that best match a question.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{checked, find_course, run_lookup, source};
use crate::domain::source::{Source, each_once};
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::store::courses::search::{Found, Search, find};
use crate::tools::{Output, ToolContext, ToolError, TypedTool};

/// The maximum number of passages in a result.
const PASSAGES: i64 = 5;

#[derive(Debug)]
pub(in crate::tools::builtin) struct SearchCourseContent;

/// What to look for, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools::builtin) struct Input {
    /// What to look for: the words that matter, in English forms of any kind.
    query: String,
    /// Only this course; a part of its name will do, such as "MCP", and a slip is forgiven.
    #[serde(default)]
    course_name: Option<String>,
    /// Only lessons of this number.
    #[serde(default)]
    lesson_number: Option<i32>,
}

#[derive(Serialize)]
struct Answer<'a> {
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
    const DESCRIPTION: &'static str = "Searches what the courses say, and returns the passages that \
        fit best as JSON, at most five, each with its course and lesson. Use it for questions about \
        the content of courses, in all of them or in one. An empty list means that nothing fits: \
        try other words. It does not list lessons; get_course_outline does.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    type Input = Input;

    async fn run(&self, context: &ToolContext, input: Input) -> Result<Output, ToolError> {
        let query = checked("query", &input.query)?;
        let name = input.course_name.as_deref();
        let name = name.map(|name| checked("name of the course", name)).transpose()?;
        let lesson = input.lesson_number;
        let found = run_lookup(context, async |conn, tenant| {
            let course = match name {
                Some(name) => Some(find_course(conn, tenant, name).await?),
                None => None,
            };
            let search = Search { tenant, query, course, lesson, limit: PASSAGES };
            Ok(find(conn, &search).await?)
        });
        let found = found.await?;
        let passages = found.iter().map(passage).collect();
        let sources = each_once(found.iter().map(source_of));
        Ok(Output::json(&Answer { passages })?.resting_on(sources))
    }
}

fn passage(found: &Found) -> Passage<'_> {
    Passage {
        course: &found.course,
        lesson_number: found.lesson,
        lesson: found.lesson_title.as_deref(),
        text: &found.text,
    }
}

/// Returns the lesson as a source, with its own link or else that of the course.
fn source_of(found: &Found) -> Source {
    let url = found.lesson_link.as_deref().or(found.course_link.as_deref());
    source(&found.course, found.lesson.zip(found.lesson_title.as_deref()), url)
}
