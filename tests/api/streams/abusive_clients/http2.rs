//! HTTP/2 frames that no client library sends.

use std::net::SocketAddr;

use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{CLOSED_WITHIN, app};

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

/// Error codes of GOAWAY frames (RFC 9113, section 7).
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const ENHANCE_YOUR_CALM: u32 = 11;

/// An attack with HTTP/2 frames.
#[derive(Clone)]
pub(super) struct Http2Attack {
    pub(super) name: &'static str,
    /// The bytes that are sent once, after the preface and the settings.
    first: Vec<u8>,
    /// Returns the bytes that are sent repeatedly, for each stream number.
    flood: fn(u32) -> Vec<u8>,
    reads: bool,
    /// The expected error code of the service, if it sends one.
    code: Option<u32>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The head of a request, encoded with the static table of HPACK and plain strings.
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

/// A POST request whose body is never sent.
fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &head(0x83, "/v1/sessions"))
}

fn nothing(_: u32) -> Vec<u8> {
    Vec::new()
}

fn reset(stream: u32) -> Vec<u8> {
    [get(stream), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
}

/// A header that is added to the HPACK table and then referenced so often that the list has several
/// megabytes.
fn bomb() -> Vec<u8> {
    let mut block = head(0x82, "/healthz");
    // A new name of 1 byte and value of 3000 bytes (127 + 57 + 22 * 128), added to the table.
    block.extend(b"\x40\x01a\x7f\xb9\x16");
    block.extend([b'b'; 3000]);
    block.extend([0xbe; 8000]);
    frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
}

pub(super) fn all() -> Vec<Http2Attack> {
    let window = |size: u32| frame(WINDOW_UPDATE, 0, 0, &size.to_be_bytes());
    let unfinished = frame(HEADERS, END_STREAM, 1, &head(0x82, "/healthz"));
    let resized = [b"\x3f\xe1\xff\xff\x03".to_vec(), head(0x82, "/healthz")].concat();
    let resized = frame(HEADERS, END_STREAM | END_HEADERS, 1, &resized);
    let closed_window = [frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0"), get(1)].concat();
    let large_table = [frame(SETTINGS, 0, 0, b"\0\x01\xff\xff\xff\xff"), get(1)].concat();
    let no_stream = frame(DATA, 0, 1, b"a");
    let attack = |name, first, flood, code| Http2Attack { name, first, flood, reads: true, code };
    let calm = Some(ENHANCE_YOUR_CALM);
    let mut all = vec![
        attack("rapid resets", vec![], reset, calm),
        attack("continuations", unfinished, |_| frame(CONTINUATION, 0, 1, &[0; 1000]), calm),
        attack("empty data", post(1), |_| frame(DATA, 0, 1, b""), calm),
        attack("settings", vec![], |_| frame(SETTINGS, 0, 0, b""), None),
        attack("pings", vec![], |_| frame(PING, 0, 0, b"01234567"), None),
        attack("priorities", vec![], |n| frame(PRIORITY, 0, n, b"\0\0\0\0\x10"), None),
        attack("unknown frames", vec![], |_| frame(0x42, 0, 0, b"01234567"), None),
        attack(
            "a window of 4 GB",
            [window(i32::MAX as u32), window(1)].concat(),
            nothing,
            Some(FLOW_CONTROL_ERROR),
        ),
        attack("a window of 0 bytes", window(0), nothing, Some(PROTOCOL_ERROR)),
        attack("data without a stream", no_stream, nothing, Some(PROTOCOL_ERROR)),
        attack("a table of 8 MB", resized, nothing, Some(PROTOCOL_ERROR)),
        attack("a table of 4 GB for responses", large_table, nothing, None),
        attack("a head of 24 MB", bomb(), nothing, calm),
        attack(
            "bodies that are not sent",
            vec![],
            |n| if n < 600 { post(n) } else { vec![] },
            None,
        ),
        attack("responses that are not read", closed_window, nothing, None),
        attack("nothing", vec![], nothing, None),
    ];
    all.push(Http2Attack { name: "pongs that are not read", reads: false, ..all[4].clone() });
    all
}

/// Attacks until the service closes the connection. Returns its error code.
pub(super) async fn run_http2_attack(address: SocketAddr, attack: Http2Attack) -> Option<u32> {
    let Ok(socket) = TcpStream::connect(address).await else { return None };
    let (reader, writer) = socket.into_split();
    let Http2Attack { name, first, flood, reads, .. } = attack;
    let closed = async {
        if reads {
            // Aborted on drop, so that no flood outlives its attack.
            let _sending = AbortOnDropHandle::new(tokio::spawn(send(writer, first, flood)));
            goaway_code(reader).await
        } else {
            send(writer, first, flood).await;
            None
        }
    };
    let closed = timeout(CLOSED_WITHIN, closed).await;
    closed.unwrap_or_else(|_| panic!("{name}: the connection stays open"))
}

/// Sends until the service closes the connection.
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
            // Keep the connection open and silent.
            std::future::pending::<()>().await;
        }
        if writer.write_all(&next).await.is_err() {
            return;
        }
    }
}

/// Reads until the connection is closed. Returns the error code of the service.
async fn goaway_code(mut reader: OwnedReadHalf) -> Option<u32> {
    let mut last = None;
    let mut head = [0; 9];
    while reader.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        if reader.read_exact(&mut payload).await.is_err() {
            break;
        }
        if head[3] == GOAWAY {
            let code = u32::from_be_bytes(payload[4..8].try_into().unwrap());
            last = Some(code).filter(|code| *code != 0).or(last);
        }
    }
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn every_abusive_connection_is_closed_in_time() {
    let app = app().await;
    let address = app.address;
    let each = all().into_iter().map(|attack| async move {
        let (name, expected) = (attack.name, attack.code);
        (name, expected, tokio::spawn(run_http2_attack(address, attack)).await.unwrap())
    });
    for (name, expected, code) in join_all(each).await {
        assert_eq!(code, expected, "{name}");
    }
    assert_eq!(app.session().await.ask("Are you there?").await["output_text"], "Yes.");
}
