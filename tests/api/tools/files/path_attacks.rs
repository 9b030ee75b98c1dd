//! Every tool refuses paths that lead out of the workspace or to files that other programs execute.
//! Other paths work.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use twostep::tools::workspace::hash;

use super::results;
use crate::support::{Session, Setup, TestApp, says};

const LIST: &str = include_str!("../../../fixtures/path_attacks.json");
const NOTEBOOK: &str = include_str!("../../../fixtures/notebooks/plain.ipynb");
/// A text that no tool may read; every file outside of the workspace has it.
const CANARY: &str = "canary-2f9d41";
/// Texts that no result may contain: content and names of files outside, users of the machine.
const FORBIDDEN: [&str; 3] = [CANARY, "only-outside", "root:"];

#[derive(Deserialize)]
struct List {
    attacks: Vec<Attack>,
    controls: Vec<Control>,
}

#[derive(Deserialize)]
struct Attack {
    name: String,
    path: String,
    #[serde(default)]
    allowed: Vec<String>,
}

#[derive(Deserialize)]
struct Control {
    tool: String,
    input: Value,
}

/// The workspace `inside`, next to folders that no tool may reach.
struct TestFolders {
    outer: TempDir,
    _socket: UnixListener,
}

impl TestFolders {
    fn new() -> Self {
        let outer = TempDir::new().unwrap();
        let at = |path: &str| outer.path().join(path);
        for folder in ["outside", "inside-evil", "inside/sub", "inside/.git/hooks"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        let book = NOTEBOOK.replace("# Title", CANARY);
        for (path, text) in [
            ("outside/secret.txt", CANARY),
            ("outside/only-outside.txt", CANARY),
            ("outside/hard.txt", "seen from both sides"),
            ("outside/book.ipynb", &book),
            ("inside-evil/secret.txt", CANARY),
            ("inside/notes.txt", "hello\n"),
            ("inside/café.txt", "coffee\n"),
            ("inside/two\nlines.txt", "fine\n"),
            ("inside/sub/inner.txt", "inner\n"),
            ("inside/book.ipynb", NOTEBOOK),
            ("inside/.git/config", "[core]\n"),
        ] {
            fs::write(at(path), text).unwrap();
        }
        let outside = at("outside");
        for (link, target) in [
            ("link-file", "../outside/secret.txt".into()),
            ("link-file-absolute", outside.join("secret.txt")),
            ("link-folder", "../outside".into()),
            ("link-folder-absolute", outside),
            ("link-up", "..".into()),
            ("link-root", "/".into()),
            ("link-proc", "/proc/self/root".into()),
            ("link-environ", "/proc/self/environ".into()),
            ("link-fd", "/proc/self/fd".into()),
            ("link-first", "link-second".into()),
            ("link-second", "link-folder".into()),
            ("link-circle", "link-back".into()),
            ("link-back", "link-circle".into()),
            ("link-dangling", "../outside/new.txt".into()),
            ("link-sub", "sub".into()),
            ("link-inside", "notes.txt".into()),
            ("link-git", ".git".into()),
            ("link-book.ipynb", "../outside/book.ipynb".into()),
            ("sub/link-out", PathBuf::from("../../outside")),
        ] {
            symlink(target, at("inside").join(link)).unwrap();
        }
        fs::hard_link(at("outside/hard.txt"), at("inside/hard.txt")).unwrap();
        fs::File::create(at("inside/huge.bin")).unwrap().set_len(1 << 40).unwrap();
        mknodat(CWD, at("inside/fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self { _socket: UnixListener::bind(at("inside/socket")).unwrap(), outer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.outer.path().canonicalize().unwrap().join(name)
    }

    /// Replaces the placeholders of a text of the list by paths of these folders.
    fn filled(&self, text: &str) -> String {
        text.replace("{root}", self.path("inside").to_str().unwrap())
            .replace("{outside}", self.path("outside").to_str().unwrap())
    }

    /// The files and folders that must not change, with the content of each file.
    fn protected(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut entries = BTreeMap::new();
        for folder in ["outside", "inside-evil", "inside/.git"] {
            collect_entries(&self.path(folder), &mut entries);
        }
        entries
    }
}

fn collect_entries(folder: &Path, entries: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_entries(&path, entries);
            entries.insert(path, None);
        } else {
            entries.insert(path.clone(), Some(fs::read(path).unwrap()));
        }
    }
}

/// One call of each tool with this path: the kind of access, the tool and its input.
fn calls_with(path: &str) -> Vec<(&'static str, &'static str, Value)> {
    let edit = json!({ "old_string": CANARY, "new_string": "owned" });
    let with = |name: &str| {
        let mut input = edit.clone();
        input[name] = json!(path);
        input
    };
    vec![
        ("read", "Read", json!({ "file_path": path })),
        ("read", "read_file", json!({ "path": path })),
        ("list", "LS", json!({ "path": path })),
        ("list", "list_files", json!({ "path": path })),
        ("search", "Glob", json!({ "pattern": "*", "path": path })),
        ("search", "Grep", json!({ "pattern": "can.ry-", "path": path, "output_mode": "content" })),
        ("edit", "Edit", with("file_path")),
        ("edit", "MultiEdit", json!({ "file_path": path, "edits": [edit] })),
        (
            "edit",
            "NotebookEdit",
            json!({ "notebook_path": path, "cell_id": "intro", "new_source": "owned" }),
        ),
        ("write", "write_file", json!({ "path": path, "content": "owned" })),
        ("write", "Write", json!({ "file_path": path, "content": "owned again" })),
    ]
}

/// A message for each attack, one for the controls, and one that checks the session afterwards.
fn script(folders: &TestFolders, list: &List) -> Value {
    let block = |(_, name, input): &(&str, &str, Value)| json!({ "type": "tool_use", "name": name, "input": input });
    let mut conversations: Vec<Value> = Vec::new();
    for (number, attack) in list.attacks.iter().enumerate() {
        let blocks: Vec<Value> =
            calls_with(&folders.filled(&attack.path)).iter().map(block).collect();
        conversations.push(json!({
            "when": format!("attack {number};"),
            "replies": [{ "content": blocks }, says("Tried.")],
        }));
    }
    let controls: Vec<Value> = list
        .controls
        .iter()
        .map(|Control { tool, input }| {
            let input = serde_json::from_str(&folders.filled(&input.to_string())).unwrap();
            block(&("", tool, input))
        })
        .collect();
    conversations.push(json!({ "when": "controls", "replies": [{ "content": controls },
                                                                 says("Done.")] }));
    conversations.push(json!({ "when": "are you well", "replies": [says("I am.")] }));
    json!({ "conversations": conversations, "otherwise": "refuse" })
}

/// Marks the files of the attacks as read by the session, so that no edit is refused only because
/// its file was not read.
async fn mark_as_read(app: &TestApp, session: &Session<'_>, folders: &TestFolders, list: &List) {
    let book = fs::read(folders.path("outside/book.ipynb")).unwrap();
    for attack in &list.attacks {
        let path = folders.filled(&attack.path);
        let is_book = Path::new(&path).extension().is_some_and(|extension| extension == "ipynb");
        let content = if is_book { &book } else { CANARY.as_bytes() };
        if path.contains('\0') {
            continue;
        }
        sqlx::query(
            "INSERT INTO seen_files (session_id, tenant_id, path, hash)
             SELECT id, tenant_id, $2, $3 FROM sessions WHERE id = $1::uuid
             ON CONFLICT DO NOTHING",
        )
        .bind(session.id.trim_start_matches("ses_"))
        .bind(path)
        .bind(hash(content))
        .execute(&app.database.pool(1))
        .await
        .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_refuses_every_path_of_the_list_and_allows_the_controls() {
    let list: List = serde_json::from_str(LIST).unwrap();
    assert!(list.attacks.len() >= 60);
    let folders = TestFolders::new();
    let before = folders.protected();
    let setup = Setup { workspace_roots: vec![folders.path("")], ..Setup::default() };
    let app = TestApp::start_with(script(&folders, &list), setup).await;
    let session = app.session_with(json!({ "workspace": folders.path("inside") })).await;
    mark_as_read(&app, &session, &folders, &list).await;

    session.ask("the controls").await;
    for (control, (is_error, text)) in list.controls.iter().zip(results(&session).await) {
        assert!(!is_error, "{} {}: {text}", control.tool, control.input);
    }
    let mut wrong = Vec::new();
    for (number, attack) in list.attacks.iter().enumerate() {
        let done = results(&session).await.len();
        assert_eq!(session.ask(&format!("attack {number};")).await["status"], "completed");
        let calls = calls_with(&attack.path);
        let outcomes = results(&session).await.split_off(done);
        assert_eq!(outcomes.len(), calls.len());
        for ((kind, tool, _), (is_error, text)) in calls.into_iter().zip(outcomes) {
            let is_allowed = attack.allowed.iter().any(|allowed| allowed == kind);
            // `Write` follows `write_file` here, and may demand a read in between.
            // A search without a match is not an error.
            let is_expected =
                is_error != is_allowed || (tool == "Write" && is_allowed) || kind == "search";
            if !is_expected || FORBIDDEN.iter().any(|part| text.contains(part)) {
                wrong.push(format!("{} by {tool}: {text}", attack.name));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(folders.protected(), before);
    assert_eq!(session.ask("Are you well?").await["output_text"], "I am.");
    // No final check: the history has a NUL of the model, which SQL cannot read.
    assert_eq!(app.simulator.refusals(), Vec::<String>::new());
    app.upstream().assert_prefixes();
    assert_eq!(app.findings().await, Vec::<String>::new());
    app.stop_unchecked().await;
}
