//! A race between a search and the replacement of a folder by a symbolic link.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::tools::search::{Filter, SearchOrigin, Watch, walk};
use crate::tools::workspace::Workspace;

const ROUNDS: usize = 3000;

/// Walks by path. This is the control: it must find files outside of the workspace.
fn by_path(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            by_path(&path, found);
        }
        found.push(path.display().to_string());
    }
}

#[test]
fn a_folder_replaced_by_a_link_reveals_no_names_outside_of_the_workspace() {
    let outer = TempDir::new().unwrap();
    let root = outer.path().join("work");
    fs::create_dir_all(root.join("folder/deeper")).unwrap();
    fs::create_dir_all(outer.path().join("elsewhere/deeper")).unwrap();
    for name in ["work/folder/deeper/inside.txt", "elsewhere/deeper/outside.txt"] {
        fs::write(outer.path().join(name), "").unwrap();
    }
    symlink(outer.path().join("elsewhere"), root.join("link")).unwrap();
    let (one, other) = (root.join("folder"), root.join("link"));
    let workspace = Workspace::new(root.clone());
    let filter = Filter::new(&workspace, Path::new(""), None, None).unwrap();
    let (watch, _guard) = Watch::of(&CancellationToken::new());
    let is_over = AtomicBool::new(false);
    let (mut fooled, mut found) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            let origin = SearchOrigin::new(&workspace, ".").unwrap();
            let seen = walk(&origin, &filter, &watch, |file| Some(file.path)).unwrap();
            found.extend(seen.into_iter().map(|path| path.display().to_string()));
            by_path(&root, &mut fooled);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let from_outside =
        |paths: &[String]| paths.iter().filter(|path| path.contains("outside")).count();
    assert_eq!(from_outside(&found), 0);
    assert!(found.iter().any(|path| path.ends_with("inside.txt")), "the walk saw nothing");
    assert!(
        from_outside(&fooled) > 0,
        "the control found no file outside: the test proves nothing"
    );
}
