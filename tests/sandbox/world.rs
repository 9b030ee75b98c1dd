//! What commands could get at if they were not confined.

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

/// What must never be seen in a command's output.
pub(crate) const CANARY: &str = "CANARY-7f3a91";
/// The size of the file with the canary: metadata gives away something as well.
const SECRET_SIZE: usize = 31_337;

/// The level to be tested, or none where the machine is said not to have it. Nothing is left out
/// unless somebody has said so.
pub(crate) fn sandbox(level: Level) -> Option<Sandbox> {
    let only = std::env::var("TWOSTEP_TEST_SANDBOX").ok();
    if only.is_some_and(|only| only != level.as_str()) {
        return None;
    }
    // Where the program lies for a user who cannot reach the folder that it was built in.
    let helper = std::env::var_os("TWOSTEP_TEST_HELPER")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_twostep")), PathBuf::from);
    let setting = match level {
        Level::Full => Setting::Full,
        Level::Basic => Setting::Basic,
    };
    Sandbox::with_helper(setting, helper)
}

/// Opens a sandbox, whose workspaces are in this folder.
pub(crate) async fn opened(sandbox: Sandbox, folder: &Path) -> Sandbox {
    let opened = sandbox.open(folder).await;
    opened.unwrap_or_else(|error| {
        panic!("{error}; `apt-get install bubblewrap`, or TWOSTEP_TEST_SANDBOX=basic")
    });
    sandbox
}

/// Files, sockets and a process that commands have no business with.
pub(crate) struct World {
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

impl World {
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
        let mut world = Self {
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
        world.listen();
        world.before = world.outside();
        world
    }

    fn listen(&self) {
        self.tcp.set_nonblocking(true).unwrap();
        self.tcp6.set_nonblocking(true).unwrap();
        self.udp.set_nonblocking(true).unwrap();
        self.stream.set_nonblocking(true).unwrap();
        self.datagram.set_nonblocking(true).unwrap();
        self.r#abstract.0.set_nonblocking(true).unwrap();
    }

    /// The folder that workspaces are in.
    pub(crate) fn private(&self) -> &Path {
        self.private.path()
    }

    /// A workspace of its own, with a repository.
    pub(crate) fn workspace(&mut self) -> PathBuf {
        self.workspaces += 1;
        let folder = self.private.path().join(self.workspaces.to_string());
        fs::create_dir_all(folder.join(".git/hooks")).unwrap();
        fs::write(folder.join(".git/config"), "[core]\n").unwrap();
        fs::write(folder.join("note"), "a note\n").unwrap();
        folder
    }

    /// A command with the names of what there is here.
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

    /// What has changed of it, and who has called.
    pub(crate) fn damage(&self) -> Vec<String> {
        let mut damage = Vec::new();
        let now = self.outside();
        if now != self.before {
            damage.push(format!("files outside have changed: {now:?}"));
        }
        let decoy = Pid::from_child(&self.decoy);
        if test_kill_process(decoy).is_err() || is_dead(decoy) {
            damage.push("a process outside has ended".to_owned());
        }
        let mut byte = [0];
        for (name, heard) in [
            ("TCP", self.tcp.accept().is_ok()),
            ("TCP over IPv6", self.tcp6.accept().is_ok()),
            ("UDP", self.udp.recv(&mut byte).is_ok()),
            ("a socket with a path", self.stream.accept().is_ok()),
            ("a datagram socket with a path", self.datagram.recv(&mut byte).is_ok()),
            ("an abstract socket", self.r#abstract.0.accept().is_ok()),
        ] {
            if heard {
                damage.push(format!("{name} was reached"));
            }
        }
        damage
    }

    /// Puts the file back that is there to be harmed.
    pub(crate) fn repair(&mut self) {
        let victim = self.outside.path().join("victim");
        let _ = fs::remove_file(&victim);
        fs::write(victim, format!("{CANARY} victim")).unwrap();
        self.before = self.outside();
    }

    /// The files outside: what can be seen of each, and what is in it.
    fn outside(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.outside.path()).unwrap().map(Result::unwrap);
        let seen = entries.map(|entry| {
            let data = entry.path().symlink_metadata().unwrap();
            let content = fs::read_to_string(entry.path()).unwrap_or_default();
            let seen = (data.mode(), data.uid(), data.mtime(), data.nlink(), content.len());
            let is_whole = content.is_empty() || content.starts_with(CANARY);
            (entry.file_name().into_string().unwrap(), format!("{seen:?} {is_whole}"))
        });
        seen.collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.decoy.kill().unwrap();
        self.decoy.wait().unwrap();
    }
}

/// A process of the same user, with something to hide in every place that a process has.
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

/// Waits until no process has this among its arguments, and says which still do after a second.
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

/// The processes that have this among their arguments.
pub(crate) fn processes_with(argument: &str) -> Vec<String> {
    let found = processes().filter_map(|process| arguments_with(&process, argument));
    found.collect()
}

/// Waits until a process with this among its arguments has ended its first thread.
pub(crate) async fn beheaded(argument: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_beheaded = |process: &PathBuf| {
        let stat = fs::read_to_string(process.join("stat"));
        stat.is_ok_and(|stat| stat.contains(") Z ")) && arguments_with(process, argument).is_some()
    };
    while !processes().any(|process| is_beheaded(&process)) {
        assert!(Instant::now() < deadline, "no first thread has ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn processes() -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path())
}

/// The arguments of a process, if this is among them. Each of its threads is asked: one that has
/// ended has none.
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
