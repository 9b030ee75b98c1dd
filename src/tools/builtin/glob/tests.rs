//! Tests of Glob: the order of results, and confinement to the workspace.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// Creates a file that was modified `age` seconds ago.
fn make(folder: &TempDir, path: &str, age: u64) {
    let path = folder.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
    File::create(path).unwrap().set_modified(modified).unwrap();
}

async fn glob(folder: &TempDir, pattern: &str, path: &str) -> Result<String, ToolError> {
    let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
    let input = serde_json::from_value(json!({ "pattern": pattern, "path": path })).unwrap();
    Glob.run(&context, input).await.map(|output| output.text)
}

#[tokio::test]
async fn results_are_ordered_by_age_and_then_by_path() {
    let folder = TempDir::new().unwrap();
    for (path, age) in [("old.rs", 9), ("src/b.rs", 5), ("src/a.rs", 5), ("new.rs", 1), ("x.md", 0)]
    {
        make(&folder, path, age);
    }
    let found = glob(&folder, "**/*.rs", ".").await;
    assert_eq!(found, Ok("new.rs\nsrc/a.rs\nsrc/b.rs\nold.rs\n".to_owned()));
    assert_eq!(glob(&folder, "*.rs", "src").await, Ok("src/a.rs\nsrc/b.rs\n".to_owned()));
}

#[tokio::test]
async fn a_result_has_at_most_a_hundred_paths_and_the_number_of_the_others() {
    let folder = TempDir::new().unwrap();
    for number in 0..103 {
        make(&folder, &format!("{number}.txt"), number);
    }
    let found = glob(&folder, "*", ".").await.unwrap();
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[99]), (101, "0.txt", "99.txt"));
    assert_eq!(lines[100], "[3 more; use a narrower pattern or a sub-folder]");
}

#[tokio::test]
async fn hidden_and_ignored_folders_are_searched_only_when_the_pattern_fits_them() {
    let folder = TempDir::new().unwrap();
    for path in [".git/x.rs", ".hidden/x.rs", "target/x.rs", "src/x.rs"] {
        make(&folder, path, 0);
    }
    fs::write(folder.path().join(".gitignore"), "/target/\n").unwrap();
    assert_eq!(glob(&folder, "**/*.rs", ".").await, Ok("src/x.rs\n".to_owned()));
    let all = ".gitignore\n.hidden/x.rs\nsrc/x.rs\ntarget/x.rs\n";
    assert_eq!(glob(&folder, "**/*", ".").await, Ok(all.to_owned()));
}

#[tokio::test]
async fn a_hidden_or_ignored_folder_that_the_pattern_names_is_searched() {
    let folder = TempDir::new().unwrap();
    for path in [".git/x.yml", ".github/workflows/ci.yml", "sub/.github/x.yml", "target/d/x.yml"] {
        make(&folder, path, 0);
    }
    fs::write(folder.path().join(".gitignore"), "/target/\n").unwrap();
    for (pattern, path, expected) in [
        (".github/**", ".", ".github/workflows/ci.yml\n"),
        ("/.github/workflows/*.yml", ".", ".github/workflows/ci.yml\n"),
        ("**/.github/**/*.yml", ".", ".github/workflows/ci.yml\nsub/.github/x.yml\n"),
        (".github/*", "sub", "sub/.github/x.yml\n"),
        ("target/**/*.yml", ".", "target/d/x.yml\n"),
        ("{target,.github}/**", ".", ".github/workflows/ci.yml\ntarget/d/x.yml\n"),
        ("**/*.yml", ".", "No files match the pattern."),
        (".git/**", ".", "No files match the pattern."),
    ] {
        assert_eq!(glob(&folder, pattern, path).await, Ok(expected.to_owned()), "{pattern} {path}");
    }
}

#[tokio::test]
async fn an_absolute_pattern_in_the_workspace_is_relative_to_the_workspace() {
    let folder = TempDir::new().unwrap();
    for path in ["a.rs", "src/b.rs", "src/deep/c.rs"] {
        make(&folder, path, 0);
    }
    let root = folder.path().to_str().unwrap();
    for (pattern, path, expected) in [
        (format!("{root}/**/*.rs"), ".", "a.rs\nsrc/b.rs\nsrc/deep/c.rs\n"),
        (format!("{root}/src/*.rs"), "src", "src/b.rs\n"),
        ("/workspace/src/**".to_owned(), ".", "src/b.rs\nsrc/deep/c.rs\n"),
        (format!("!{root}/src/**"), ".", "a.rs\n"),
        ("/src/*".to_owned(), ".", "src/b.rs\n"),
        (format!("{root}2/*"), ".", "No files match the pattern."),
    ] {
        assert_eq!(glob(&folder, &pattern, path).await, Ok(expected.to_owned()), "{pattern}");
    }
}

#[tokio::test]
async fn a_gitignore_applies_without_a_repository() {
    let folder = TempDir::new().unwrap();
    for path in ["x.log", "x.rs", "sub/y.rs", "sub/z.rs"] {
        make(&folder, path, 0);
    }
    fs::write(folder.path().join(".gitignore"), "*.log\n").unwrap();
    fs::write(folder.path().join("sub/.gitignore"), "z.rs\n").unwrap();
    assert_eq!(glob(&folder, "!*.md", ".").await, Ok("sub/y.rs\nx.rs\n".to_owned()));
}

#[tokio::test]
async fn control_characters_in_file_names_are_escaped() {
    let folder = TempDir::new().unwrap();
    make(&folder, "a\nb\u{1b}[31m.txt", 0);
    assert_eq!(glob(&folder, "*.txt", ".").await, Ok("a\\nb\\u{1b}[31m.txt\n".to_owned()));
}

#[tokio::test]
async fn nothing_outside_of_the_workspace_is_found() {
    let outer = TempDir::new().unwrap();
    make(&outer, "secret.txt", 0);
    make(&outer, "work/in.txt", 0);
    let root = outer.path().join("work");
    symlink("..", root.join("up")).unwrap();
    symlink("../secret.txt", root.join("link.txt")).unwrap();
    let context = ToolContext::without_run(Workspace::new(root.clone()));
    let find = |pattern: &str, path: &str| {
        let input = json!({ "pattern": pattern, "path": path });
        Glob.run(&context, serde_json::from_value(input).unwrap())
    };
    let full = root.to_str().unwrap();
    for (pattern, path) in [("**/*.txt", "."), ("*", full), ("*.txt", "./x/..")] {
        assert_eq!(find(pattern, path).await.unwrap().text, "in.txt\n", "{pattern} {path}");
    }
    for path in ["..", "up", "/etc", "/", "up/../.."] {
        let error = find("*", path).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: ")), "{error}");
    }
    for pattern in ["../*", "/etc/*", "up/*"] {
        assert_eq!(
            find(pattern, ".").await.unwrap().text,
            "No files match the pattern.",
            "{pattern}"
        );
    }
}

#[tokio::test]
async fn an_invalid_pattern_is_an_error() {
    let folder = TempDir::new().unwrap();
    for pattern in ["[a", "{a,b", ""] {
        let error = glob(&folder, pattern, ".").await.unwrap_err();
        assert!(matches!(error, ToolError::Invalid(_)), "{pattern}: {error}");
    }
    assert_eq!(glob(&folder, "*.rs", ".").await, Ok("No files match the pattern.".to_owned()));
}
