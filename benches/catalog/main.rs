//! Measures how long a search of 100,000 passages takes: `cargo bench --bench catalog`.
//!
//! Starts a private Postgres and calls the tools as a run does. Queries run one after the other,
//! and each is different, so that the search is measured and not a cache of results.

mod language;
mod output;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use private_postgres::{Durability, Options, PrivatePostgres};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use sqlx::PgPool;
use tempfile::TempDir;
use twostep::domain::course::{Course, Lesson};
use twostep::domain::ids::{SessionId, TenantId};
use twostep::store::connections::Connections;
use twostep::store::courses::replace;
use twostep::store::schema::{MIGRATIONS, Waits, apply_missing};
use twostep::store::{PoolRole, pool};
use twostep::tools::workspace::Workspace;
use twostep::tools::{Caller, Registry, ToolContext, builtin};

use language::Language;
use output::say;

const COURSES: usize = 500;
const LESSONS: usize = 20;
/// Passages per lesson.
const PASSAGES: usize = 10;
/// Queries of each kind.
const QUERIES: usize = 300;
/// The highest acceptable 99th percentile of a search.
const GOAL: Duration = Duration::from_millis(50);

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // The path is short because a socket path has a length limit, and not under TMPDIR because the
    // user that root starts Postgres as must be able to read it.
    let data_dir = PathBuf::from(format!("/tmp/twostep-catalog-{}", std::process::id()));
    let measured = runtime.block_on(measure(data_dir.clone()));
    let _ = std::fs::remove_dir_all(data_dir);
    measured
}

async fn measure(data_dir: PathBuf) -> anyhow::Result<()> {
    let server = PrivatePostgres::start(&Options {
        data_dir,
        bin_dir: std::env::var_os("PG_BIN_DIR").map(PathBuf::from),
        search_path: std::env::var_os("PATH"),
        durability: Durability::Throwaway,
    })
    .await?;
    let login = pool(&server.connect_options(), PoolRole::Login);
    apply_missing(&login, &MIGRATIONS, Waits::default()).await?;
    let mut language = Language::default();
    fill(&login, &mut language).await?;
    let session = SessionId::new();
    sqlx::query("INSERT INTO sessions (id, tenant_id, model, settings) VALUES ($1, $2, 'm', '{}')")
        .bind(session.as_uuid())
        .bind(TenantId::DEFAULT.as_uuid())
        .execute(&login)
        .await?;
    let connections = Connections::from(pool(&server.connect_options(), PoolRole::Worker));
    let slow = search(&connections, session, &mut language).await;
    connections.close().await;
    login.close().await;
    server.stop().await?;
    let slow = slow?;
    ensure!(slow.is_empty(), "slower than {GOAL:?}: {}", slow.join(", "));
    Ok(())
}

/// Imports courses as the import command does.
async fn fill(login: &PgPool, language: &mut Language) -> anyhow::Result<()> {
    let mut conn = login.acquire().await?;
    let (started, mut stored) = (Instant::now(), 0);
    for number in 0..COURSES {
        let lessons = (1..).take(LESSONS).map(|number| Lesson {
            number,
            title: language.words(4),
            link: None,
            text: language.passages(PASSAGES),
        });
        let lessons = lessons.collect();
        let course = Course {
            title: format!("{} {number}", language.words(5)),
            link: Some(format!("https://example.com/{number}")),
            instructor: None,
            introduction: String::new(),
            lessons,
        };
        let passages = course.passages()?;
        stored += passages.len();
        replace(&mut conn, TenantId::DEFAULT, &course, &passages, |_| {}).await?;
    }
    let took = started.elapsed();
    say(&format!("{stored} passages of {COURSES} courses, imported in {took:.1?}"));
    Ok(())
}

/// A kind of query: its name and its generator.
type Kind = (&'static str, fn(&mut Language) -> Value);

const KINDS: [Kind; 6] = [
    ("three words", |it| json!({ "query": it.words(3) })),
    ("eight words", |it| json!({ "query": it.words(8) })),
    ("the three commonest words", |it| json!({ "query": it.common(3, 3) })),
    ("eight of the twenty commonest words", |it| json!({ "query": it.common(8, 20) })),
    (
        "three words, in lessons of a number",
        |it| json!({ "query": it.words(3), "lesson_number": it.number(LESSONS) }),
    ),
    (
        "three words, in a course by its name",
        |it| json!({ "query": it.words(3), "course_name": it.number(COURSES - 1).to_string() }),
    ),
];

/// Measures all kinds of queries and returns the names of those slower than the goal.
async fn search(
    connections: &Connections,
    session: SessionId,
    language: &mut Language,
) -> anyhow::Result<Vec<String>> {
    let registry = Registry::new(builtin::all(&builtin::Options::default()))?;
    let folder = TempDir::new()?;
    let context = ToolContext {
        caller: Caller::of(connections.clone(), session),
        ..ToolContext::without_run(Workspace::new(folder.path().to_owned()))
    };
    let mut slow = Vec::new();
    for (kind, query) in KINDS {
        let mut times = Vec::with_capacity(QUERIES);
        for _ in 0..QUERIES {
            let input = to_raw_value(&query(language))?;
            let started = Instant::now();
            let answer = registry.call(&context, "search_course_content", &input).await;
            times.push(started.elapsed());
            ensure!(!answer.is_error, "{kind}: {}", answer.text);
        }
        times.sort();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied();
        let (half, most) = at(50).zip(at(99)).context("nothing was measured")?;
        let longest = times.last().copied().unwrap_or_default();
        say(&format!("{kind}: p50 {half:.1?}, p99 {most:.1?}, longest {longest:.1?}"));
        if most > GOAL {
            slow.push(kind.to_owned());
        }
    }
    Ok(slow)
}
