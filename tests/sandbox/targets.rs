//! The targets of the attacks: files, sockets and a process outside the sandbox.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, test_kill_process};
use sandbox::{Level, Sandbox, Setting};
use tempfile::TempDir;

/// A text that must never appear in the output of a command.
pub(crate) const CANARY: &str = "CANARY-7f3a91";
/// The size of the file with the canary. The size must not leak either.
const SECRET_SIZE: usize = 31_337;

/// Returns a sandbox of this level, or `None` if `TWOSTEP_TEST_SANDBOX` names another level.
/// Without the variable, no level is skipped.
pub(crate) fn sandbox(level: Level) -> Option<Sandbox> {
    let only = std::env::var("TWOSTEP_TEST_SANDBOX").ok();
    if only.is_some_and(|only| only != level.as_str()) {
        return None;
    }
    // The path of the program for a user who cannot enter the folder of the build.
    let helper = std::env::var_os("TWOSTEP_TEST_HELPER")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_twostep")), PathBuf::from);
    let setting = match level {
        Level::Full => Setting::Full,
        Level::Basic => Setting::Basic,
    };
    Sandbox::with_helper(setting, helper)
}

/// Opens a sandbox for workspaces in this folder.
pub(crate) async fn open_sandbox(sandbox: Sandbox, folder: &Path) -> Sandbox {
    let result = sandbox.open(folder).await;
    result.unwrap_or_else(|error| {
        panic!("{error}; `apt-get install bubblewrap`, or TWOSTEP_TEST_SANDBOX=basic")
    });
    sandbox
}

/// Files, sockets and a process that commands must not reach.
pub(crate) struct Targets {
    outside: TempDir,
    private: TempDir,
    decoy: Child,
    before: BTreeMap<String, String>,
    tcp: TcpListener,
    tcp6: TcpListener,
    udp: UdpSocket,
    stream: UnixListener,
    datagram: UnixDatagram,
    r#abstract: (UnixListener, String),
    _inherited: File,
    workspaces: usize,
}

