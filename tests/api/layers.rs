//! The layer rules: which module may import which, and how long files may be.

mod files;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A module and the modules of this crate that it may import.
const MAY_IMPORT: [(&str, &[&str]); 15] = [
    ("faults", &[]),
    ("domain", &[]),
    ("agent", &["domain"]),
    ("store", &["domain"]),
    ("model", &["domain"]),
    ("bus", &["domain"]),
    ("tools", &["domain", "store", "model", "outbound"]),
    ("metrics", &["domain", "agent", "spans"]),
    ("outbound", &[]),
    ("spans", &["domain"]),
    ("webhooks", &["domain", "store", "outbound", "metrics"]),
    ("tokens", &["domain"]),
    ("worker", &["domain", "agent", "store", "model", "tools", "bus", "metrics", "spans"]),
    ("service", &["domain", "agent", "store", "bus", "tools", "metrics", "outbound"]),
    ("http", &["domain", "service", "store", "bus", "tools", "metrics", "spans", "tokens"]),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules of this crate that a source text names.
fn imports(text: &str) -> BTreeSet<&str> {
    text.split("crate::")
        .skip(1)
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            &rest[..end.unwrap_or(rest.len())]
        })
        .collect()
}

#[test]
fn modules_import_only_what_they_may() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = 0;
    for (module, allowed) in MAY_IMPORT {
        let mut files = Vec::new();
        let file = src.join(module).with_extension("rs");
        if file.exists() {
            files.push(file);
        } else {
            sources(&src.join(module), &mut files);
        }
        for file in files {
            seen += 1;
            let text = fs::read_to_string(&file).unwrap();
            for import in imports(&text) {
                // Every layer may have a fault point at which the crash test stops the process.
                let is_allowed =
                    import == module || import == "faults" || allowed.contains(&import);
                assert!(is_allowed, "{} imports crate::{import}", file.display());
            }
        }
    }
    assert!(seen > 50, "only {seen} files were read");
}

#[test]
fn every_module_of_the_crate_is_in_the_table() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let declared: BTreeSet<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let mut known: BTreeSet<&str> = MAY_IMPORT.iter().map(|(module, _)| *module).collect();
    // These may import everything.
    known.extend(["app", "cli", "config", "telemetry"]);
    assert_eq!(declared, known);
}

#[test]
fn routes_read_the_database_through_the_service() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/routes"), &mut files);
    assert!(files.len() > 20, "only {} files were read", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for connection in ["PgConnection", ".pool", "_pool"] {
            assert!(!text.contains(connection), "{} names {connection}", file.display());
        }
    }
}
