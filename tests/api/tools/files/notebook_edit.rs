//! `NotebookEdit`.

use std::fs;

use serde_json::{Value, json};

use super::{edit, failure, read, run, service, success};
use crate::support::Setup;

const NOTEBOOK: &str = include_str!("../../../fixtures/notebooks/plain.ipynb");
const SCHEMA: &str = include_str!("../../../fixtures/notebooks/nbformat-4.5.schema.json");

#[tokio::test(flavor = "multi_thread")]
async fn cells_are_replaced_inserted_and_deleted_in_a_notebook_that_was_read() {
    let call = |cell: &str, mode: &str, source: &str| {
        let input = json!({ "notebook_path": "a.ipynb", "cell_id": cell, "edit_mode": mode,
                            "cell_type": "code", "new_source": source });
        ("NotebookEdit", input)
    };
    let app = service(
        &[
            call("code-1", "replace", "x = 2"),
            read("a.ipynb"),
            call("code-1", "replace", "x = 2"),
            call("code-1", "insert", "y = 3"),
            call("last", "delete", ""),
            call("last", "delete", ""),
            edit("a.ipynb", "x = 2", "x = 3"),
        ],
        Setup::default(),
    )
    .await;
    app.write_file("a.ipynb", NOTEBOOK);
    let results = run(&app).await;
    assert_eq!(
        results[0],
        failure("File has not been read yet. Read it first before writing to it.")
    );
    assert!(results[1].1.contains("→<cell id=\"code-1\" type=\"code\">"), "{}", results[1].1);
    assert_eq!(results[2], success("Updated cell code-1 with x = 2"));
    assert_eq!(results[4], success("Deleted cell last"));
    assert!(results[5].1.contains("there is no cell \"last\""), "{}", results[5].1);
    assert_eq!(results[6], failure("a.ipynb is a notebook; use NotebookEdit to change its cells"));

    let text = fs::read_to_string(app.folder.path().join("a.ipynb")).unwrap();
    let notebook: Value = serde_json::from_str(&text).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    assert!(schema.is_valid(&notebook), "{text}");
    let sources: Vec<&Value> =
        notebook["cells"].as_array().unwrap().iter().map(|cell| &cell["source"]).collect();
    assert_eq!(sources, [&json!(["# Title"]), &json!(["x = 2"]), &json!(["y = 3"])]);
}
