//! Paths that lead out of the workspace, or to what other programs run: every tool refuses them,
//! and does its work otherwise.

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
/// What must never be read: in all that is outside.
const CANARY: &str = "canary-2f9d41";
/// What no result may say: what is outside, the names of files there, and users of the machine.
const NEVER: [&str; 3] = [CANARY, "only-outside", "root:"];

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

/// The workspace `inside`, and beside it what must not be reached.
struct Arena {
    outer: TempDir,
    _socket: UnixListener,
}

impl Arena {
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

    /// A text of the list with the folders of this arena.
    fn filled(&self, text: &str) -> String {
        text.replace("{root}", self.path("inside").to_str().unwrap())
            .replace("{outside}", self.path("outside").to_str().unwrap())
    }

    /// All that must stay as it is, with its content.
    fn guarded(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        for folder in ["outside", "inside-evil", "inside/.git"] {
            gather(&self.path(folder), &mut found);
        }
        found
    }
}

fn gather(folder: &Path, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, found);
            found.insert(path, None);
        } else {
            found.insert(path.clone(), Some(fs::read(path).unwrap()));
        }
    }
}

/// The calls that try a path, and of what kind they are.
fn tries(path: &str) -> Vec<(&'static str, &'static str, Value)> {
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

/// A message for each attack, one for the controls, and one to see that the session still works.
fn script(arena: &Arena, list: &List) -> Value {
    let block = |(_, name, input): &(&str, &str, Value)| json!({ "type": "tool_use", "name": name, "input": input });
    let mut conversations: Vec<Value> = Vec::new();
    for (number, attack) in list.attacks.iter().enumerate() {
        let blocks: Vec<Value> = tries(&arena.filled(&attack.path)).iter().map(block).collect();
        conversations.push(json!({
            "when": format!("attack {number};"),
            "replies": [{ "content": blocks }, says("Tried.")],
        }));
    }
    let controls: Vec<Value> = list
        .controls
        .iter()
        .map(|Control { tool, input }| {
            let input = serde_json::from_str(&arena.filled(&input.to_string())).unwrap();
            block(&("", tool, input))
        })
        .collect();
    conversations.push(json!({ "when": "controls", "replies": [{ "content": controls },
                                                                 says("Done.")] }));
    conversations.push(json!({ "when": "are you well", "replies": [says("I am.")] }));
    json!({ "conversations": conversations, "otherwise": "refuse" })
}

/// Lets the session have seen the secrets under the names of the attacks, so that no edit is
/// refused only because its file was never read.
async fn pretend_seen(app: &TestApp, session: &Session<'_>, arena: &Arena, list: &List) {
    let book = fs::read(arena.path("outside/book.ipynb")).unwrap();
    for attack in &list.attacks {
        let path = arena.filled(&attack.path);
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
async fn every_path_of_the_list_is_refused_by_every_tool_and_nothing_else_is() {
    let list: List = serde_json::from_str(LIST).unwrap();
    assert!(list.attacks.len() >= 60);
    let arena = Arena::new();
    let before = arena.guarded();
    let setup = Setup { workspace_roots: vec![arena.path("")], ..Setup::default() };
    let app = TestApp::start_with(script(&arena, &list), setup).await;
    let session = app.session_with(json!({ "workspace": arena.path("inside") })).await;
    pretend_seen(&app, &session, &arena, &list).await;

    session.ask("the controls").await;
    for (control, (is_error, text)) in list.controls.iter().zip(results(&session).await) {
        assert!(!is_error, "{} {}: {text}", control.tool, control.input);
    }
    let mut wrong = Vec::new();
    for (number, attack) in list.attacks.iter().enumerate() {
        let done = results(&session).await.len();
        assert_eq!(session.ask(&format!("attack {number};")).await["status"], "completed");
        let tries = tries(&attack.path);
        let outcomes = results(&session).await.split_off(done);
        assert_eq!(outcomes.len(), tries.len());
        for ((kind, tool, _), (is_error, text)) in tries.into_iter().zip(outcomes) {
            let is_allowed = attack.allowed.iter().any(|allowed| allowed == kind);
            // What may be written may be written again; Write asks for a reading in between.
            // A search that finds nothing is no error.
            let is_expected =
                is_error != is_allowed || (tool == "Write" && is_allowed) || kind == "search";
            if !is_expected || NEVER.iter().any(|word| text.contains(word)) {
                wrong.push(format!("{} by {tool}: {text}", attack.name));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(arena.guarded(), before);
    assert_eq!(session.ask("Are you well?").await["output_text"], "I am.");
    // Not all that others check: a NUL in what the model wrote is kept, and SQL cannot read it.
    assert_eq!(app.simulator.refusals(), Vec::<String>::new());
    app.upstream().assert_prefixes();
    assert_eq!(app.findings().await, Vec::<String>::new());
    app.stop_unchecked().await;
}
