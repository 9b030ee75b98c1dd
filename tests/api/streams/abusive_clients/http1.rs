//! HTTP/1.1 requests that two servers could interpret differently (request smuggling), and requests
//! that are too large.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{CLOSED_WITHIN, app, count_sessions};

/// A request that a proxy may have interpreted as a part of the body of another request.
const SMUGGLED: &str = "POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";

/// Sends bytes and returns the statuses of all responses until the connection is closed.
async fn statuses(address: SocketAddr, bytes: Vec<u8>) -> Vec<u16> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = socket.split();
    let mut answers = Vec::new();
    let sending = async {
        // The service may close before it has read everything.
        let _ = writer.write_all(&bytes).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        // In this case it may reset the connection.
        read = timeout(CLOSED_WITHIN, reader.read_to_end(&mut answers)) => {
            let _ = read.expect("the connection stays open");
        }
        () = sending => {}
    }
    let answers = String::from_utf8_lossy(&answers);
    let heads = answers.split("HTTP/1.1 ").skip(1);
    heads.map(|head| head[..3].parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ambiguous_request_is_refused_or_the_last_one_of_its_connection() {
    let app = app().await;
    let post = "POST /v1/sessions HTTP/1.1\r\nhost: x\r\n";
    let table: &[(&str, Vec<u16>)] = &[
        ("content-length: 2\r\ncontent-length: 0\r\n\r\n{}", vec![400]),
        ("content-length: 2, 2\r\n\r\n{}", vec![400]),
        ("content-length: +0\r\n\r\n", vec![400]),
        ("content-length: 0x0\r\n\r\n", vec![400]),
        ("content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", vec![201]),
        ("transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n", vec![201]),
        ("transfer-encoding: chunked\r\n\r\n0\r\n\r\n", vec![201, 201]),
        ("transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n", vec![400]),
        ("transfer-encoding: xchunked\r\n\r\n0\r\n\r\n", vec![400]),
        ("transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n", vec![400]),
        ("transfer-encoding : chunked\r\n\r\n0\r\n\r\n", vec![400]),
        ("content-length\x0b: 0\r\n\r\n", vec![400]),
        ("x-a: b\r\n content-length: 2\r\n\r\n", vec![400]),
        ("x-a: b\x00c\r\n\r\n", vec![400]),
        ("x-a: b\rcontent-length: 2\r\n\r\n", vec![400]),
        ("x a: b\r\n\r\n", vec![400]),
        (": b\r\n\r\n", vec![400]),
    ];
    for (rest, expected) in table {
        let before = count_sessions(&app).await;
        let bytes = format!("{post}{rest}{SMUGGLED}").into_bytes();
        assert_eq!(&statuses(app.address, bytes).await, expected, "{rest:?}");
        let created = expected.iter().filter(|status| **status == 201).count();
        assert_eq!(count_sessions(&app).await, before + created, "{rest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_too_large_is_refused_before_it_is_buffered() {
    let app = app().await;
    let large = "a".repeat(100_000);
    let many = "x-a: a\r\n".repeat(200);
    let chunked = "POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                   transfer-encoding: chunked\r\n\r\n";
    for (bytes, expected) in [
        (format!("GET /{large} HTTP/1.1\r\nhost: x\r\n\r\n"), [414, 431]),
        (format!("GET /?{large} HTTP/1.1\r\nhost: x\r\n\r\n"), [414, 431]),
        (format!("{large} / HTTP/1.1\r\nhost: x\r\n\r\n"), [400, 431]),
        (format!("GET / HTTP/1.1\r\nhost: x\r\nx-a: {large}\r\n\r\n"), [431; 2]),
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{large}: a\r\n\r\n"), [400, 431]),
        (format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n"), [431; 2]),
        (format!("{chunked}fffffffffffffffff\r\n{{}}"), [400; 2]),
        (format!("{chunked}2;{large}\r\n{{}}\r\n0\r\n\r\n"), [400; 2]),
        (format!("{chunked}2\r\n{{}}\r\n0\r\nx-a: {large}\r\n\r\n"), [400, 201]),
    ] {
        let answers = statuses(app.address, bytes.clone().into_bytes()).await;
        let begin = &bytes[..bytes.len().min(120)];
        assert!(answers.len() == 1 && expected.contains(&answers[0]), "{begin:?}: {answers:?}");
    }
}
