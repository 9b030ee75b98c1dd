//! What is inside can be used, and nothing outside can be reached.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::LazyLock;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;
use crate::domain::claim::Fence;
use crate::domain::ids::{RunId, WorkerId};

/// A workspace beside a secret.
struct Place {
    outer: TempDir,
    workspace: Workspace,
}

fn place() -> Place {
    let outer = TempDir::new().unwrap();
    let root = outer.path().join("work");
    fs::create_dir(&root).unwrap();
    fs::write(outer.path().join("secret"), "canary").unwrap();
    fs::write(root.join("notes.txt"), "hello").unwrap();
    Place { workspace: Workspace::new(root), outer }
}

/// The draft of one attempt at the same call.
fn draft(attempt: i32) -> Draft {
    static RUN: LazyLock<RunId> = LazyLock::new(RunId::new);
    Draft::new(Fence { run_id: *RUN, attempt, worker: WorkerId::new() }, "toolu_1")
}

impl Place {
    fn drafts(&self) -> usize {
        let is_draft = |entry: &Listed| entry.name.starts_with(".twostep-");
        self.workspace.list(".").unwrap().iter().filter(|entry| is_draft(entry)).count()
    }

    fn root(&self) -> PathBuf {
        self.outer.path().join("work")
    }
}

#[test]
fn a_file_inside_is_read_by_its_relative_and_by_its_full_path() {
    let place = place();
    let full = place.root().join("notes.txt");
    for path in ["notes.txt", "./notes.txt", "x/../notes.txt", full.to_str().unwrap()] {
        fs::create_dir_all(place.root().join("x")).unwrap();
        assert_eq!(place.workspace.read(path).unwrap(), b"hello", "{path}");
    }
}

#[test]
fn nothing_outside_is_read_or_written() {
    let place = place();
    symlink("../secret", place.root().join("link")).unwrap();
    symlink(place.outer.path(), place.root().join("folder")).unwrap();
    fs::create_dir(place.root().join("x")).unwrap();
    let secret = place.outer.path().join("secret");
    for path in [
        "../secret",
        "link",
        "folder/secret",
        "x/../../secret",
        "/etc/passwd",
        "/proc/self/environ",
        secret.to_str().unwrap(),
    ] {
        assert!(place.workspace.read(path).is_err(), "{path}");
        assert!(place.workspace.hash(path).is_err(), "{path}");
        assert!(place.workspace.write(path, b"x", &draft(1), || true).is_err(), "{path}");
    }
    assert!(place.workspace.list("..").is_err());
    assert!(place.workspace.list("folder").is_err());
    assert_eq!(fs::read(secret).unwrap(), b"canary");
}

#[test]
fn only_regular_files_are_opened() {
    let place = place();
    let fifo = place.root().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let error = place.workspace.read("fifo").unwrap_err();
    assert_eq!(error.to_string(), "fifo: not a regular file");
    assert_eq!(place.workspace.read(".").unwrap_err().to_string(), ".: it is a folder");
}

#[test]
fn a_missing_file_is_said_to_be_missing() {
    let place = place();
    let error = place.workspace.read("nope.txt").unwrap_err();
    assert_eq!(error.to_string(), "nope.txt: there is no such file or folder");
    assert_eq!(place.workspace.hash("nope.txt"), Ok(None));
}

#[test]
fn a_write_makes_folders_keeps_permissions_and_leaves_nothing_else() {
    let place = place();
    place.workspace.write("a/b/c.txt", b"new", &draft(1), || true).unwrap();
    assert_eq!(place.workspace.read("a/b/c.txt").unwrap(), b"new");
    let script = place.root().join("notes.txt");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    place.workspace.write("notes.txt", b"changed", &draft(1), || true).unwrap();
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
    let names: Vec<String> =
        place.workspace.list(".").unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a", "notes.txt"]);
}

#[test]
fn what_other_programs_would_run_is_not_written() {
    let place = place();
    for path in [".git/hooks/pre-commit", "sub/.GIT/config", ".git"] {
        let error = place.workspace.write(path, b"x", &draft(1), || true).unwrap_err();
        assert_eq!(error.to_string(), format!("{path} is protected and cannot be written"));
    }
}

#[test]
fn a_link_does_not_lead_a_write_to_what_is_protected() {
    let place = place();
    fs::create_dir_all(place.root().join(".git/hooks")).unwrap();
    symlink(".git", place.root().join("g")).unwrap();
    let error = place.workspace.write("g/hooks/evil", b"x", &draft(1), || true).unwrap_err();
    assert_eq!(error.to_string(), "g/hooks/evil: g is a link");
    assert!(!place.root().join(".git/hooks/evil").exists());
}

#[test]
fn a_write_that_was_given_up_leaves_the_file_and_nothing_else() {
    let place = place();
    assert!(place.workspace.write("notes.txt", b"late", &draft(1), || false).is_err());
    assert_eq!(place.workspace.read("notes.txt").unwrap(), b"hello");
    assert_eq!(place.workspace.list(".").unwrap().len(), 1);
}

#[test]
fn a_folder_is_not_overwritten() {
    let place = place();
    fs::create_dir(place.root().join("sub")).unwrap();
    assert_eq!(
        place.workspace.write("sub", b"x", &draft(1), || true).unwrap_err().to_string(),
        "sub: it is a folder"
    );
    assert!(place.workspace.write("", b"x", &draft(1), || true).is_err());
}

#[test]
fn a_workspace_is_made_when_it_is_first_used() {
    let outer = TempDir::new().unwrap();
    let workspace = Workspace::new(outer.path().join("new/one"));
    assert_eq!(workspace.list(".").unwrap(), []);
}

