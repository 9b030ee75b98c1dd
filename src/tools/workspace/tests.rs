//! Tests of file access: files inside of the workspace are accessible, and files outside are not.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::LazyLock;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;
use crate::domain::claim::Fence;
use crate::domain::ids::{RunId, WorkerId};

/// A workspace next to a file that must stay inaccessible.
struct Fixture {
    outer: TempDir,
    workspace: Workspace,
}

fn fixture() -> Fixture {
    let outer = TempDir::new().unwrap();
    let root = outer.path().join("work");
    fs::create_dir(&root).unwrap();
    fs::write(outer.path().join("secret"), "canary").unwrap();
    fs::write(root.join("notes.txt"), "hello").unwrap();
    Fixture { workspace: Workspace::new(root), outer }
}

/// Returns the draft of an attempt of the same call.
fn draft(attempt: i32) -> Draft {
    static RUN: LazyLock<RunId> = LazyLock::new(RunId::new);
    Draft::new(Fence { run_id: *RUN, attempt, worker: WorkerId::new() }, "toolu_1")
}

impl Fixture {
    fn drafts(&self) -> usize {
        let is_draft = |entry: &FolderEntry| entry.name.starts_with(".twostep-");
        self.workspace.list(".").unwrap().iter().filter(|entry| is_draft(entry)).count()
    }

    fn root(&self) -> PathBuf {
        self.outer.path().join("work")
    }
}

#[test]
fn a_file_inside_is_read_by_its_relative_and_by_its_full_path() {
    let fixture = fixture();
    let full = fixture.root().join("notes.txt");
    for path in ["notes.txt", "./notes.txt", "x/../notes.txt", full.to_str().unwrap()] {
        fs::create_dir_all(fixture.root().join("x")).unwrap();
        assert_eq!(fixture.workspace.read(path).unwrap(), b"hello", "{path}");
    }
}

#[test]
fn files_outside_are_neither_read_nor_written() {
    let fixture = fixture();
    symlink("../secret", fixture.root().join("link")).unwrap();
    symlink(fixture.outer.path(), fixture.root().join("folder")).unwrap();
    fs::create_dir(fixture.root().join("x")).unwrap();
    let secret = fixture.outer.path().join("secret");
    for path in [
        "../secret",
        "link",
        "folder/secret",
        "x/../../secret",
        "/etc/passwd",
        "/proc/self/environ",
        secret.to_str().unwrap(),
    ] {
        assert!(fixture.workspace.read(path).is_err(), "{path}");
        assert!(fixture.workspace.hash(path).is_err(), "{path}");
        assert!(fixture.workspace.write(path, b"x", &draft(1), || true).is_err(), "{path}");
    }
    assert!(fixture.workspace.list("..").is_err());
    assert!(fixture.workspace.list("folder").is_err());
    assert_eq!(fs::read(secret).unwrap(), b"canary");
}

#[test]
fn only_regular_files_are_opened() {
    let fixture = fixture();
    let fifo = fixture.root().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let error = fixture.workspace.read("fifo").unwrap_err();
    assert_eq!(error.to_string(), "fifo: not a regular file");
    assert_eq!(fixture.workspace.read(".").unwrap_err().to_string(), ".: it is a folder");
}

#[test]
fn a_missing_file_is_reported() {
    let fixture = fixture();
    let error = fixture.workspace.read("nope.txt").unwrap_err();
    assert_eq!(error.to_string(), "nope.txt: there is no such file or folder");
    assert_eq!(fixture.workspace.hash("nope.txt"), Ok(None));
}

#[test]
fn a_write_makes_folders_keeps_permissions_and_leaves_nothing_else() {
    let fixture = fixture();
    fixture.workspace.write("a/b/c.txt", b"new", &draft(1), || true).unwrap();
    assert_eq!(fixture.workspace.read("a/b/c.txt").unwrap(), b"new");
    let script = fixture.root().join("notes.txt");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fixture.workspace.write("notes.txt", b"changed", &draft(1), || true).unwrap();
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
    let names: Vec<String> =
        fixture.workspace.list(".").unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a", "notes.txt"]);
}

#[test]
fn protected_paths_are_not_written() {
    let fixture = fixture();
    for path in [".git/hooks/pre-commit", "sub/.GIT/config", ".git"] {
        let error = fixture.workspace.write(path, b"x", &draft(1), || true).unwrap_err();
        assert_eq!(error.to_string(), format!("{path} is protected and cannot be written"));
    }
}

