//! The command `twostep catalog`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use twostep::domain::ids::TenantId;

use super::{COMPUTER_USE, MCP};
use crate::support::{TestDatabase, binary, database, outcome};

fn command(database: &TestDatabase, args: &[&str]) -> Command {
    let mut command = binary(&[&["catalog"], args].concat());
    command.env("DATABASE_URL", database.url());
    command
}

/// Runs `twostep catalog` with these arguments and returns its output.
async fn catalog(database: &TestDatabase, args: &[&str]) -> String {
    let (status, stdout, stderr) = outcome(command(database, args)).await;
    assert_eq!(status, Some(0), "{args:?}: {stderr}");
    stdout
}

/// The error message of `twostep catalog` with these arguments.
async fn refused(database: &TestDatabase, args: &[&str]) -> String {
    let (status, stdout, stderr) = outcome(command(database, args)).await;
    assert_eq!((status, &*stdout), (Some(1), ""), "{args:?}: {stderr}");
    stderr
}

fn write(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A PDF file of the fixtures, written by a common program.
fn document(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pdf");
    fs::read(folder.join(name)).unwrap()
}

/// The listed courses, without the times.
async fn listed(database: &TestDatabase, args: &[&str]) -> Vec<Value> {
    let lines = catalog(database, &[&["list", "--json"], args].concat()).await;
    let course = |line: &str| {
        let course: Value = serde_json::from_str(line).unwrap();
        assert!(course["imported_at"].is_string());
        json!([course["title"], course["lessons"], course["passages"]])
    };
    lines.lines().map(course).collect()
}

/// The texts of all stored passages.
async fn passages(database: &TestDatabase) -> Vec<String> {
    let texts = "SELECT text FROM chunks ORDER BY course_id, n";
    sqlx::query_scalar(texts).fetch_all(&database.pool(1)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_imported_as_courses_that_can_be_listed_and_removed() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let plain = write(&folder, "computer use.txt", COMPUTER_USE);
    let markdown = write(&folder, "cooking.md", "# Cooking\n## Soup\nBoil water.\n## Bread\nBake.");
    let printed = catalog(&database, &["import", &plain, &markdown]).await;
    let expected = "Building Towards Computer Use  4 lessons, 4 passages\n\
                    Cooking  2 lessons, 2 passages\n";
    assert_eq!(printed, expected);
    let computer_use = json!(["Building Towards Computer Use", 4, 4]);
    assert_eq!(listed(&database, &[]).await, [computer_use.clone(), json!(["Cooking", 2, 2])]);
    let table = catalog(&database, &["list"]).await;
    let rows: Vec<Vec<&str>> = table.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["LESSONS", "PASSAGES", "IMPORTED", "TITLE"]);
    assert_eq!((&rows[2][..2], rows[2][3]), (&["2", "2"][..], "Cooking"));

    let error = refused(&database, &["rm", "cookin"]).await;
    assert_eq!(error, "twostep: course \"cookin\" does not exist; did you mean \"Cooking\"?\n");
    assert_eq!(catalog(&database, &["rm", "Cooking"]).await, "");
    assert_eq!(listed(&database, &[]).await, [computer_use]);
    assert_eq!(passages(&database).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pdf_is_imported_by_its_lines() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let path = write(&folder, "cooking.pdf", document("course.pdf"));
    let printed = catalog(&database, &["import", &path]).await;
    assert_eq!(printed, "Cooking for Beginners  2 lessons, 2 passages\n");
    let [bread, soup] = &passages(&database).await[..] else { panic!() };
    assert!(bread.starts_with("Bread is a staple food that is prepared from a dough"), "{bread}");
    assert!(bread.contains("usually by baking. Throughout recorded history"), "{bread}");
    assert!(soup.ends_with("until the flavours are extracted, forming a broth."), "{soup}");
    let links = "SELECT link FROM lessons WHERE number = 1";
    let link: String = sqlx::query_scalar(links).fetch_one(&database.pool(1)).await.unwrap();
    assert_eq!(link, "https://example.com/cooking/1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_course_that_is_imported_again_replaces_the_stored_course() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let path = write(&folder, "mcp.txt", MCP);
    catalog(&database, &["import", &path]).await;
    write(&folder, "mcp.txt", "Course Title: MCP: Apps with Context\nLesson 6: New\nNew text.");
    catalog(&database, &["import", &path]).await;
    assert_eq!(listed(&database, &[]).await, [json!(["MCP: Apps with Context", 1, 1])]);
    assert_eq!(passages(&database).await, ["New text."]);
    let link: Option<String> =
        sqlx::query_scalar("SELECT link FROM courses").fetch_one(&database.pool(1)).await.unwrap();
    assert_eq!(link, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn courses_belong_to_a_tenant() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    database.tenant("acme").await;
    let path = write(&folder, "mcp.txt", MCP);
    catalog(&database, &["import", "--tenant", "acme", &path]).await;
    assert_eq!(listed(&database, &[]).await, Vec::<Value>::new());
    let theirs = [json!(["MCP: Apps with Context", 2, 2])];
    assert_eq!(listed(&database, &["--tenant", "acme"]).await, theirs);
    refused(&database, &["rm", "MCP: Apps with Context"]).await;
    assert_eq!(listed(&database, &["--tenant", "acme"]).await, theirs);
    let error = refused(&database, &["import", "--tenant", "unknown", &path]).await;
    assert_eq!(error, "twostep: tenant \"unknown\" does not exist\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_is_named_and_nothing_is_imported() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let good = write(&folder, "good.txt", MCP);
    let missing = folder.path().join("missing.txt").to_str().unwrap().to_owned();
    let message = |path: &str, why: &str| format!("twostep: {path} cannot be imported: {why}\n");
    for (bad, why) in [
        (
            write(&folder, "untitled.txt", "Hello"),
            "there is no title: it is the line `Course Title: …`, in Markdown the first heading",
        ),
        (
            write(&folder, "link.txt", "Course Title: A\nCourse Link: file:///etc/passwd"),
            "line 2: a link begins with https:// or http:// and has at most 2000 bytes",
        ),
        (
            write(&folder, "latin.txt", b"Course Title: Caf\xe9"),
            "stream did not contain valid UTF-8",
        ),
        (
            write(&folder, "scan.pdf", document("scan.pdf")),
            "the PDF could not be read: it has no text, only images",
        ),
        (
            write(&folder, "locked.txt", document("encrypted.pdf")),
            "the PDF could not be read: it is encrypted and needs a password",
        ),
        (
            write(&folder, "bread.pdf", document("plain.pdf")),
            "there is no title: it is the line `Course Title: …`, in Markdown the first heading",
        ),
        (
            write(&folder, "large.txt", "x".repeat(16 * 1024 * 1024 + 1)),
            "the file is larger than 16 MiB",
        ),
        (missing, "No such file or directory (os error 2)"),
    ] {
        let error = refused(&database, &["import", &good, &bad]).await;
        assert_eq!(error, message(&bad, why));
    }
    let again = write(&folder, "again.txt", MCP);
    let error = refused(&database, &["import", &good, &again]).await;
    assert_eq!(error, "twostep: two files have the course \"MCP: Apps with Context\"\n");
    assert_eq!(listed(&database, &[]).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_fails_does_not_change_the_stored_course() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let path = write(&folder, "mcp.txt", MCP);
    catalog(&database, &["import", &path]).await;
    let before = passages(&database).await;
    // The last passage cannot be stored.
    let trigger = "CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'no room'; END $$;
                 CREATE TRIGGER stop BEFORE INSERT ON chunks FOR EACH ROW
                 WHEN (new.text = 'Last.') EXECUTE FUNCTION stop()";
    sqlx::raw_sql(trigger).execute(&database.pool(1)).await.unwrap();
    let new = "Course Title: MCP: Apps with Context\nLesson 6: New\nNew.\nLesson 7: Last\nLast.";
    write(&folder, "mcp.txt", new);
    let error = refused(&database, &["import", &path]).await;
    assert!(
        error.starts_with("twostep: the course \"MCP: Apps with Context\" could not be stored")
    );
    assert_eq!(passages(&database).await, before);
    assert_eq!(listed(&database, &[]).await, [json!(["MCP: Apps with Context", 2, 2])]);
}

/// At the limit, another course is refused, but a stored course may be replaced.
#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_courses_of_a_tenant_is_limited() {
    let (database, folder) = (database().await, TempDir::new().unwrap());
    let fill = "INSERT INTO courses (id, tenant_id, title)
                SELECT gen_random_uuid(), $1, 'Course ' || n FROM generate_series(1, 10000) n";
    let owner = TenantId::DEFAULT.as_uuid();
    sqlx::query(fill).bind(owner).execute(&database.pool(1)).await.unwrap();
    let path = write(&folder, "mcp.txt", MCP);
    let error = refused(&database, &["import", &path]).await;
    let full = "the course \"MCP: Apps with Context\" could not be stored: there are 10000 courses \
                already\n";
    assert_eq!(error, format!("twostep: {full}"));
    write(&folder, "mcp.txt", "Course Title: Course 7\nNow with text.");
    assert_eq!(catalog(&database, &["import", &path]).await, "Course 7  0 lessons, 1 passages\n");
}
