//! The secrets of the service: no other process can read them from its processes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::geteuid;
use tempfile::TempDir;
use tokio::process::Command;
use twostep::domain::ids::RunId;

use crate::support::{PROGRAM, Program, binary, binary_at};

/// The words that run a program as an unprivileged user, if this user is root.
const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A secret that no other test uses.
fn unique_secret() -> String {
    format!("planted-{}", RunId::new())
}

/// The program with a private database, and a secret in each variable that holds one.
fn with_secrets(command: &mut Command, data: &Path, secret: &str) {
    command.args(["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir"]).arg(data);
    for name in [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
        "TWOSTEP_METRICS_KEY",
        "PGPASSWORD",
    ] {
        command.env(name, secret);
    }
    command.env("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization={secret}"));
    // Tool servers receive such variables by name.
    command.env("OF_THE_OPERATOR", secret);
}

/// The processes whose variables or command lines contain a text.
fn processes_with(text: &str) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let files = processes.flat_map(|process| ["environ", "cmdline"].map(|name| process.join(name)));
    let contains = |file: &PathBuf| {
        let content = fs::read(file).unwrap_or_default();
        content.windows(text.len()).any(|part| part == text.as_bytes())
    };
    files.filter(contains).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_the_service_shows_a_secret_in_its_variables_or_its_command_line() {
    let outer = TempDir::new_in("/tmp").unwrap();
    fs::set_permissions(outer.path(), Permissions::from_mode(0o755)).unwrap();
    let secret = unique_secret();
    let mut control = Command::new("sleep").arg("1000").env("SECRET", &secret).spawn().unwrap();
    assert_eq!(processes_with(&secret).len(), 1, "the search finds nothing");
    control.kill().await.unwrap();
    let mut command = binary(&[]);
    with_secrets(&mut command, &outer.path().join("data"), &secret);
    let program = Program::serve(command).await;
    // The service, its database and its watchdogs.
    assert_eq!(processes_with(&secret), Vec::<PathBuf>::new());
    program.terminate().await;
}

/// The error messages of a process of the same user that reads the files of a process in `/proc`.
async fn read_process(words: &[&str], pid: u32) -> String {
    let script = "for name in environ mem maps auxv; do head -c 1 /proc/$0/$name; done; \
                  ls /proc/$0/fd /proc/$0/cwd/; readlink /proc/$0/exe";
    let [first, rest @ ..] = words else { panic!("no program") };
    let mut command = Command::new(first);
    command.args(rest).args(["/bin/sh", "-c", script, &pid.to_string()]);
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output().await.unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_the_same_user_cannot_read_the_memory_or_the_files_of_the_service() {
    let outer = TempDir::new_in("/tmp").unwrap();
    fs::set_permissions(outer.path(), Permissions::from_mode(0o777)).unwrap();
    let words = if geteuid().is_root() { &AS_NOBODY[..] } else { &["env"] };
    // The unprivileged user cannot enter the folder of the program.
    let copy = outer.path().join("twostep");
    fs::copy(PROGRAM, &copy).unwrap();
    let mut command = binary_at(Path::new(words[0]), &words[1..]);
    command.arg(&copy);
    with_secrets(&mut command, &outer.path().join("data"), &unique_secret());
    let program = Program::serve(command).await;
    let refusals = read_process(words, program.pid()).await;
    for name in ["environ", "mem", "maps", "auxv", "fd", "cwd"] {
        let refused =
            |line: &str| line.contains(&format!("/{name}")) && line.contains("Permission denied");
        assert!(refusals.lines().any(refused), "{name}: {refusals}");
    }

    // Another program of this user can be read, so the refusals are due to the service.
    let mut control = Command::new(words[0]);
    let mut control = control.args(&words[1..]).args(["sleep", "1000"]).spawn().unwrap();
    let pid = control.id().unwrap();
    while fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() != "sleep\n" {
        tokio::task::yield_now().await;
    }
    let refusals = read_process(words, pid).await;
    assert!(!refusals.contains("Permission denied"), "{refusals}");
    control.kill().await.unwrap();
    program.terminate().await;
}