#[test]
fn a_workspace_has_its_real_name_before_it_is_there() {
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
fn a_new_file_that_somebody_else_makes_at_the_last_moment_is_left_alone() {
    let place = place();
    let theirs = place.root().join("new.txt");
    let written = place.workspace.write("new.txt", b"ours", &draft(1), || {
        fs::write(&theirs, "theirs").unwrap();
        true
    });
    let told = "new.txt: somebody else has just made it; read it first";
    assert_eq!(written.unwrap_err().to_string(), told);
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    assert_eq!(place.drafts(), 0);
}

#[test]
fn a_path_is_no_longer_than_can_be_remembered() {
    let place = place();
    let longest = format!("{}bc", "a/".repeat(1023));
    assert_eq!(longest.len(), 2048);
    assert_eq!(place.workspace.plain(&longest), Ok(longest.clone()));
    let told = format!("{longest}d: the name is too long");
    assert_eq!(place.workspace.plain(&format!("{longest}d")), Err(ToolError::Failed(told)));
}

#[test]
fn the_next_attempt_clears_away_what_a_dead_one_left() {
    let place = place();
    let written = place.workspace.write("notes.txt", b"new", &draft(1), || {
        // A crash leaves the draft; the next attempt comes before this one goes on.
        assert_eq!(place.drafts(), 1);
        place.workspace.discard_drafts("notes.txt", &draft(1)).unwrap();
        assert_eq!(place.drafts(), 1, "it is our own");
        place.workspace.discard_drafts("notes.txt", &draft(2)).unwrap();
        assert_eq!(place.drafts(), 0);
        true
    });
    assert!(written.is_err());
    assert_eq!(place.workspace.read("notes.txt").unwrap(), b"hello");
    place.workspace.discard_drafts("no/such/folder.txt", &draft(3)).unwrap();
    assert!(place.workspace.discard_drafts("../notes.txt", &draft(3)).is_err());
}

#[test]
fn the_workspace_has_three_names_and_its_neighbours_none() {
    let place = place();
    fs::create_dir(place.outer.path().join("work-evil")).unwrap();
    fs::write(place.outer.path().join("work-evil/notes.txt"), "canary").unwrap();
    let root = place.root().to_str().unwrap().to_owned();
    for path in ["notes.txt".to_owned(), format!("{root}/notes.txt"), "/workspace/notes.txt".into()]
    {
        assert_eq!(place.workspace.plain(&path), Ok("notes.txt".to_owned()));
        assert_eq!(place.workspace.read(&path).unwrap(), b"hello", "{path}");
    }
    for path in
        [format!("{root}-evil/notes.txt"), "/workspaces/notes.txt".into(), "/notes.txt".into()]
    {
        assert!(place.workspace.read(&path).is_err(), "{path}");
    }
    assert_eq!(place.workspace.plain("/workspace"), Ok(".".to_owned()));
}

#[test]
fn a_link_inside_is_read_and_not_written() {
    let place = place();
    symlink("notes.txt", place.root().join("link")).unwrap();
    assert_eq!(place.workspace.read("link").unwrap(), b"hello");
    let error = place.workspace.write("link", b"x", &draft(1), || true).unwrap_err();
    assert_eq!(error.to_string(), "link: it is a link; write to the file that it leads to");
    assert_eq!(place.workspace.read("notes.txt").unwrap(), b"hello");
}

#[test]
fn a_file_that_is_too_large_is_neither_read_nor_written() {
    let place = place();
    let huge = fs::File::create(place.root().join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let too_large = |path: &str| format!("{path} is larger than 16777216 bytes");
    assert_eq!(place.workspace.read("huge").unwrap_err().to_string(), too_large("huge"));
    let content = vec![b'x'; MAX_FILE + 1];
    let error = place.workspace.write("new", &content, &draft(1), || true).unwrap_err();
    assert_eq!(error.to_string(), too_large("new"));
}

#[test]
fn a_folder_that_somebody_named_is_not_reached_through_a_link() {
    let place = place();
    let outer = place.outer.path().canonicalize().unwrap();
    let named = |name: &str| Workspace::named(outer.join(name));
    assert_eq!(named("work").read("notes.txt").unwrap(), b"hello");
    symlink("work", outer.join("alias")).unwrap();
    assert!(named("alias").read("notes.txt").is_err());
    assert!(named("missing").read("notes.txt").is_err());
    assert!(!outer.join("missing").exists());
}

#[test]
fn sessions_choose_among_the_folders_that_are_allowed() {
    let place = place();
    let outer = place.outer.path().canonicalize().unwrap();
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
fn kept_results_are_bounded_and_out_of_reach() {
    let place = place();
    for call in 0..40 {
        let claim = Fence { run_id: RunId::new(), attempt: 1, worker: WorkerId::new() };
        let draft = Draft::new(claim, &call.to_string());
        let path = place.workspace.keep(&call.to_string(), &draft).unwrap();
        assert_eq!(place.workspace.read(&path).unwrap(), call.to_string().as_bytes());
        assert!(place.workspace.write(&path, b"x", &draft, || true).is_err());
    }
    assert_eq!(place.workspace.list(".twostep/results").unwrap().len(), 32);
    assert_eq!(place.workspace.read(".twostep/.gitignore").unwrap(), b"*\n");
    fs::remove_dir_all(place.root().join(".twostep")).unwrap();
    symlink(place.outer.path(), place.root().join(".twostep")).unwrap();
    assert!(place.workspace.keep("x", &draft(1)).is_err());
    assert!(!place.outer.path().join("results").exists());
}
