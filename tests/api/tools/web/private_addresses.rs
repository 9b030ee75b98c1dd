//! Addresses that are not everybody's: none is connected to, in whatever spelling, by whatever name
//! and behind whatever redirect.
//!
//! The test runs in a network namespace of its own, where all addresses lead to it and where it
//! answers for all names, so that it sees every connection that is made.

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
use super::fetch::reaching;
use crate::support::machine;

/// Says that the test is where it may be.
const INSIDE: &str = "TWOSTEP_TEST_NAMESPACE";
/// What makes the namespace: every address is our own, and names are asked of 127.0.0.1.
const SET_UP: &str = "set -e
    ip link set lo up
    ip route add local default dev lo
    ip -6 route add local default dev lo
    printf 'nameserver 127.0.0.1\\n' > \"$2\"
    mount --bind \"$2\" /etc/resolv.conf
    exec \"$1\" --exact \"$3::inside\" --ignored --nocapture";
/// An address of everybody's network.
const PUBLIC: &str = "93.184.216.34";
/// A host that the operator has listed.
const LISTED: &str = "listed.test:8080";

/// Addresses that nobody's page is at, written in all ways.
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
/// Names that do not lead to everybody's network, or not to there alone.
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
/// What may be asked for by its address, and not in this way.
const ODD: [&str; 3] =
    ["http://public.test:22/", "https://public.test:8080/", "https://public.test:80/"];

#[test]
fn no_address_of_a_network_of_somebodys_own_is_connected_to() {
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
    let told = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success() && told[0].contains("1 passed"), "{}{}", told[0], told[1]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it, in a namespace"]
async fn inside() {
    assert!(env::var_os(INSIDE).is_some(), "all of this would be asked of the real network");
    dns_server::serve(UdpSocket::bind("127.0.0.1:53").unwrap(), names());
    let seen = watch().await;
    controls(&seen).await;

    let browser = Browser::new();
    let refused = failed("fetch failed");
    for url in PRIVATE.iter().chain(&NAMED).chain(&ODD) {
        assert_eq!(browser.fetch(url).await, refused, "{url}");
        let redirect = format!("http://{LISTED}/?{url}");
        assert_eq!(browser.fetch(&redirect).await, refused, "{redirect}");
    }
    // A name that leads to everybody's network at first, and then elsewhere.
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
    // Each redirect, but for those whose connection was kept, and the name at first.
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

/// The addresses that were connected to.
type Seen = Arc<Mutex<Vec<SocketAddr>>>;

/// Listens at all addresses, on the ports of the web and one more.
async fn watch() -> Seen {
    let seen = Seen::default();
    for port in [80, 443, 8080, 8081, 22] {
        let listener = TcpListener::bind(("::", port)).await.unwrap();
        let seen = Arc::clone(&seen);
        TaskTracker::new().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let own = stream.local_addr().unwrap();
                let own = SocketAddr::new(own.ip().to_canonical(), own.port());
                seen.lock().unwrap().push(own);
                if port == 8080 {
                    TaskTracker::new().spawn(lead_on(stream));
                }
            }
        });
    }
    seen
}

/// Leads every request to where its query says.
async fn lead_on(mut stream: TcpStream) {
    let mut request = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut request).await {
        let text = String::from_utf8_lossy(&request[..length]).into_owned();
        let path = text.split(' ').nth(1).unwrap_or_default();
        let place = path.trim_start_matches("/?");
        let answer =
            format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Connections of our own are seen, to whatever address: who sees none later has not missed them.
async fn controls(seen: &Seen) {
    let places = ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "64:ff9b::a00:1"];
    let places = places.map(|text| SocketAddr::new(text.parse::<IpAddr>().unwrap(), 443));
    for place in places {
        let mut stream = TcpStream::connect(place).await.unwrap();
        // It is closed by who accepted it, and has then noted it.
        let _ = stream.read(&mut [0]).await;
    }
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), places);
}

/// The tool, as runs have it.
struct Browser {
    tools: Registry,
    context: ToolContext,
    _folder: TempDir,
}

impl Browser {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let tools = builtin::all(&reaching(&["public", LISTED]));
        Self {
            tools: Registry::new(tools).unwrap(),
            context: ToolContext::alone(Workspace::new(folder.path().to_owned())),
            _folder: folder,
        }
    }

    async fn fetch(&self, url: &str) -> (bool, String) {
        let input = to_raw_value(&json!({ "url": url })).unwrap();
        let answer = self.tools.call(&self.context, "WebFetch", &input).await;
        (answer.is_error, answer.text)
    }
}
