//! HTTP/2 by hand: frames that no client library sends.

use std::net::SocketAddr;

use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{PATIENCE, app};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Why a service says goodbye (RFC 9113, section 7).
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const ENHANCE_YOUR_CALM: u32 = 11;

/// A way to be rude.
#[derive(Clone)]
pub(super) struct Rudeness {
    pub(super) name: &'static str,
    /// What is sent at once, behind the preface and the settings.
    first: Vec<u8>,
    /// What is sent again and again, for each stream number anew.
    flood: fn(u32) -> Vec<u8>,
    reads: bool,
    /// The reason that the service gives, if it gives one.
    reason: Option<u32>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The head of a request, by the static table of HPACK and texts as they are.
fn head(method: u8, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    let mut block = vec![method, 0x86, 0x04, length];
    block.extend(path.as_bytes());
    block.extend(b"\x41\x01x");
    block
}

fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &head(0x82, "/healthz"))
}

/// A post whose body never comes.
fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &head(0x83, "/v1/sessions"))
}

fn nothing(_: u32) -> Vec<u8> {
    Vec::new()
}

fn reset(stream: u32) -> Vec<u8> {
    [get(stream), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
}

/// A header that is put into the table, and then named so often that the list has megabytes.
fn bomb() -> Vec<u8> {
    let mut block = head(0x82, "/healthz");
    // A new name and value, to be kept: 1 byte, and 3000 (127 + 57 + 22 * 128).
    block.extend(b"\x40\x01a\x7f\xb9\x16");
    block.extend([b'b'; 3000]);
    block.extend([0xbe; 8000]);
    frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
}

pub(super) fn all() -> Vec<Rudeness> {
    let window = |size: u32| frame(WINDOW_UPDATE, 0, 0, &size.to_be_bytes());
    let begun = frame(HEADERS, END_STREAM, 1, &head(0x82, "/healthz"));
    let resized = [b"\x3f\xe1\xff\xff\x03".to_vec(), head(0x82, "/healthz")].concat();
    let resized = frame(HEADERS, END_STREAM | END_HEADERS, 1, &resized);
    let closed_window = [frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0"), get(1)].concat();
    let large_table = [frame(SETTINGS, 0, 0, b"\0\x01\xff\xff\xff\xff"), get(1)].concat();
    let no_stream = frame(DATA, 0, 1, b"a");
    let rude = |name, first, flood, reason| Rudeness { name, first, flood, reads: true, reason };
    let calm = Some(ENHANCE_YOUR_CALM);
    let mut all = vec![
        rude("rapid resets", vec![], reset, calm),
        rude("continuations", begun, |_| frame(CONTINUATION, 0, 1, &[0; 1000]), calm),
        rude("empty data", post(1), |_| frame(DATA, 0, 1, b""), calm),
        rude("settings", vec![], |_| frame(SETTINGS, 0, 0, b""), None),
        rude("pings", vec![], |_| frame(PING, 0, 0, b"01234567"), None),
        rude("priorities", vec![], |n| frame(PRIORITY, 0, n, b"\0\0\0\0\x10"), None),
        rude("unknown frames", vec![], |_| frame(0x42, 0, 0, b"01234567"), None),
        rude(
            "a window of 4 GB",
            [window(i32::MAX as u32), window(1)].concat(),
            nothing,
            Some(FLOW_CONTROL_ERROR),
        ),
        rude("a window of nothing", window(0), nothing, Some(PROTOCOL_ERROR)),
        rude("data of no stream", no_stream, nothing, Some(PROTOCOL_ERROR)),
        rude("a table of 8 MB", resized, nothing, Some(PROTOCOL_ERROR)),
        rude("a table of 4 GB for answers", large_table, nothing, None),
        rude("a head of 24 MB", bomb(), nothing, calm),
        rude("bodies that do not come", vec![], |n| if n < 600 { post(n) } else { vec![] }, None),
        rude("answers that are not taken", closed_window, nothing, None),
        rude("nothing", vec![], nothing, None),
    ];
    all.push(Rudeness { name: "pongs that are not read", reads: false, ..all[4].clone() });
    all
}

/// Is rude until the service closes, and says for what reason it did.
pub(super) async fn be_rude(address: SocketAddr, rudeness: Rudeness) -> Option<u32> {
    let Ok(socket) = TcpStream::connect(address).await else { return None };
    let (reader, writer) = socket.into_split();
    let Rudeness { name, first, flood, reads, .. } = rudeness;
    let closed = async {
        if reads {
            // Ends with this, so that no flood outlives the attack that it belongs to.
            let _sending = AbortOnDropHandle::new(tokio::spawn(send(writer, first, flood)));
            reason(reader).await
        } else {
            send(writer, first, flood).await;
            None
        }
    };
    let closed = timeout(PATIENCE, closed).await;
    closed.unwrap_or_else(|_| panic!("{name}: the connection stays"))
}

/// Sends as long as somebody takes it.
async fn send(mut writer: OwnedWriteHalf, first: Vec<u8>, flood: fn(u32) -> Vec<u8>) {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let begin = [preface, frame(SETTINGS, 0, 0, b""), first].concat();
    if writer.write_all(&begin).await.is_err() {
        return;
    }
    let mut streams = (1..).step_by(2);
    loop {
        let next: Vec<u8> = streams.by_ref().take(200).flat_map(flood).collect();
        if next.is_empty() {
            // Nothing more to say, and no word that it is over.
            std::future::pending::<()>().await;
        }
        if writer.write_all(&next).await.is_err() {
            return;
        }
    }
}

/// Reads to the close: the reason that the service gave.
async fn reason(mut reader: OwnedReadHalf) -> Option<u32> {
    let mut reason = None;
    let mut head = [0; 9];
    while reader.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        if reader.read_exact(&mut payload).await.is_err() {
            break;
        }
        if head[3] == GOAWAY {
            let code = u32::from_be_bytes(payload[4..8].try_into().unwrap());
            reason = Some(code).filter(|code| *code != 0).or(reason);
        }
    }
    reason
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rude_connection_is_closed_in_time() {
    let app = app().await;
    let address = app.address;
    let each = all().into_iter().map(|rudeness| async move {
        let (name, expected) = (rudeness.name, rudeness.reason);
        (name, expected, tokio::spawn(be_rude(address, rudeness)).await.unwrap())
    });
    for (name, expected, reason) in join_all(each).await {
        assert_eq!(reason, expected, "{name}");
    }
    assert_eq!(app.session().await.ask("Are you there?").await["output_text"], "Yes.");
}
