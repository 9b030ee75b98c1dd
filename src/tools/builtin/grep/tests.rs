//! Tests of Grep: the matches and the format of results.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode as FileMode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::lines::Hit;
use super::*;
use crate::tools::workspace::Workspace;

/// Returns all result lines of a search without limits.
pub(in crate::tools::builtin) fn every_line(
    workspace: &Workspace,
    input: &GrepInput,
    watch: &Watch,
) -> Result<Vec<String>, ToolError> {
    let mut all = Vec::new();
    let is_apart = input.before + input.after + input.around > 0;
    search::find(workspace, input, watch, |hit| {
        if let Hit::Lines(text) = hit {
            if is_apart && !all.is_empty() {
                all.push("--".to_owned());
            }
            all.extend(text.split_terminator('\n').map(str::to_owned));
        }
        true
    })?;
    Ok(all)
}

/// Creates a workspace with the given files.
fn workspace(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

async fn grep(folder: &TempDir, input: Value) -> Result<String, ToolError> {
    let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
    let input = serde_json::from_value(input).unwrap();
    Grep.run(&context, input).await.map(|output| output.text)
}

fn poem() -> TempDir {
    workspace(&[
        ("a.txt", "one\ntwo needles\nthree\nfour\nfive needles\n"),
        ("b/c.rs", "a needle\n"),
        ("b/d.md", "nothing\n"),
    ])
}

#[tokio::test]
async fn files_with_matches_are_named_in_the_order_of_their_paths() {
    let found = grep(&poem(), json!({ "pattern": "needle" })).await;
    assert_eq!(found, Ok("a.txt\nb/c.rs\n".to_owned()));
}

#[tokio::test]
async fn lines_have_paths_and_numbers_and_context_lines_have_another_separator() {
    let input = json!({ "pattern": "needle", "output_mode": "content", "-B": 1 });
    let expected = "a.txt-1-one\na.txt:2:two needles\n--\na.txt-4-four\na.txt:5:five needles\n\
        --\nb/c.rs:1:a needle\n";
    assert_eq!(grep(&poem(), input).await, Ok(expected.to_owned()));
    let input = json!({ "pattern": "^a n", "output_mode": "content", "-n": false });
    assert_eq!(grep(&poem(), input).await, Ok("b/c.rs:a needle\n".to_owned()));
}

#[tokio::test]
async fn matches_are_counted_by_file() {
    let input = json!({ "pattern": "NEEDLE", "output_mode": "count", "-i": true });
    assert_eq!(grep(&poem(), input).await, Ok("a.txt:2\nb/c.rs:1\n".to_owned()));
}

#[tokio::test]
async fn one_file_a_folder_a_glob_or_a_type_can_be_searched() {
    for more in [
        json!({ "path": "b" }),
        json!({ "path": "b/c.rs" }),
        json!({ "path": "./a/../b/" }),
        json!({ "glob": "*.rs" }),
        json!({ "type": "rust" }),
        json!({ "path": "b", "glob": "/c.*" }),
    ] {
        let mut input = json!({ "pattern": "needle" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(grep(&poem(), input).await, Ok("b/c.rs\n".to_owned()), "{more}");
    }
}

#[tokio::test]
async fn the_end_of_a_line_matches_before_crlf_and_lf() {
    let folder = workspace(&[("dos.txt", "one\r\ntwo one\r\n"), ("unix.txt", "one\nones\n")]);
    for (pattern, multiline, expected) in [
        ("^one$", false, "dos.txt:1\nunix.txt:1\n"),
        ("one$", false, "dos.txt:2\nunix.txt:1\n"),
        ("one$", true, "dos.txt:2\nunix.txt:1\n"),
        // A carriage return in the pattern is still found.
        ("one\\r$", false, "dos.txt:2\n"),
        ("one\\r\\ntwo", true, "dos.txt:1\n"),
    ] {
        let input = json!({ "pattern": pattern, "output_mode": "count", "multiline": multiline });
        assert_eq!(grep(&folder, input).await, Ok(expected.to_owned()), "{pattern} {multiline}");
    }
}

#[tokio::test]
async fn a_hidden_folder_that_the_glob_names_is_searched() {
    let folder = workspace(&[(".github/ci.yml", "needle\n"), (".other/ci.yml", "needle\n")]);
    let input = json!({ "pattern": "needle", "glob": ".github/**" });
    assert_eq!(grep(&folder, input).await, Ok(".github/ci.yml\n".to_owned()));
}

#[tokio::test]
async fn control_characters_in_file_names_are_escaped() {
    let folder = workspace(&[("a\nb.txt", "needle\n")]);
    for (mode, expected) in
        [("content", "a\\nb.txt:1:needle\n"), ("files_with_matches", "a\\nb.txt\n")]
    {
        let input = json!({ "pattern": "needle", "output_mode": mode });
        assert_eq!(grep(&folder, input).await, Ok(expected.to_owned()));
    }
}

#[tokio::test]
async fn a_search_without_matches_succeeds() {
    let found = grep(&poem(), json!({ "pattern": "haystack" })).await;
    assert_eq!(found, Ok("No files match.\n".to_owned()));
    let input = json!({ "pattern": "haystack", "output_mode": "content" });
    assert_eq!(grep(&poem(), input).await, Ok("No matches.\n".to_owned()));
}

#[tokio::test]
async fn invalid_inputs_are_reported() {
    for (input, start) in [
        (json!({ "pattern": "(" }), "the pattern is not a regular expression: "),
        (json!({ "pattern": "a\nb" }), "the pattern is not a regular expression: "),
        (json!({ "pattern": "(a{1000}){1000}" }), "the pattern is not a regular expression: "),
        (json!({ "pattern": "a", "glob": "{a" }), "the pattern is not a glob: "),
        (json!({ "pattern": "a", "type": "cobolt" }), "unrecognized file type: cobolt"),
    ] {
        let error = grep(&poem(), input.clone()).await.unwrap_err();
        let ToolError::Invalid(text) = &error else { panic!("{input}: {error}") };
        assert!(text.starts_with(start), "{input}: {text}");
    }
}

#[tokio::test]
async fn nothing_outside_of_the_workspace_is_searched() {
    let outer = workspace(&[("secret.txt", "needle\n"), ("work/in.txt", "needle\n")]);
    let root = outer.path().join("work");
    symlink("../secret.txt", root.join("link.txt")).unwrap();
    symlink(outer.path(), root.join("folder")).unwrap();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, FileMode::RUSR, 0).unwrap();
    let context = ToolContext::without_run(Workspace::new(root));
    let search = |path: &str| {
        let input = json!({ "pattern": "needle", "path": path });
        Grep.run(&context, serde_json::from_value(input).unwrap())
    };
    assert_eq!(search(".").await.unwrap().text, "in.txt\n");
    for path in ["..", "/etc", "folder", "link.txt", "folder/secret.txt", "x/../../secret.txt"] {
        let error = search(path).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: ")), "{error}");
    }
}

#[tokio::test]
async fn binary_files_are_skipped() {
    let folder = workspace(&[("a.bin", "needle\n\0needle\n"), ("b.txt", "needle\n")]);
    let input = json!({ "pattern": "needle", "output_mode": "content" });
    assert_eq!(grep(&folder, input).await, Ok("b.txt:1:needle\n".to_owned()));
}

#[tokio::test]
async fn a_long_result_is_truncated_with_a_note() {
    let folder = workspace(&[("a.txt", &"needle\n".repeat(9))]);
    let input = json!({ "pattern": "needle", "output_mode": "content", "head_limit": 2 });
    let expected = "a.txt:1:needle\na.txt:2:needle\n\
        [stopped after 2 lines, there are more; narrow the search or raise head_limit]\n";
    assert_eq!(grep(&folder, input).await, Ok(expected.to_owned()));
    let input = json!({ "pattern": "needle", "output_mode": "content", "head_limit": 9 });
    assert!(!grep(&folder, input).await.unwrap().contains("stopped"));
}

#[tokio::test]
async fn the_result_of_one_file_is_limited_with_a_note() {
    let line = format!("needle{}\n", "x".repeat(493));
    let folder = workspace(&[("a.txt", &line.repeat(10_000))]);
    let input = json!({ "pattern": "needle", "output_mode": "content", "head_limit": 10_000 });
    let (watch, _guard) = Watch::of(&CancellationToken::new());
    let mut kept = Vec::new();
    let root = Workspace::new(folder.path().to_owned());
    search::find(&root, &serde_json::from_value(input.clone()).unwrap(), &watch, |hit| {
        if let Hit::Lines(text) = hit {
            kept.push(text.len());
        }
        true
    })
    .unwrap();
    assert!(matches!(kept.as_slice(), [90_000..=93_000]), "{kept:?}");
    let found = grep(&folder, input).await.unwrap();
    let more = "[stopped after 180 lines, there are more; narrow the search or raise head_limit]\n";
    assert!(found.ends_with(more), "{}", &found[found.len() - 200..]);
}

#[tokio::test]
async fn a_long_line_is_truncated_between_characters() {
    let folder = workspace(&[("a.txt", &format!("x{}\n", "ü".repeat(300)))]);
    let input = json!({ "pattern": "ü", "output_mode": "content" });
    let expected = format!("a.txt:1:x{} [102 more bytes]\n", "ü".repeat(249));
    assert_eq!(grep(&folder, input).await, Ok(expected));
}

#[tokio::test]
async fn a_cancelled_search_ends() {
    let folder = TempDir::new().unwrap();
    // A sparse file of 64 GiB.
    let file = fs::File::create(folder.path().join("sparse.txt")).unwrap();
    fs::write(folder.path().join("sparse.txt"), "text\n").unwrap();
    file.set_len(64 << 30).unwrap();
    let stop = CancellationToken::new();
    let (watch, guard) = Watch::of(&stop);
    let workspace = Workspace::new(folder.path().to_owned());
    let input = serde_json::from_value(json!({ "pattern": "needle" })).unwrap();
    let searching = tokio::task::spawn_blocking(move || search::search(&workspace, &input, &watch));
    drop(guard);
    let started = Instant::now();
    let ended = searching.await.unwrap();
    assert_eq!(ended, Err(ToolError::Failed("the search was cancelled".to_owned())));
    assert!(started.elapsed() < Duration::from_secs(5));
}
