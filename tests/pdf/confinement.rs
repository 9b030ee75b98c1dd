//! The confinement of the process that reads a document.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::builder::{page, stream};
use super::{PROGRAM, reader};

/// Waits until `poll` returns a value.
fn wait_for<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < deadline, "the condition does not become true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The fields of `/proc/PID/status`.
fn status(process: &Path) -> HashMap<String, String> {
    let text = fs::read_to_string(process.join("status")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect()
}

/// A helper process that has dropped its rights and waits for its document.
struct Waiting(Child);

impl Waiting {
    fn start() -> Self {
        let mut child = Command::new(PROGRAM);
        child.args(["__pdf", "limit", "1000"]).env("SECRET", "planted-in-the-environment");
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let waiting = Self(child.spawn().unwrap());
        // Seccomp is the last restriction that it applies.
        wait_for(|| (status(&waiting.folder()).get("Seccomp")? == "2").then_some(()));
        waiting
    }

    fn folder(&self) -> PathBuf {
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
fn the_helper_has_no_rights_no_environment_and_tight_limits() {
    let waiting = Waiting::start();
    let status = status(&waiting.folder());
    let of = |key: &str| status.get(key).map(String::as_str);
    assert_eq!(of("NoNewPrivs"), Some("1"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(of(set), Some("0000000000000000"), "{set}");
    }
    assert_eq!(of("Threads"), Some("1"));
    assert_eq!(fs::read(waiting.folder().join("environ")).unwrap(), b"");
    assert_eq!(fs::read_link(waiting.folder().join("cwd")).unwrap(), Path::new("/"));
    assert_eq!(fs::read_dir(waiting.folder().join("fd")).unwrap().count(), 3);
    let limits = fs::read_to_string(waiting.folder().join("limits")).unwrap();
    for (limit, expected) in [
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
        assert_eq!((soft, hard), (expected, expected), "{limit}");
    }
}

#[test]
fn the_helper_answers_in_one_line_of_json() {
    let mut waiting = Waiting::start();
    let hello = page(stream("", b"BT /F 9 Tf (Hello) Tj ET"), super::hostile::FONT, &[]);
    waiting.0.stdin.take().unwrap().write_all(&hello).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(waiting.0.stdout.as_mut().unwrap(), &mut answer).unwrap();
    assert_eq!(answer, r#"{"Ok":{"title":null,"pages":["Hello"],"left_out":0}}"#);
}

/// Returns the CPU time, in hundredths of a second, of each helper that was started with this limit
/// of text.
fn cpu_times(limit: usize) -> Vec<u64> {
    let ends = format!("\0{limit}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_helper = |process: &PathBuf| {
        let command = fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        command.contains("__pdf") && command.ends_with(&ends)
    };
    let cpu_time = |process: PathBuf| {
        let stat = fs::read_to_string(process.join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(11)?.parse().ok()
    };
    processes.filter(is_helper).filter_map(cpu_time).collect()
}

#[tokio::test]
async fn the_helper_is_killed_when_the_reading_is_aborted() {
    // A limit that identifies the helper of this test.
    const LIMIT: usize = 1_234_567;
    let drawings: Vec<Vec<u8>> = (7..=16)
        .map(|next| {
            let own = format!("/Subtype/Form/Resources<</XObject<</D{next} {next} 0 R>>>>");
            stream(&own, format!("/D{next} Do ").repeat(10).as_bytes())
        })
        .collect();
    let long = page(stream("", b"/D6 Do"), super::hostile::FONT, &drawings);
    let reading = tokio::spawn(async move { reader().read(&long, LIMIT).await });
    // The helper has read the document and is extracting its text.
    wait_until(|| cpu_times(LIMIT).iter().any(|cpu_time| *cpu_time > 30)).await;
    reading.abort();
    wait_until(|| cpu_times(LIMIT).is_empty()).await;
}

async fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(8);
    while !condition() {
        assert!(Instant::now() < deadline, "the condition does not become true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
