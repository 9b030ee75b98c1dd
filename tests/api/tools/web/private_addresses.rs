//! `WebFetch` never connects to a private address, in any spelling, by name or after a redirect.
//!
//! The test runs in a network namespace of its own. All addresses are local to it and it serves
//! DNS, so it sees every connection.

use std::env;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::json;
use serde_json::value::to_raw_value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;
use twostep::tools::workspace::Workspace;
use twostep::tools::{Registry, ToolContext, builtin};

use super::dns_server::{self, Names};
use super::failed;
use super::fetch::web_options;
use crate::support::machine;

/// Set in the environment of the test that runs in the namespace.
const INSIDE: &str = "TWOSTEP_TEST_NAMESPACE";
/// Sets up the namespace: every address is local, and the DNS server is 127.0.0.1.
const SET_UP: &str = "set -e
    ip link set lo up
    ip route add local default dev lo
    ip -6 route add local default dev lo
    printf 'nameserver 127.0.0.1\\n' > \"$2\"
    mount --bind \"$2\" /etc/resolv.conf
    exec \"$1\" --exact \"$3::inside\" --ignored --nocapture";
/// A public address.
const PUBLIC: &str = "93.184.216.34";
/// A host that the operator allows.
const LISTED: &str = "listed.test:8080";

/// URLs of private addresses in all spellings.
const PRIVATE: [&str; 44] = [
    "http://127.0.0.1/",
    "https://127.0.0.1/",
    "http://127.0.0.1:8080/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.0.1./",
    "http://127%2e0.0.1/",
    "http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/",
    "http://127\u{3002}0\u{3002}0\u{3002}1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://172.16.0.1/",
    "http://192.0.0.1/",
    "http://192.168.0.1/",
    "http://198.18.0.1/",
    "http://[::]/",
    "http://[::1]/",
    "http://[::1]:8080/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:a00:1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::169.254.169.254]/",
    "http://[64:ff9b:1::a00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://[fc00::1]/",
    "http://[fd00::1]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST/",
    "http://a.localhost/",
    "http://me@127.0.0.1/",
    "http://listed.test:8081/",
];
/// URLs of names that do not resolve, or that have a private address.
const NAMED: [&str; 9] = [
    "http://private.test/",
    "http://loopback.test/",
    "http://metadata.test/",
    "http://zero.test/",
    "http://six.test/",
    "http://mapped.test/",
    "http://nat64.test/",
    "http://both.test/",
    "http://unknown.test/",
];
/// URLs of a public address with a port that does not belong to the scheme.
const WRONG_PORTS: [&str; 3] =
    ["http://public.test:22/", "https://public.test:8080/", "https://public.test:80/"];

#[test]
fn private_addresses_are_never_connected_to() {
    if machine::is_left_out("namespaces") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let output = command
        .args(["--net", "--mount", "sh", "-c", SET_UP, "sh"])
        .arg(env::current_exe().unwrap())
        .arg(folder.path().join("resolv.conf"))
        .arg(module_path!().strip_prefix("api::").unwrap())
        .env(INSIDE, "yes")
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(
        output.status.success() && printed[0].contains("1 passed"),
        "{}{}",
        printed[0],
        printed[1]
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it, in a namespace"]
async fn inside() {
    assert!(env::var_os(INSIDE).is_some(), "the requests would reach the real network");
    dns_server::serve(UdpSocket::bind("127.0.0.1:53").unwrap(), names());
    let seen = listen_everywhere().await;
    controls(&seen).await;

    let browser = Browser::new();
    let refused = failed("fetch failed");
    for url in PRIVATE.iter().chain(&NAMED).chain(&WRONG_PORTS) {
        assert_eq!(browser.fetch(url).await, refused, "{url}");
        let redirect = format!("http://{LISTED}/?{url}");
        assert_eq!(browser.fetch(&redirect).await, refused, "{redirect}");
    }
    // A name with a public address at the first lookup and private addresses afterwards.
    for _ in 0..4 {
        assert_eq!(browser.fetch("http://rebound.test/").await, refused);
    }

    let at = |address: &str| address.parse::<SocketAddr>().unwrap();
    let (listed, public) = (at(&format!("{PUBLIC}:8080")), at(&format!("{PUBLIC}:443")));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let (allowed, others): (Vec<_>, Vec<_>) =
        seen.into_iter().partition(|seen| *seen == listed || *seen == public);
    assert_eq!(others, []);
    let count = |address| allowed.iter().filter(|seen| **seen == address).count();
    // Connections for the redirects, some of them reused, and one for the first lookup of the name.
    assert!(count(listed) > 0 && count(public) == 1, "{allowed:?}");
}

fn names() -> Names {
    let at = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let always = |name, texts: &[&str]| (name, vec![at(texts)]);
    Names::from([
        always("public.test", &[PUBLIC]),
        always("listed.test", &[PUBLIC]),
        always("private.test", &["10.0.0.1"]),
        always("loopback.test", &["127.0.0.1"]),
        always("metadata.test", &["169.254.169.254"]),
        always("zero.test", &["0.0.0.0"]),
        always("six.test", &["fd00::1"]),
        always("mapped.test", &["::ffff:10.0.0.1"]),
        always("nat64.test", &["64:ff9b::a00:1"]),
        always("both.test", &[PUBLIC, "127.0.0.1"]),
        ("rebound.test", vec![at(&[PUBLIC]), at(&["127.0.0.1"]), at(&["::1"])]),
    ])
}

/// The local addresses of all accepted connections.
type Seen = Arc<Mutex<Vec<SocketAddr>>>;

/// Accepts connections at all addresses, on ports of the web and port 22, and records them.
async fn listen_everywhere() -> Seen {
    let seen = Seen::default();
    for port in [80, 443, 8080, 8081, 22] {
        let listener = TcpListener::bind(("::", port)).await.unwrap();
        let seen = Arc::clone(&seen);
        TaskTracker::new().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let address = stream.local_addr().unwrap();
                let address = SocketAddr::new(address.ip().to_canonical(), address.port());
                seen.lock().unwrap().push(address);
                if port == 8080 {
                    TaskTracker::new().spawn(redirect_requests(stream));
                }
            }
        });
    }
    seen
}

/// Redirects every request to the URL in its query.
async fn redirect_requests(mut stream: TcpStream) {
    let mut request = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut request).await {
        let text = String::from_utf8_lossy(&request[..length]).into_owned();
        let path = text.split(' ').nth(1).unwrap_or_default();
        let target = path.trim_start_matches("/?");
        let answer =
            format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Checks that connections to private addresses are recorded, so that later none is missed.
async fn controls(seen: &Seen) {
    let addresses =
        ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "64:ff9b::a00:1"];
    let addresses = addresses.map(|text| SocketAddr::new(text.parse::<IpAddr>().unwrap(), 443));
    for address in addresses {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // Waits until the listener has recorded and closed the connection.
        let _ = stream.read(&mut [0]).await;
    }
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), addresses);
}

/// `WebFetch` with the same options as in a run.
struct Browser {
    tools: Registry,
    context: ToolContext,
    _folder: TempDir,
}

impl Browser {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let tools = builtin::all(&web_options(&["public", LISTED]));
        Self {
            tools: Registry::new(tools).unwrap(),
            context: ToolContext::without_run(Workspace::new(folder.path().to_owned())),
            _folder: folder,
        }
    }

    async fn fetch(&self, url: &str) -> (bool, String) {
        let input = to_raw_value(&json!({ "url": url })).unwrap();
        let answer = self.tools.call(&self.context, "WebFetch", &input).await;
        (answer.is_error, answer.text)
    }
}
