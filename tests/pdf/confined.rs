//! The process that reads a document.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::written::{page, stream};
use super::{PROGRAM, reader};

/// Waits for something to come about.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it does not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the kernel says of a process.
fn status(process: &Path) -> HashMap<String, String> {
    let text = fs::read_to_string(process.join("status")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect()
}

/// A helper that waits for its document, once it has given up all that it gives up.
struct Waiting(Child);

impl Waiting {
    fn start() -> Self {
        let mut child = Command::new(PROGRAM);
        child.args(["__pdf", "limit", "1000"]).env("SECRET", "planted-in-the-environment");
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let waiting = Self(child.spawn().unwrap());
        // The last thing that it gives up.
        until(|| (status(&waiting.place()).get("Seccomp")? == "2").then_some(()));
        waiting
    }

    fn place(&self) -> PathBuf {
        Path::new("/proc").join(self.0.id().to_string())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn it_has_no_rights_no_environment_and_little_of_the_machine() {
    let waiting = Waiting::start();
    let status = status(&waiting.place());
    let of = |key: &str| status.get(key).map(String::as_str);
    assert_eq!(of("NoNewPrivs"), Some("1"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(of(set), Some("0000000000000000"), "{set}");
    }
    assert_eq!(of("Threads"), Some("1"));
    assert_eq!(fs::read(waiting.place().join("environ")).unwrap(), b"");
    assert_eq!(fs::read_link(waiting.place().join("cwd")).unwrap(), Path::new("/"));
    assert_eq!(fs::read_dir(waiting.place().join("fd")).unwrap().count(), 3);
    let limits = fs::read_to_string(waiting.place().join("limits")).unwrap();
    for (limit, most) in [
        ("Max cpu time", "10"),
        ("Max data size", "536870912"),
        ("Max core file size", "0"),
        ("Max file size", "0"),
        ("Max open files", "3"),
        ("Max processes", "0"),
    ] {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit)).unwrap();
        let [soft, hard] = line.split_whitespace().take(2).collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!((soft, hard), (most, most), "{limit}");
    }
}

#[test]
fn it_answers_in_one_line_of_json() {
    let mut waiting = Waiting::start();
    let hello = page(stream("", b"BT /F 9 Tf (Hello) Tj ET"), super::hostile::FONT, &[]);
    waiting.0.stdin.take().unwrap().write_all(&hello).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(waiting.0.stdout.as_mut().unwrap(), &mut answer).unwrap();
    assert_eq!(answer, r#"{"Ok":{"title":null,"pages":["Hello"],"left_out":0}}"#);
}

/// The helpers that were asked for so many bytes of text: how long each has computed, in
/// hundredths of a second.
fn helpers(most: usize) -> Vec<u64> {
    let ends = format!("\0{most}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_one = |process: &PathBuf| {
        let command = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        command.contains("__pdf") && command.ends_with(&ends)
    };
    let computed = |process: PathBuf| {
        let stat = fs::read_to_string(process.join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(11)?.parse().ok()
    };
    processes.filter(is_one).filter_map(computed).collect()
}

#[tokio::test]
async fn it_ends_when_nobody_waits_for_it() {
    // A number by which it is known.
    const MOST: usize = 1_234_567;
    let drawings: Vec<Vec<u8>> = (7..=16)
        .map(|next| {
            let own = format!("/Subtype/Form/Resources<</XObject<</D{next} {next} 0 R>>>>");
            stream(&own, format!("/D{next} Do ").repeat(10).as_bytes())
        })
        .collect();
    let long = page(stream("", b"/D6 Do"), super::hostile::FONT, &drawings);
    let reading = tokio::spawn(async move { reader().read(&long, MOST).await });
    // It has the document, and is at it.
    until_async(|| helpers(MOST).iter().any(|computed| *computed > 30)).await;
    reading.abort();
    until_async(|| helpers(MOST).is_empty()).await;
}

async fn until_async(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(8);
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not come about");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
