//! Rules for single files: their length, and import cycles between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::sources;

/// The maximum number of lines of a file without its inline tests.
const MAX_LINES: usize = 350;

/// The maximum number of files in an import cycle of each module. The numbers only shrink.
const MAX_CYCLE: [(&str, usize); 19] = [
    ("agent", 4),
    ("app", 0),
    ("bus", 3),
    ("cli", 4),
    ("config", 6),
    ("domain", 4),
    ("faults", 3),
    ("http", 3),
    ("metrics", 0),
    ("model", 2),
    ("outbound", 4),
    ("service", 0),
    ("spans", 4),
    ("store", 4),
    ("telemetry", 2),
    ("tokens", 5),
    ("tools", 6),
    ("webhooks", 0),
    ("worker", 2),
];

/// The path of a module under `src`, such as `["http", "server", "cors"]`.
type ModulePath = Vec<String>;

/// A source text without inline tests, comments and visibilities, which name modules but import
/// nothing.
fn code(text: &str) -> String {
    let mut code = String::new();
    for line in without_tests(text).lines() {
        let line = line.split_once("//").map_or(line, |(code, _comment)| code);
        code.push_str(&without_visibilities(line));
        code.push('\n');
    }
    code
}

fn without_tests(text: &str) -> &str {
    text.split_once("\n#[cfg(test)]\nmod ").map_or(text, |(code, _tests)| code)
}

fn without_visibilities(line: &str) -> String {
    let mut rest = line;
    let mut kept = String::new();
    while let Some((before, visibility)) = rest.split_once("pub(in ") {
        kept.push_str(before);
        rest = visibility.split_once(')').map_or("", |(_path, after)| after);
    }
    kept + rest
}

/// The paths that a `use` tree names: `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn paths_of_tree(tree: &str, prefix: &[String], found: &mut Vec<ModulePath>) {
    let tree = tree.trim();
    let (head, group) = match tree.split_once('{') {
        Some((head, group)) => (head, group.trim_end().strip_suffix('}')),
        None => (tree, None),
    };
    let head = head.split(" as ").next().unwrap_or(head);
    let names = head.split("::").map(str::trim).filter(|name| !name.is_empty());
    let path: ModulePath = prefix.iter().cloned().chain(names.map(str::to_owned)).collect();
    let Some(group) = group else {
        found.push(path);
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                paths_of_tree(&group[start..at], &path, found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !group[start..].trim().is_empty() {
        paths_of_tree(&group[start..], &path, found);
    }
}

/// All paths that a source text names, in `use` items and in its code.
fn paths(code: &str) -> Vec<ModulePath> {
    let mut found = Vec::new();
    let mut body = String::new();
    let mut rest = code;
    while let Some(at) = find_use(rest) {
        body.push_str(&rest[..at]);
        let item = &rest[at + "use ".len()..];
        let end = item.find(';').unwrap_or(item.len());
        paths_of_tree(&item[..end], &[], &mut found);
        rest = &item[end..];
    }
    body.push_str(rest);
    let is_of_path =
        |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    for word in body.split(|letter: char| !is_of_path(letter)) {
        let names: ModulePath =
            word.split("::").map(str::to_owned).filter(|name| !name.is_empty()).collect();
        if names.len() > 1 {
            found.push(names);
        }
    }
    found
}

fn find_use(text: &str) -> Option<usize> {
    let is_start = |at: &usize| text[..*at].chars().next_back().is_none_or(char::is_whitespace);
    text.match_indices("use ").map(|(at, _)| at).find(is_start)
}

/// The absolute path of a path that a module names.
fn resolve(path: &[String], module: &[String]) -> ModulePath {
    match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("self") => [module, &path[1..]].concat(),
        Some("super") => {
            let up = path.iter().take_while(|name| *name == "super").count();
            let base = &module[..module.len().saturating_sub(up)];
            [base, &path[up..]].concat()
        }
        _ => [module, path].concat(),
    }
}

