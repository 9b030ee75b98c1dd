//! Processes of real proxies, with the documented configuration files of `docs/proxies/`.

use std::fs::{create_dir, read_to_string, write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::support::{data_dir, machine};

/// The maximum time of a start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A program that is a proxy in front of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Nginx,
    Caddy,
    HaProxy,
}

/// A running proxy. It is killed when the value is dropped.
pub(crate) struct RunningProxy {
    child: Child,
    pub(super) address: SocketAddr,
    folder: TempDir,
}

impl ProxyKind {
    /// The proxies that this machine tests.
    pub(crate) fn installed() -> Vec<Self> {
        let all = [(Self::Nginx, "nginx"), (Self::Caddy, "caddy"), (Self::HaProxy, "haproxy")];
        let installed = all.into_iter().filter(|(_, program)| !machine::is_left_out(program));
        installed.map(|(kind, _)| kind).collect()
    }

    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Nginx => "nginx.conf",
            Self::Caddy => "Caddyfile",
            Self::HaProxy => "haproxy.cfg",
        }
    }

    /// The documented file with other ports and with paths that an unprivileged user can write.
    fn configuration(self, own: SocketAddr, service: SocketAddr, folder: &Path) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/proxies").join(self.file());
        let mut text = read_to_string(path).unwrap();
        let mut replace = |old: &str, new: &str| {
            assert_eq!(text.matches(old).count(), 1, "{}: {old:?}", self.file());
            text = text.replace(old, new);
        };
        let (own, service) = (own.to_string(), service.to_string());
        match self {
            Self::Nginx => {
                replace("        listen 80;", &format!("        listen {own};"));
                replace("        server 127.0.0.1:8080;", &format!("        server {service};"));
                let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
                let folder = folder.display();
                let lines = folders.map(|name| format!("{name}_temp_path {folder}/{name};"));
                replace("\nhttp {", &format!("\nhttp {{\naccess_log off;\n{}", lines.join("\n")));
            }
            Self::Caddy => {
                let port = own.rsplit_once(':').unwrap().1;
                replace("\n:80 {", &format!("\n:{port} {{\n\tbind 127.0.0.1"));
                replace("reverse_proxy 127.0.0.1:8080", &format!("reverse_proxy {service}"));
            }
            Self::HaProxy => {
                replace("    bind :80\n", &format!("    bind {own}\n"));
                replace("server one 127.0.0.1:8080", &format!("server one {service}"));
            }
        }
        text
    }

    /// The command that runs the proxy in the foreground and writes only into this folder.
    fn command(self, folder: &Path) -> Command {
        let file = folder.join(self.file());
        let mut command = match self {
            Self::Nginx => {
                let mut command = Command::new("nginx");
                let pid = folder.join("pid");
                let globals = format!("daemon off; master_process off; pid {};", pid.display());
                command.arg("-p").arg(folder).args(["-e", "stderr", "-g", &globals]);
                command.arg("-c").arg(file);
                command
            }
            Self::Caddy => {
                let mut command = Command::new("caddy");
                command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
                // Every user with access to this socket can change the configuration.
                command.env("CADDY_ADMIN", format!("unix/{}", folder.join("admin").display()));
                command
            }
            Self::HaProxy => {
                let mut command = Command::new("haproxy");
                command.arg("-db").arg("-f").arg(file);
                command
            }
        };
        // The PATH of an unprivileged user may lack the folder in which Debian installs servers.
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{path}:/usr/sbin")).env("HOME", folder);
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME").kill_on_drop(true);
        command
    }
}

impl RunningProxy {
    /// Starts a proxy in front of the service on a free port, and waits until it listens.
    pub(crate) async fn start(service: SocketAddr, kind: ProxyKind) -> Self {
        Self::start_changed(service, kind, &[]).await
    }

    /// As `start`, with changes of the configuration: each replaces a text by another. `FOLDER` is the
    /// folder of the proxy.
    pub(super) async fn start_changed(
        service: SocketAddr,
        kind: ProxyKind,
        changes: &[(&str, &str)],
    ) -> Self {
        let folder = data_dir();
        let own = free();
        let mut text = kind.configuration(own, service, folder.path());
        for (old, new) in changes {
            assert_eq!(text.matches(old).count(), 1, "{}: {old:?}", kind.file());
            text = text.replace(old, &new.replace("FOLDER", folder.path().to_str().unwrap()));
        }
        write(folder.path().join(kind.file()), text).unwrap();
        create_dir(folder.path().join("logs")).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = kind.command(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("{kind:?} cannot be started: {error}; `scripts/ensure-proxies` installs it")
        });
        let mut running = Self { child, address: own, folder };
        running.wait_until_it_listens(kind).await;
        running
    }

    async fn wait_until_it_listens(&mut self, kind: ProxyKind) {
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(self.address).await.is_err() {
            let log = || read_to_string(self.folder.path().join("log")).unwrap();
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{kind:?} exited at its start, {status}: {}", log());
            }
            assert!(Instant::now() < deadline, "{kind:?} does not listen: {}", log());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills the proxy and waits until it has exited.
    pub(crate) async fn stop(mut self) {
        self.child.kill().await.unwrap();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// An unused address. Its port is not in the ephemeral range of the system, which could assign it
/// to another process before the proxy binds it.
pub(super) fn free() -> SocketAddr {
    const FIRST: u32 = 20_000;
    const PORTS: u32 = 12_000;
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 100 + NUMBER.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + number % PORTS).unwrap();
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener.local_addr().unwrap();
        }
    }
}