impl Targets {
    pub(crate) fn new() -> Self {
        let folder = |name: &str| tempfile::Builder::new().prefix(name).tempdir_in("/tmp").unwrap();
        let (outside, private) = (folder("twostep-outside-"), folder("twostep-private-"));
        let mut secret = CANARY.repeat(SECRET_SIZE / CANARY.len() + 1);
        secret.truncate(SECRET_SIZE);
        fs::write(outside.path().join("secret"), &secret).unwrap();
        fs::write(outside.path().join(CANARY), "").unwrap();
        fs::write(outside.path().join("victim"), format!("{CANARY} victim")).unwrap();
        let inherited = File::open(outside.path().join("secret")).unwrap();
        fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
        let name = format!("twostep-{}", outside.path().display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let mut targets = Self {
            decoy: decoy(outside.path()),
            before: BTreeMap::new(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            tcp6: TcpListener::bind("[::1]:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            stream: UnixListener::bind(outside.path().join("stream")).unwrap(),
            datagram: UnixDatagram::bind(outside.path().join("datagram")).unwrap(),
            r#abstract: (UnixListener::bind_addr(&address).unwrap(), name),
            _inherited: inherited,
            workspaces: 0,
            outside,
            private,
        };
        targets.listen();
        targets.before = targets.outside();
        targets
    }

    fn listen(&self) {
        self.tcp.set_nonblocking(true).unwrap();
        self.tcp6.set_nonblocking(true).unwrap();
        self.udp.set_nonblocking(true).unwrap();
        self.stream.set_nonblocking(true).unwrap();
        self.datagram.set_nonblocking(true).unwrap();
        self.r#abstract.0.set_nonblocking(true).unwrap();
    }

    /// The folder of the workspaces.
    pub(crate) fn private(&self) -> &Path {
        self.private.path()
    }

    /// Creates a workspace with a repository.
    pub(crate) fn workspace(&mut self) -> PathBuf {
        self.workspaces += 1;
        let folder = self.private.path().join(self.workspaces.to_string());
        fs::create_dir_all(folder.join(".git/hooks")).unwrap();
        fs::write(folder.join(".git/config"), "[core]\n").unwrap();
        fs::write(folder.join("note"), "a note\n").unwrap();
        folder
    }

    /// Fills in the placeholders of a command: paths, ports, process ids.
    pub(crate) fn fill(&self, command: &str, forever: &str) -> String {
        let port = |address: std::io::Result<std::net::SocketAddr>| address.unwrap().port();
        command
            .replace("{{outside}}", self.outside.path().to_str().unwrap())
            .replace("{{pid}}", &self.decoy.id().to_string())
            .replace("{{tcp}}", &port(self.tcp.local_addr()).to_string())
            .replace("{{tcp6}}", &port(self.tcp6.local_addr()).to_string())
            .replace("{{udp}}", &port(self.udp.local_addr()).to_string())
            .replace("{{abstract}}", &self.r#abstract.1)
            .replace("{{forever}}", forever)
    }

    /// Returns the changes of the targets and the sockets that were reached.
    pub(crate) fn damage(&self) -> Vec<String> {
        let mut damage = Vec::new();
        let now = self.outside();
        if now != self.before {
            damage.push(format!("files outside have changed: {now:?}"));
        }
        let decoy = Pid::from_child(&self.decoy);
        if test_kill_process(decoy).is_err() || is_dead(decoy) {
            damage.push("a process outside has exited".to_owned());
        }
        let mut byte = [0];
        for (name, was_reached) in [
            ("TCP", self.tcp.accept().is_ok()),
            ("TCP over IPv6", self.tcp6.accept().is_ok()),
            ("UDP", self.udp.recv(&mut byte).is_ok()),
            ("a socket with a path", self.stream.accept().is_ok()),
            ("a datagram socket with a path", self.datagram.recv(&mut byte).is_ok()),
            ("an abstract socket", self.r#abstract.0.accept().is_ok()),
        ] {
            if was_reached {
                damage.push(format!("{name} was reached"));
            }
        }
        damage
    }

    /// Restores the file that attacks try to change.
    pub(crate) fn repair(&mut self) {
        let victim = self.outside.path().join("victim");
        let _ = fs::remove_file(&victim);
        fs::write(victim, format!("{CANARY} victim")).unwrap();
        self.before = self.outside();
    }

    /// The metadata of the files outside, and whether their content is intact.
    fn outside(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.outside.path()).unwrap().map(Result::unwrap);
        let files = entries.map(|entry| {
            let data = entry.path().symlink_metadata().unwrap();
            let content = fs::read_to_string(entry.path()).unwrap_or_default();
            let metadata = (data.mode(), data.uid(), data.mtime(), data.nlink(), content.len());
            let is_intact = content.is_empty() || content.starts_with(CANARY);
            (entry.file_name().into_string().unwrap(), format!("{metadata:?} {is_intact}"))
        });
        files.collect()
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.decoy.kill().unwrap();
        self.decoy.wait().unwrap();
    }
}

/// A process of the same user, with the canary in its arguments, environment, folder and open
/// files.
fn decoy(folder: &Path) -> Child {
    let secret = File::open(folder.join("secret")).unwrap();
    Command::new("/usr/bin/perl")
        .args(["-e", "sleep 3600", CANARY])
        .env_clear()
        .env("SECRET", CANARY)
        .current_dir(folder)
        .stdin(Stdio::from(secret))
        .spawn()
        .unwrap()
}

fn is_dead(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}

/// Waits up to a second until no process has this argument. Returns the processes that still do.
pub(crate) fn survivors(argument: &str) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        let left = processes_with(argument);
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the processes that have this argument.
pub(crate) fn processes_with(argument: &str) -> Vec<String> {
    let found = processes().filter_map(|process| arguments_with(&process, argument));
    found.collect()
}

/// Waits until the first thread of a process with this argument has exited.
pub(crate) async fn wait_until_first_thread_exits(argument: &str) {
    let deadline = Instant::now() + Duration::from_mins(1);
    let has_exited = |process: &PathBuf| {
        let stat = fs::read_to_string(process.join("stat"));
        stat.is_ok_and(|stat| stat.contains(") Z ")) && arguments_with(process, argument).is_some()
    };
    while !processes().any(|process| has_exited(&process)) {
        assert!(Instant::now() < deadline, "no first thread has exited");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn processes() -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path())
}

/// Returns the arguments of a process, if `argument` is among them. They are read from each thread,
/// because an exited thread has none.
fn arguments_with(process: &Path, argument: &str) -> Option<String> {
    let threads = fs::read_dir(process.join("task")).ok()?.flatten();
    let mut arguments = threads.filter_map(|thread| {
        let mut arguments = Vec::new();
        let mut file = File::open(thread.path().join("cmdline")).ok()?;
        file.read_to_end(&mut arguments).ok()?;
        Some(String::from_utf8_lossy(&arguments).replace('\0', " "))
    });
    arguments.find(|arguments| arguments.contains(argument))
}
