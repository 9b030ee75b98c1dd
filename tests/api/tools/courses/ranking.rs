//! Which passages are found, and in which order.

use std::fmt::Write as _;

use twostep::domain::ids::TenantId;
use twostep::store::courses::list_titles;
use twostep::store::courses::search::{Search, find};

use super::{COMPUTER_USE, MCP, put};
use crate::support::{TestDatabase, database};

const OWNER: TenantId = TenantId::DEFAULT;

/// What a search finds: the course's first word, the lesson's number, and the text.
async fn found(database: &TestDatabase, search: Search<'_>) -> Vec<String> {
    let mut conn = database.pool(1).acquire().await.unwrap();
    let found = find(&mut conn, &search).await.unwrap().into_iter();
    let line = found.map(|it| {
        let course = it.course.split(' ').next().unwrap();
        format!("{course} {}: {}", it.lesson.unwrap_or(-1), it.text)
    });
    line.collect()
}

fn everywhere(query: &str) -> Search<'_> {
    Search { tenant: OWNER, query, course: None, lesson: None, limit: 5 }
}

async fn both_courses() -> TestDatabase {
    let database = database().await;
    for text in [COMPUTER_USE, MCP] {
        put(&database, OWNER, text).await;
    }
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_found_in_any_form_in_the_text_and_in_the_titles() {
    let database = both_courses().await;
    let prompts = ["MCP: 6: Prompts are templates."];
    for query in ["template", "TEMPLATES", "a prompt's template", "prompting"] {
        assert_eq!(found(&database, everywhere(query)).await, prompts, "{query}");
    }
    // A title of a lesson, and a word of the course's own.
    let requests = "Building 2: How to send one.";
    assert_eq!(found(&database, everywhere("requests")).await, [requests]);
    // What only the title of the course has is no passage's own.
    assert_eq!(found(&database, everywhere("context")).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_all_words_comes_first_and_then_what_has_any() {
    let database = both_courses().await;
    let [requests, pictures] =
        ["Building 2: How to send one.", "Building 3: How to send one of these."];
    assert_eq!(found(&database, everywhere("send pictures")).await, [pictures, requests]);
    // Each has one word; that of a title counts for more.
    let [servers, prompts] = [
        "MCP: 5: A server offers tools, and a chatbot makes use of them.",
        "MCP: 6: Prompts are templates.",
    ];
    let expected = [requests, servers, prompts];
    assert_eq!(found(&database, everywhere("templates chatbot requests")).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passage_may_have_a_word_by_the_name_of_its_course() {
    let database = database().await;
    let cooking = MCP.replace("MCP: Apps with Context", "Cooking");
    for text in [&cooking, MCP] {
        put(&database, OWNER, text).await;
    }
    let [cooking, mcp] = ["Cooking 6: Prompts are templates.", "MCP: 6: Prompts are templates."];
    assert_eq!(found(&database, everywhere("prompts")).await, [cooking, mcp]);
    assert_eq!(found(&database, everywhere("prompts in mcp")).await, [mcp, cooking]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_can_be_held_to_a_course_and_to_a_lesson() {
    let database = both_courses().await;
    let mut conn = database.pool(1).acquire().await.unwrap();
    let titles = list_titles(&mut conn, OWNER).await.unwrap();
    let [building, mcp] = [0, 1].map(|place: usize| Some(titles[place].0));
    let tools = "Building 4: The machine asks for what it wants done.";
    let servers = "MCP: 5: A server offers tools, and a chatbot makes use of them.";
    let tool_use = everywhere("tool use");
    assert_eq!(found(&database, tool_use).await, [tools, servers]);
    let search = Search { course: mcp, ..tool_use };
    assert_eq!(found(&database, search).await, [servers]);
    for course in [building, None] {
        let search = Search { course, lesson: Some(4), ..tool_use };
        assert_eq!(found(&database, search).await, [tools]);
    }
    let search = Search { course: mcp, lesson: Some(4), ..tool_use };
    assert_eq!(found(&database, search).await, [""; 0]);
    // The course of somebody else is not there.
    let search = Search { course: mcp, tenant: TenantId::new(), ..tool_use };
    assert_eq!(found(&database, search).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_character_of_a_query_means_itself() {
    let database = both_courses().await;
    for query in ["' | 'x", "!templates & (", r"\ ' :*", "templates:*A", "'; DROP TABLE chunks; --"]
    {
        let found = found(&database, everywhere(query)).await;
        assert!(found.len() <= 1, "{query}: {found:?}");
    }
    assert_eq!(found(&database, everywhere("templates")).await.len(), 1);
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
    put(&database, OWNER, &text.replacen("Lesson 899: Model", "Lesson 899: Charm", 1)).await;
    let query = everywhere("how does the model make use of tools for quarks");
    let found = found(&database, query).await;
    assert_eq!(found.len(), 5);
    assert!(found.contains(&"Much 1000: The model knows of quarks.".to_owned()), "{found:?}");
}
