//! Tests of notebook edits: the result is a valid notebook, and other cells keep their bytes.

use serde_json::{Value, json};

use super::*;

const NOTEBOOK: &str = include_str!("../../../../tests/fixtures/notebooks/plain.ipynb");
const SCHEMA: &str = include_str!("../../../../tests/fixtures/notebooks/nbformat-4.5.schema.json");

fn edit(input: &Value) -> Result<(String, String), ToolError> {
    let mut whole = json!({ "notebook_path": "a.ipynb", "new_source": "" });
    whole.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
    edited(NOTEBOOK, &serde_json::from_value(whole).unwrap(), "toolu_1")
}

/// Applies an edit, validates the result against the nbformat schema, and returns it with the text
/// for the model.
fn valid(input: &Value) -> (String, String) {
    let (text, said) = edit(input).unwrap();
    assert_valid(&text);
    (text, said)
}

fn assert_valid(text: &str) {
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let notebook: Value = serde_json::from_str(text).unwrap();
    let problems: Vec<String> =
        schema.iter_errors(&notebook).map(|error| error.to_string()).collect();
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn the_schema_refuses_invalid_notebooks() {
    assert_valid(NOTEBOOK);
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    for (what, pointer, value) in [
        ("outputs of another kind", "/cells/1/outputs", json!({})),
        ("an id with a blank", "/cells/0/id", json!("a b")),
        ("a source that is no text", "/cells/0/source", json!(1)),
    ] {
        let mut notebook: Value = serde_json::from_str(NOTEBOOK).unwrap();
        *notebook.pointer_mut(pointer).unwrap() = value;
        assert!(!schema.is_valid(&notebook), "{what}");
    }
}

#[test]
fn replacing_a_cell_removes_its_outputs_and_preserves_all_other_bytes() {
    let (text, said) = valid(&json!({ "cell_id": "code-1", "new_source": "x = 2\nprint(x)" }));
    assert_eq!(said, "Updated cell code-1 with x = 2\nprint(x)");
    let old = "   \"execution_count\": 1,\n   \"id\": \"code-1\",\n   \"metadata\": {},\n   \
               \"outputs\": [\n    {\n     \"name\": \"stdout\",\n     \"output_type\": \
               \"stream\",\n     \"text\": [\n      \"1\\n\"\n     ]\n    }\n   ],\n   \
               \"source\": [\n    \"x = 1\\n\",\n    \"print(x)\"\n   ]\n";
    let new = "   \"execution_count\": null,\n   \"id\": \"code-1\",\n   \"metadata\": {},\n   \
               \"outputs\": [],\n   \"source\": [\n    \"x = 2\\n\",\n    \"print(x)\"\n   ]\n";
    assert!(NOTEBOOK.contains(old));
    assert_eq!(text, NOTEBOOK.replace(old, new));
}

#[test]
fn the_type_of_a_cell_can_be_changed() {
    let (text, _) =
        valid(&json!({ "cell_id": "code-1", "new_source": "# x", "cell_type": "markdown" }));
    let cell = serde_json::from_str::<Value>(&text).unwrap()["cells"][1].clone();
    assert_eq!(
        cell,
        json!({ "cell_type": "markdown", "id": "code-1", "metadata": {}, "source": ["# x"] })
    );
}

#[test]
fn a_cell_is_inserted_after_another_or_at_the_top() {
    for (input, place) in
        [(json!({ "cell_id": "intro" }), 1), (json!({ "cell_id": "last" }), 3), (json!({}), 0)]
    {
        let mut input = input;
        input["edit_mode"] = json!("insert");
        input["cell_type"] = json!("code");
        input["new_source"] = json!("y = 3");
        let (text, said) = valid(&input);
        let mut cells = serde_json::from_str::<Value>(&text).unwrap()["cells"].clone();
        let cell = cells.as_array_mut().unwrap().remove(place);
        assert_eq!(cells, serde_json::from_str::<Value>(NOTEBOOK).unwrap()["cells"]);
        let id = cell["id"].as_str().unwrap();
        assert_eq!(
            cell,
            json!({ "cell_type": "code", "execution_count": null, "id": id, "metadata": {},
                    "outputs": [], "source": ["y = 3"] })
        );
        assert_eq!(said, format!("Inserted cell {id} with y = 3"));
        // Removing the cell restores the text.
        let without = Notebook::read(&text).unwrap().without(place);
        assert_eq!(without, NOTEBOOK);
    }
}

#[test]
fn one_cell_or_all_cells_can_be_deleted() {
    let mut text = NOTEBOOK.to_owned();
    for id in ["code-1", "last", "intro"] {
        let input = json!({ "notebook_path": "a.ipynb", "cell_id": id, "new_source": "",
                            "edit_mode": "delete" });
        let said;
        (text, said) = edited(&text, &serde_json::from_value(input).unwrap(), "").unwrap();
        assert_valid(&text);
        assert_eq!(said, format!("Deleted cell {id}"));
    }
    assert!(text.contains("\"cells\": [],"), "{text}");
    let (text, _) =
        Notebook::read(&text).unwrap().inserted(None, CellType::Raw, "x", &[1, 2, 3, 4]);
    assert_valid(&text);
    assert!(text.contains("\"cells\": [\n  {\n   \"cell_type\": \"raw\",\n"), "{text}");
}

#[test]
fn unknown_cells_are_refused() {
    let invalid = |text: &str| Err(ToolError::Invalid(text.to_owned()));
    assert_eq!(
        edit(&json!({ "cell_id": "nope" })),
        invalid("there is no cell \"nope\"; the cells are intro, code-1, last")
    );
    assert_eq!(edit(&json!({})), invalid("cell_id is required to replace or delete a cell"));
    assert_eq!(
        edit(&json!({ "edit_mode": "insert" })),
        invalid("cell_type is required to insert a cell")
    );
}

/// A notebook of a format without IDs, with these sources.
fn old_notebook(sources: &[&str]) -> String {
    let cell = |source: &&str| json!({ "cell_type": "markdown", "metadata": {}, "source": source });
    let cells: Vec<Value> = sources.iter().map(cell).collect();
    json!({ "cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4 }).to_string()
}

/// The sources and the names of the cells.
fn cells_of(text: &str) -> (Vec<String>, Vec<String>) {
    let notebook = Notebook::read(text).unwrap();
    let sources = notebook.cells.iter().map(|cell| cell.fields().source.text()).collect();
    let names = (0..notebook.cells.len()).map(|place| notebook.name(place).to_owned());
    (sources, names.collect())
}

/// Applies a change of the named cell.
fn change(text: &str, name: &str, mode: &str, source: &str) -> Result<(String, String), ToolError> {
    let input = json!({ "notebook_path": "a.ipynb", "cell_id": name, "edit_mode": mode,
                        "cell_type": "markdown", "new_source": source });
    edited(text, &serde_json::from_value(input).unwrap(), "toolu_1")
}

#[test]
fn a_cell_without_an_id_keeps_its_name_when_other_cells_are_deleted_inserted_and_replaced() {
    let text = old_notebook(&["a", "b", "c", "d"]);
    let (_, names) = cells_of(&text);
    let (text, said) = change(&text, &names[0], "delete", "").unwrap();
    assert_eq!(said, format!("Deleted cell {}", names[0]));
    let (text, said) = change(&text, &names[1], "insert", "new").unwrap();
    let new = cells_of(&text).1.remove(1);
    assert_eq!(said, format!("Inserted cell {new} with new"));
    let (text, said) = change(&text, &names[2], "replace", "C").unwrap();
    let changed = cells_of(&text).1.remove(2);
    assert_eq!(said, format!("Updated cell {}, whose name is now {changed}, with C", names[2]));
    let (text, _) = change(&text, &names[3], "replace", "D").unwrap();
    assert_eq!(cells_of(&text).0, ["b", "new", "C", "D"]);
    assert!(!text.contains("\"id\"") && !text.contains('\n'), "{text}");
}

#[test]
fn a_name_that_no_longer_refers_to_the_cell_that_was_read_is_refused() {
    let text = old_notebook(&["a", "same", "same"]);
    let (_, names) = cells_of(&text);
    let (text, _) = change(&text, &names[0], "delete", "").unwrap();
    for name in ["cell-0", names[0].as_str(), &names[1], &names[2]] {
        let error = change(&text, name, "replace", "x").unwrap_err().to_string();
        let (_, now) = cells_of(&text);
        let expected = format!(
            "there is no cell {name:?}. The name of a cell without an ID of its own changes when \
             the cell changes, or when cells with the same content do: read the notebook again; \
             the cells are {}",
            now.join(", ")
        );
        assert_eq!(error, expected);
    }
    let (_, names) = cells_of(&text);
    let (text, _) = change(&text, &names[1], "replace", "second").unwrap();
    assert_eq!(cells_of(&text).0, ["same", "second"]);
}

#[test]
fn a_notebook_is_shown_as_a_list_of_cells() {
    assert_eq!(
        shown(NOTEBOOK).unwrap(),
        "<cell id=\"intro\" type=\"markdown\">\n# Title\n</cell>\n\
         <cell id=\"code-1\" type=\"code\">\nx = 1\nprint(x)\n</cell>\n\
         <output>\n1\n</output>\n\
         <cell id=\"last\" type=\"code\">\n\n</cell>\n"
    );
    assert_eq!(shown("{}"), None);
}