#[test]
fn a_write_does_not_follow_a_link_to_a_protected_folder() {
    let fixture = fixture();
    fs::create_dir_all(fixture.root().join(".git/hooks")).unwrap();
    symlink(".git", fixture.root().join("g")).unwrap();
    let error = fixture.workspace.write("g/hooks/evil", b"x", &draft(1), || true).unwrap_err();
    assert_eq!(error.to_string(), "g/hooks/evil: g is a symbolic link");
    assert!(!fixture.root().join(".git/hooks/evil").exists());
}

#[test]
fn an_abandoned_write_leaves_the_old_file_and_no_temporary_file() {
    let fixture = fixture();
    assert!(fixture.workspace.write("notes.txt", b"late", &draft(1), || false).is_err());
    assert_eq!(fixture.workspace.read("notes.txt").unwrap(), b"hello");
    assert_eq!(fixture.workspace.list(".").unwrap().len(), 1);
}

#[test]
fn a_folder_is_not_overwritten() {
    let fixture = fixture();
    fs::create_dir(fixture.root().join("sub")).unwrap();
    assert_eq!(
        fixture.workspace.write("sub", b"x", &draft(1), || true).unwrap_err().to_string(),
        "sub: it is a folder"
    );
    assert!(fixture.workspace.write("", b"x", &draft(1), || true).is_err());
}

#[test]
fn a_workspace_is_created_on_first_use() {
    let outer = TempDir::new().unwrap();
    let workspace = Workspace::new(outer.path().join("new/one"));
    assert_eq!(workspace.list(".").unwrap(), []);
}

#[test]
fn the_canonical_path_is_known_before_the_workspace_exists() {
    let outer = TempDir::new().unwrap();
    let real = outer.path().canonicalize().unwrap().join("real");
    let link = outer.path().join("link");
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let workspace = Workspace::new(link.join("sessions/one"));
    assert_eq!(workspace.names(), [link.join("sessions/one"), real.join("sessions/one")]);
    let file = real.join("sessions/one/notes.txt");
    workspace.write(file.to_str().unwrap(), b"hello", &draft(1), || true).unwrap();
    assert_eq!(workspace.read("notes.txt").unwrap(), b"hello");
    assert_eq!(workspace.names(), [link.join("sessions/one"), real.join("sessions/one")]);
}

#[test]
fn a_file_created_during_a_write_is_not_overwritten() {
    let fixture = fixture();
    let theirs = fixture.root().join("new.txt");
    let written = fixture.workspace.write("new.txt", b"ours", &draft(1), || {
        fs::write(&theirs, "theirs").unwrap();
        true
    });
    let expected = "new.txt: another process has just created it; read it first";
    assert_eq!(written.unwrap_err().to_string(), expected);
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    assert_eq!(fixture.drafts(), 0);
}

#[test]
fn a_path_above_the_length_limit_is_refused() {
    let fixture = fixture();
    let longest = format!("{}bc", "a/".repeat(1023));
    assert_eq!(longest.len(), 2048);
    assert_eq!(fixture.workspace.plain(&longest), Ok(longest.clone()));
    let expected = format!("{longest}d: the name is too long");
    assert_eq!(fixture.workspace.plain(&format!("{longest}d")), Err(ToolError::Failed(expected)));
}

#[test]
fn the_next_attempt_removes_temporary_files_of_earlier_attempts() {
    let fixture = fixture();
    let written = fixture.workspace.write("notes.txt", b"new", &draft(1), || {
        // A crash leaves the temporary file. The next attempt runs before this one continues.
        assert_eq!(fixture.drafts(), 1);
        fixture.workspace.discard_drafts("notes.txt", &draft(1)).unwrap();
        assert_eq!(fixture.drafts(), 1, "it is our own");
        fixture.workspace.discard_drafts("notes.txt", &draft(2)).unwrap();
        assert_eq!(fixture.drafts(), 0);
        true
    });
    assert!(written.is_err());
    assert_eq!(fixture.workspace.read("notes.txt").unwrap(), b"hello");
    fixture.workspace.discard_drafts("no/such/folder.txt", &draft(3)).unwrap();
    assert!(fixture.workspace.discard_drafts("../notes.txt", &draft(3)).is_err());
}

