//! A deterministic file tree with the special cases of a search: ignore files, hidden files, links,
//! binary files and several encodings.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

const WORDS: [&str; 12] = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "Needle",
    "needle",
    "straße",
    "naïve",
    "fn main() {",
    "}",
    "import os",
    "日本語",
];
const ENDINGS: [&str; 8] = ["rs", "txt", "md", "py", "js", "log", "toml", "tmp"];
const FOLDERS: [&str; 7] = ["src", "naïve dir", "build", "target", ".cache", "日本", "a.b"];

/// Files with specified content.
const ODD: [(&str, &[u8]); 17] = [
    (".gitignore", b"*.log\n/build/\n!keep.log\n# a comment\n\\#odd\n*.tm[pq]  \n{bad\n"),
    (".git/HEAD", b"ref: refs/heads/main\nneedle\n"),
    (".git/info/exclude", b"excluded.txt\n"),
    (".hidden.txt", b"needle\n"),
    (".ignore", b"from_ignore.txt\n!/notes.log\n"),
    (".rgignore", b"from_rgignore.txt\n"),
    ("notes.log", b"a needle that .ignore lets in again\n"),
    ("keep.log", b"needle\n"),
    ("excluded.txt", b"needle\n"),
    ("from_ignore.txt", b"needle\n"),
    ("from_rgignore.txt", b"needle\n"),
    ("sub/.gitignore", b"*.md\n!*.log\n!.shown\n/only_here.txt\nvendor/**\n"),
    ("sub/.shown", b"needle\n"),
    ("sub/only_here.txt", b"needle\n"),
    ("sub/vendor/lib.rs", b"needle\n"),
    ("sub/deep/only_here.txt", b"needle\n"),
    ("sub/deep/kept.log", b"needle\n"),
];

/// Files that are not plain UTF-8 text with LF line ends.
const BYTES: [(&str, &[u8]); 8] = [
    ("binary.txt", b"\0\x01\x02 needle\nneedle\n"),
    ("late_binary.txt", b"first\nneedle before\n\0 the NUL\nneedle after\n"),
    ("crlf.txt", b"one needle\r\ntwo\r\n"),
    ("no_end.txt", b"needle\nthe last needle"),
    ("latin1.txt", b"caf\xe9 needle\n"),
    ("utf16.txt", b"\xff\xfen\0e\0e\0d\0l\0e\0\n\0"),
    ("bom.txt", b"\xef\xbb\xbfneedle after a mark\n"),
    ("empty.txt", b""),
];

/// Creates the tree in a folder, with `files` generated files.
pub(crate) fn grow(root: &Path, files: usize) {
    for (path, content) in ODD.iter().chain(&BYTES) {
        write(&root.join(path), content);
    }
    // A nested repository: the ignore rules of the outer one do not apply in it.
    write(&root.join("inner/.git/HEAD"), b"ref\n");
    write(&root.join("inner/own.log"), b"needle\n");
    write(&root.join(std::ffi::OsStr::from_bytes(b"bad\xff.txt")), b"needle\n");
    symlink("notes.log", root.join("link.txt")).unwrap();
    symlink("..", root.join("sub/loop")).unwrap();
    symlink("/etc", root.join("etc")).unwrap();
    for number in 0..files {
        write(&root.join(path(number)), text(number).as_bytes());
    }
}

fn write(path: &Path, content: &[u8]) {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(path, content).unwrap();
}

/// Returns the path of a generated file: ten files in each folder, four levels of folders.
fn path(number: usize) -> String {
    let folder = number / 10;
    let names = [FOLDERS[folder % 7], FOLDERS[folder / 7 % 7]];
    let ending = ENDINGS[number * 7 % 8];
    format!("{}/d{}/{}/n{folder}/file {number}.{ending}", names[0], folder % 50, names[1])
}

fn text(number: usize) -> String {
    let line = |line: usize| {
        let word = |place: usize| WORDS[(number * 31 + line * 7 + place * place) % WORDS.len()];
        format!("{} {} {} {number}.{line}\n", word(1), word(2), word(3))
    };
    (0..5 + number % 40).map(line).collect()
}