/// The files of a module of the crate, and those of its files that each one imports.
fn import_graph(module: &str) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src.join(module), &mut files);
    let texts: BTreeMap<ModulePath, String> = files
        .iter()
        .filter(|file| !file.ends_with("tests.rs"))
        .map(|file| {
            let path = file.strip_prefix(&src).unwrap().with_extension("");
            let mut names: ModulePath =
                path.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
            names.pop_if(|name| name == "mod");
            (names, code(&fs::read_to_string(file).unwrap()))
        })
        .collect();
    let file_of = |mut path: ModulePath| {
        while !path.is_empty() && !texts.contains_key(&path) {
            path.pop();
        }
        path
    };
    texts
        .iter()
        .map(|(module, text)| {
            let imported = paths(text).into_iter().map(|path| file_of(resolve(&path, module)));
            let imported = imported.filter(|file| !file.is_empty() && file != module).collect();
            (module.clone(), imported)
        })
        .collect()
}

/// All files that can be reached from each file along its imports.
fn reachable(
    graph: &BTreeMap<ModulePath, BTreeSet<ModulePath>>,
) -> BTreeMap<&ModulePath, BTreeSet<&ModulePath>> {
    let from = |start| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(file) = open.pop() {
            open.extend(graph[file].iter().filter(|next| seen.insert(*next)));
        }
        seen
    };
    graph.keys().map(|file| (file, from(file))).collect()
}

/// The largest set of files of which each imports each other one, directly or through others.
fn largest_cycle(graph: &BTreeMap<ModulePath, BTreeSet<ModulePath>>) -> Vec<String> {
    let reachable = reachable(graph);
    let cycle_of = |file: &ModulePath| -> Vec<String> {
        let is_in_cycle = |other: &&&ModulePath| reachable[**other].contains(file);
        reachable[file].iter().filter(is_in_cycle).map(|other| other.join("::")).collect()
    };
    graph.keys().map(cycle_of).max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn import_cycles_are_small() {
    let mut read = 0;
    for (module, max) in MAX_CYCLE {
        let graph = import_graph(module);
        assert!(graph.len() > 1, "only {} files of {module} were read", graph.len());
        read += graph.len();
        let cycle = largest_cycle(&graph);
        assert!(
            cycle.len() <= max,
            "{} files of {module} import each other: {cycle:#?}",
            cycle.len()
        );
    }
    assert!(read > 500, "only {read} files were read");
}

#[test]
fn every_folder_of_src_has_a_maximum_cycle() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = fs::read_dir(src).unwrap().map(|entry| entry.unwrap().path());
    let folders: BTreeSet<String> = entries
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let known: BTreeSet<String> =
        MAX_CYCLE.iter().map(|(module, _)| (*module).to_owned()).collect();
    assert_eq!(folders, known);
}

#[test]
fn no_file_is_longer_than_the_limit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("crates"), &mut files);
    let longer: Vec<String> = files
        .iter()
        .filter(|file| !file.ends_with("tests.rs"))
        .filter(|file| {
            without_tests(&fs::read_to_string(file).unwrap()).lines().count() > MAX_LINES
        })
        .map(|file| file.strip_prefix(root).unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(longer.is_empty(), "more than {MAX_LINES} lines without tests: {longer:#?}");
}

#[test]
fn all_paths_of_a_use_tree_are_found() {
    let mut found = Vec::new();
    paths_of_tree("crate::a::{b, c::{D, E}, f as g}", &[], &mut found);
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["crate::a::b", "crate::a::c::D", "crate::a::c::E", "crate::a::f"]);
}

#[test]
fn a_cycle_is_found_and_a_chain_is_not_a_cycle() {
    let name = |name: &str| vec![name.to_owned()];
    let graph = [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec!["b", "d"]), ("d", vec![])];
    let graph = graph
        .map(|(file, imports)| (name(file), imports.into_iter().map(name).collect()))
        .into_iter()
        .collect();
    assert_eq!(largest_cycle(&graph), ["b", "c"]);
}
