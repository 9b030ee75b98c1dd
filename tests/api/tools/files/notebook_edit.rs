//! `NotebookEdit`.

use std::fs;

use serde_json::{Value, json};

use super::{edit, failure, read, results, run, service, success};
use crate::support::{Setup, TestApp, calls, replies, says};

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

/// The names and the types of the cells in a result of Read.
fn names(shown: &str) -> Vec<String> {
    let cells = shown.lines().filter_map(|line| line.split_once("<cell id=\"")?.1.split_once('"'));
    cells.map(|(name, _)| name.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_edits_of_one_reply_change_the_cells_that_were_read_also_without_ids() {
    let cell = |source: &str| json!({ "cell_type": "markdown", "metadata": {}, "source": source });
    let cells = ["a", "b", "c", "d"].map(cell);
    let notebook = json!({ "cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4 });
    let reads = || calls("Read", json!({ "file_path": "a.ipynb" }));
    // The names depend on the notebook alone: a first service reads them.
    let app = TestApp::start(replies(&[reads(), says("Done.")])).await;
    app.write_file("a.ipynb", &notebook.to_string());
    let names = names(&run(&app).await.remove(0).1);

    let change = |name: &String, mode: &str, source: &str| {
        let input = json!({ "notebook_path": "a.ipynb", "cell_id": name, "edit_mode": mode,
                            "cell_type": "markdown", "new_source": source });
        json!({ "type": "tool_use", "name": "NotebookEdit", "input": input })
    };
    let changes = json!({ "content": [
        change(&names[0], "delete", ""),
        change(&names[1], "insert", "new"),
        change(&names[2], "replace", "C"),
        change(&names[3], "replace", "D"),
        change(&names[0], "replace", "deleted"),
    ]});
    let app = TestApp::start(replies(&[reads(), changes, says("Done.")])).await;
    app.write_file("a.ipynb", &notebook.to_string());
    let session = app.session().await;
    session.ask("Go").await;
    let failed: Vec<bool> = results(&session).await.into_iter().map(|(failed, _)| failed).collect();
    let text = fs::read_to_string(app.folder.path().join("a.ipynb")).unwrap();
    let notebook: Value = serde_json::from_str(&text).unwrap();
    let sources: String = notebook["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| {
            cell["source"].as_str().map_or_else(|| cell["source"][0].to_string(), str::to_owned)
        })
        .collect();
    assert_eq!(sources, "b\"new\"\"C\"\"D\"");
    assert_eq!(failed, [false, false, false, false, false, true]);
}