#[test]
fn a_file_has_three_paths_and_sibling_folders_are_outside() {
    let fixture = fixture();
    fs::create_dir(fixture.outer.path().join("work-evil")).unwrap();
    fs::write(fixture.outer.path().join("work-evil/notes.txt"), "canary").unwrap();
    let root = fixture.root().to_str().unwrap().to_owned();
    for path in ["notes.txt".to_owned(), format!("{root}/notes.txt"), "/workspace/notes.txt".into()]
    {
        assert_eq!(fixture.workspace.plain(&path), Ok("notes.txt".to_owned()));
        assert_eq!(fixture.workspace.read(&path).unwrap(), b"hello", "{path}");
    }
    for path in
        [format!("{root}-evil/notes.txt"), "/workspaces/notes.txt".into(), "/notes.txt".into()]
    {
        assert!(fixture.workspace.read(&path).is_err(), "{path}");
    }
    assert_eq!(fixture.workspace.plain("/workspace"), Ok(".".to_owned()));
}

#[test]
fn a_link_inside_is_read_and_not_written() {
    let fixture = fixture();
    symlink("notes.txt", fixture.root().join("link")).unwrap();
    assert_eq!(fixture.workspace.read("link").unwrap(), b"hello");
    let error = fixture.workspace.write("link", b"x", &draft(1), || true).unwrap_err();
    assert_eq!(error.to_string(), "link: it is a symbolic link; write to its target");
    assert_eq!(fixture.workspace.read("notes.txt").unwrap(), b"hello");
}

#[test]
fn a_file_that_is_too_large_is_neither_read_nor_written() {
    let fixture = fixture();
    let huge = fs::File::create(fixture.root().join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let too_large = |path: &str| format!("{path} is larger than 16777216 bytes");
    assert_eq!(fixture.workspace.read("huge").unwrap_err().to_string(), too_large("huge"));
    let content = vec![b'x'; MAX_FILE + 1];
    let error = fixture.workspace.write("new", &content, &draft(1), || true).unwrap_err();
    assert_eq!(error.to_string(), too_large("new"));
}

#[test]
fn a_named_folder_is_not_opened_through_a_link() {
    let fixture = fixture();
    let outer = fixture.outer.path().canonicalize().unwrap();
    let named = |name: &str| Workspace::named(outer.join(name));
    assert_eq!(named("work").read("notes.txt").unwrap(), b"hello");
    symlink("work", outer.join("alias")).unwrap();
    assert!(named("alias").read("notes.txt").is_err());
    assert!(named("missing").read("notes.txt").is_err());
    assert!(!outer.join("missing").exists());
}

#[test]
fn sessions_may_use_configured_folders_only() {
    let fixture = fixture();
    let outer = fixture.outer.path().canonicalize().unwrap();
    fs::create_dir_all(outer.join("work/sub")).unwrap();
    fs::create_dir(outer.join("work-evil")).unwrap();
    symlink("../work-evil", outer.join("work/link")).unwrap();
    let roots = Roots::new(vec![outer.join("work")]);
    let allowed = |path: &str| roots.allow(outer.join(path).to_str().unwrap());
    assert!(allowed("work") && allowed("work/sub"));
    for path in ["", "work-evil", "work/../work-evil", "work/link", "work/notes.txt", "work/no"] {
        assert!(!allowed(path), "{path}");
    }
    assert!(!roots.allow("work") && !roots.allow("/") && !roots.allow(""));
    assert!(!Roots::default().allow(outer.join("work").to_str().unwrap()));
}

#[test]
fn stored_results_are_limited_and_read_only() {
    let fixture = fixture();
    for call in 0..40 {
        let claim = Fence { run_id: RunId::new(), attempt: 1, worker: WorkerId::new() };
        let draft = Draft::new(claim, &call.to_string());
        let path = fixture.workspace.store_result(&call.to_string(), &draft).unwrap();
        assert_eq!(fixture.workspace.read(&path).unwrap(), call.to_string().as_bytes());
        assert!(fixture.workspace.write(&path, b"x", &draft, || true).is_err());
    }
    assert_eq!(fixture.workspace.list(".twostep/results").unwrap().len(), 32);
    assert_eq!(fixture.workspace.read(".twostep/.gitignore").unwrap(), b"*\n");
    fs::remove_dir_all(fixture.root().join(".twostep")).unwrap();
    symlink(fixture.outer.path(), fixture.root().join(".twostep")).unwrap();
    assert!(fixture.workspace.store_result("x", &draft(1)).is_err());
    assert!(!fixture.outer.path().join("results").exists());
}
