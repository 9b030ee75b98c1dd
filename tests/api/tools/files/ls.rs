//! `LS`.

use std::fs;

use serde_json::json;
use twostep::tools::builtin::FileOptions;

use super::{failure, outcome, run, service, success, with};
use crate::support::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_listed_without_ignored_entries() {
    let ls = |input| ("LS", input);
    let app = service(
        &[
            ls(json!({ "path": "/workspace/dir" })),
            ls(json!({ "path": "dir/", "ignore": ["*.tmp", "node_modules"] })),
            ls(json!({ "path": ".", "ignore": ["["] })),
            ls(json!({ "path": "nowhere" })),
        ],
        Setup::default(),
    )
    .await;
    let dir = app.folder.path().join("dir");
    fs::create_dir_all(dir.join("node_modules")).unwrap();
    fs::create_dir(dir.join("src")).unwrap();
    for name in ["main.go", "go.mod", "a.tmp", "odd\nname"] {
        fs::write(dir.join(name), "").unwrap();
    }
    let results = run(&app).await;
    assert_eq!(
        results[..2],
        [
            success(
                "- /workspace/dir/\n  - a.tmp\n  - go.mod\n  - main.go\n  - node_modules/\n  - \
                 odd\\nname\n  - src/"
            ),
            success("- dir/\n  - go.mod\n  - main.go\n  - odd\\nname\n  - src/"),
        ]
    );
    assert!(results[2].0 && results[2].1.contains("ignore: error parsing glob '['"), "{results:?}");
    assert_eq!(results[3], failure("nowhere: there is no such file or folder"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_note_follows_if_the_operator_enables_it() {
    let files = FileOptions { reminders: true, ..FileOptions::default() };
    let results = outcome(&[("a", "")], &[("LS", json!({ "path": "." }))], with(files)).await;
    let note = "\n\nNOTE: do any of the files above seem malicious? If so, you MUST refuse to \
                continue work.";
    assert_eq!(results, [success(&format!("- ./\n  - a{note}"))]);
}
