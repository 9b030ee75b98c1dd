//! Changes of files in a folder that another process has locked to replace a file.

use std::fs::{self, File};

use serde_json::json;

use super::{edit, failure, read, results, write};
use crate::support::{Setup, TestApp, calls, says};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_not_changed_while_another_process_replaces_a_file_of_its_folder() {
    let call = |(name, input): (&str, _)| calls(name, input);
    let script = json!({ "conversations": [
        { "when": "locked", "replies": [
            call(read("a.txt")),
            call(edit("a.txt", "1", "2")),
            call(write("new.txt", "new")),
            call(write("sub/b.txt", "b")),
            says("Done."),
        ] },
        { "when": "open", "replies": [call(edit("a.txt", "1", "3")), says("Done.")] },
    ]});
    let app = TestApp::start_with(script, Setup::default()).await;
    app.write_file("a.txt", "1\n");
    let session = app.session().await;
    let folder = app.folder.path();
    let content = |name: &str| fs::read_to_string(folder.join(name)).ok();

    // A lock of this handle excludes the service as a lock of another process does.
    let other = File::open(folder).unwrap();
    other.lock().unwrap();
    session.ask("It is locked").await;
    let refused = |path: &str| {
        failure(&format!(
            "{path}: another change of a file in its folder has not ended; it was not changed by \
             this call. Try again later, and read it again first"
        ))
    };
    let found = results(&session).await;
    assert_eq!(found[1..3], [refused("a.txt"), refused("new.txt")]);
    assert!(!found[3].0, "another folder is not locked: {}", found[3].1);
    assert_eq!((content("a.txt"), content("new.txt")), (Some("1\n".to_owned()), None));

    other.unlock().unwrap();
    session.ask("Now open").await;
    assert_eq!(content("a.txt").as_deref(), Some("3\n"));
    let left = fs::read_dir(folder).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(".twostep-"));
    assert_eq!(left.count(), 0, "a refused change leaves no temporary file");
}
