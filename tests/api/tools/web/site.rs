//! A web server with pages of all kinds.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{Response, Uri};
use axum::routing::any;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use http::response::Builder;
use miniz_oxide::deflate::compress_to_vec;
use tokio::net::TcpListener;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// The maximum size of a page in bytes.
pub(super) const MAX_PAGE: usize = 5 * 1024 * 1024;

/// A web server that records the paths of its requests.
pub(super) struct Site {
    /// Host and port.
    pub(super) host: String,
    paths: Paths,
    _task: AbortOnDropHandle<()>,
}

type Paths = Arc<Mutex<Vec<String>>>;

impl Site {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("localhost:{}", listener.local_addr().unwrap().port());
        let paths = Paths::default();
        let router = Router::new().fallback(any(page)).with_state(Arc::clone(&paths));
        let serving = async { axum::serve(listener, router).await.unwrap() };
        let task = AbortOnDropHandle::new(TaskTracker::new().spawn(serving));
        Self { host, paths, _task: task }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    /// The requested paths in order.
    pub(super) fn requested_paths(&self) -> Vec<String> {
        self.paths.lock().unwrap().clone()
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    file.extend(compress_to_vec(text, 6));
    file.extend([0; 8]);
    file
}

/// A PDF file of the fixtures, written by a common program.
fn document(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pdf");
    std::fs::read(folder.join(name)).unwrap()
}

/// A response that is compressed with Brotli.
fn brotli(text: &[u8]) -> (Builder, Body) {
    let mut stream = Vec::new();
    let params = brotli::enc::BrotliEncoderParams::default();
    brotli::BrotliCompress(&mut &text[..], &mut stream, &params).unwrap();
    (of_type("text/plain").header(CONTENT_ENCODING, "br"), Body::from(stream))
}

fn of_type(content_type: &str) -> Builder {
    Response::builder().header(CONTENT_TYPE, content_type)
}

async fn page(
    State(paths): State<Paths>,
    Query(query): Query<HashMap<String, String>>,
    uri: Uri,
) -> Response<Body> {
    paths.lock().unwrap().push(uri.path().to_owned());
    let html = "<title>A page</title><h1>Bread</h1><p>Take <a href='/flour'>flour</a>.</p>";
    let redirect = |target: &str| Response::builder().status(302).header(LOCATION, target);
    let compressed = |text: &[u8]| {
        (of_type("text/plain").header(CONTENT_ENCODING, "gzip"), Body::from(gzip(text)))
    };
    let link = |letter| format!("<a href='/letters/{letter}'>{letter}</a> ");
    let letters = ('a'..='z').map(link).collect::<Vec<String>>().concat();
    let (head, body) = match uri.path() {
        "/page" => (of_type("text/html; charset=utf-8"), Body::from(html)),
        "/letters" => (of_type("text/html"), Body::from(letters)),
        path if path.starts_with("/letters/") => (of_type("text/plain"), Body::from("A letter.")),
        "/nul" => (of_type("text/plain"), Body::from("Take\0 \0flour.")),
        "/data" => (of_type("application/json"), Body::from(r#"{"flour": 500}"#)),
        "/to" => (redirect(&query["target"]), Body::empty()),
        "/loop" => (redirect("/loop"), Body::empty()),
        "/full" => (of_type("text/plain"), Body::from(vec![b'x'; MAX_PAGE])),
        "/too-full" => (of_type("text/plain"), Body::from(vec![b'x'; MAX_PAGE + 1])),
        "/small" => compressed(b"small"),
        "/bomb" => compressed(&vec![b'x'; MAX_PAGE + 1]),
        "/small-br" => brotli(b"small"),
        "/bomb-br" => brotli(&vec![b'x'; MAX_PAGE + 1]),
        "/odd-br" => (of_type("text/plain").header(CONTENT_ENCODING, "br"), Body::from("x")),
        "/odd" => (of_type("text/plain").header(CONTENT_ENCODING, "zstd"), Body::from("x")),
        "/report" => (of_type("application/pdf"), Body::from("%PDF-1.7")),
        "/bread" => (of_type("application/pdf"), Body::from(document("plain.pdf"))),
        "/download" => (of_type("application/octet-stream"), Body::from(document("asian.pdf"))),
        "/locked" => (of_type("application/pdf"), Body::from(document("encrypted.pdf"))),
        "/scan" => (of_type("application/pdf"), Body::from(document("scan.pdf"))),
        _ => (Response::builder().status(404), Body::from("nothing")),
    };
    head.body(body).unwrap()
}
