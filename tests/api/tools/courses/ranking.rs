//! The passages that a search finds, and their order.

use std::fmt::Write as _;

use twostep::domain::ids::TenantId;
use twostep::store::courses::list_titles;
use twostep::store::courses::search::{PassageSearch, find};

use super::{COMPUTER_USE, MCP, store_course};
use crate::support::{TestDatabase, database};

const OWNER: TenantId = TenantId::DEFAULT;

/// The passages of a search: first word of the course, number of the lesson, and text.
async fn passages(database: &TestDatabase, search: PassageSearch<'_>) -> Vec<String> {
    let mut conn = database.pool(1).acquire().await.unwrap();
    let found = find(&mut conn, &search).await.unwrap().into_iter();
    let line = found.map(|it| {
        let course = it.course.split(' ').next().unwrap();
        format!("{course} {}: {}", it.lesson.unwrap_or(-1), it.text)
    });
    line.collect()
}

fn in_all_courses(query: &str) -> PassageSearch<'_> {
    PassageSearch { tenant: OWNER, query, course: None, lesson: None, limit: 5 }
}

async fn both_courses() -> TestDatabase {
    let database = database().await;
    for text in [COMPUTER_USE, MCP] {
        store_course(&database, OWNER, text).await;
    }
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn words_match_in_any_form_in_texts_and_titles_of_lessons() {
    let database = both_courses().await;
    let prompts = ["MCP: 6: Prompts are templates."];
    for query in ["template", "TEMPLATES", "a prompt's template", "prompting"] {
        assert_eq!(passages(&database, in_all_courses(query)).await, prompts, "{query}");
    }
    // A word in the title of a lesson.
    let requests = "Building 2: How to send one.";
    assert_eq!(passages(&database, in_all_courses("requests")).await, [requests]);
    // A word that only the title of the course has does not match.
    assert_eq!(passages(&database, in_all_courses("context")).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn passages_with_all_words_come_before_passages_with_any_of_them() {
    let database = both_courses().await;
    let [requests, pictures] =
        ["Building 2: How to send one.", "Building 3: How to send one of these."];
    assert_eq!(passages(&database, in_all_courses("send pictures")).await, [pictures, requests]);
    // Each passage has one of the words; a word in a title weighs more.
    let [servers, prompts] = [
        "MCP: 5: A server offers tools, and a chatbot makes use of them.",
        "MCP: 6: Prompts are templates.",
    ];
    let expected = [requests, servers, prompts];
    assert_eq!(passages(&database, in_all_courses("templates chatbot requests")).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_in_the_title_of_the_course_raises_the_rank_of_its_passages() {
    let database = database().await;
    let cooking = MCP.replace("MCP: Apps with Context", "Cooking");
    for text in [&cooking, MCP] {
        store_course(&database, OWNER, text).await;
    }
    let [cooking, mcp] = ["Cooking 6: Prompts are templates.", "MCP: 6: Prompts are templates."];
    assert_eq!(passages(&database, in_all_courses("prompts")).await, [cooking, mcp]);
    assert_eq!(passages(&database, in_all_courses("prompts in mcp")).await, [mcp, cooking]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_can_be_limited_to_a_course_and_to_a_lesson() {
    let database = both_courses().await;
    let mut conn = database.pool(1).acquire().await.unwrap();
    let titles = list_titles(&mut conn, OWNER).await.unwrap();
    let [building, mcp] = [0, 1].map(|index: usize| Some(titles[index].0));
    let tools = "Building 4: The machine asks for what it wants done.";
    let servers = "MCP: 5: A server offers tools, and a chatbot makes use of them.";
    let tool_use = in_all_courses("tool use");
    assert_eq!(passages(&database, tool_use).await, [tools, servers]);
    let search = PassageSearch { course: mcp, ..tool_use };
    assert_eq!(passages(&database, search).await, [servers]);
    for course in [building, None] {
        let search = PassageSearch { course, lesson: Some(4), ..tool_use };
        assert_eq!(passages(&database, search).await, [tools]);
    }
    let search = PassageSearch { course: mcp, lesson: Some(4), ..tool_use };
    assert_eq!(passages(&database, search).await, [""; 0]);
    // Courses of other tenants are not found.
    let search = PassageSearch { course: mcp, tenant: TenantId::new(), ..tool_use };
    assert_eq!(passages(&database, search).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn special_characters_of_a_query_are_literal() {
    let database = both_courses().await;
    for query in ["' | 'x", "!templates & (", r"\ ' :*", "templates:*A", "'; DROP TABLE chunks; --"]
    {
        let found = passages(&database, in_all_courses(query)).await;
        assert!(found.len() <= 1, "{query}: {found:?}");
    }
    assert_eq!(passages(&database, in_all_courses("templates")).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rare_word_is_found_among_many_passages_that_have_only_the_common_ones() {
    let database = database().await;
    let mut text = "Course Title: Much\n".to_owned();
    for number in 0..900 {
        writeln!(text, "Lesson {number}: Model").unwrap();
        writeln!(text, "The model makes use of tools, again and again.").unwrap();
    }
    text.push_str("Lesson 1000: Last\nThe model knows of quarks.\n");
    store_course(&database, OWNER, &text.replacen("Lesson 899: Model", "Lesson 899: Charm", 1))
        .await;
    let query = in_all_courses("how does the model make use of tools for quarks");
    let found = passages(&database, query).await;
    assert_eq!(found.len(), 5);
    assert!(found.contains(&"Much 1000: The model knows of quarks.".to_owned()), "{found:?}");
}
