//! A model server with a self-signed certificate.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use serde_json::{Value, json};

use crate::support::{Program, binary, client_with, data_dir, database};

/// A self-signed certificate for `localhost` and 127.0.0.1, and its key. They protect nothing.
pub(crate) const CERTIFICATE: &str = "\
    MIIBmzCCAUGgAwIBAgIUfDCabaWgKdr4QB5SYiLTaUkd6V4wCgYIKoZIzj0EAwIwFDESMBAGA1UEAwwJbG9jYWxob3\
    N0MCAXDTI2MTEyMzE3MzA1NloYDzIxMjYxMDMwMTczMDU2WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjO\
    PQIBBggqhkjOPQMBBwNCAARAq22ijflFnkH/SB/e3pZ5m6FEVT6OY/p5IIQ67wzUGonK2yp6SwdDPRE7ovKL/ct80N\
    N5/5IBepzhOTzRyW8To28wbTAdBgNVHQ4EFgQUkZLlTnglQQBBmDTkvxS+qdiadJUwHwYDVR0jBBgwFoAUkZLlTngl\
    QQBBmDTkvxS+qdiadJUwDwYDVR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZIzj\
    0EAwIDSAAwRQIhAPDd+gsJ5afZgMolwpL2kX8jKeHbejli1otlkYJNauxlAiAX7l20we6OP5Em3wuUZjukadUJ3VC+\
    win6FrE8Ke57fA==";
pub(crate) const KEY: &str = "\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgOPp8qaZobygGJYTPiOy7DQop2sD+ApsNJmQRCTnVW4\
    uhRANCAARAq22ijflFnkH/SB/e3pZ5m6FEVT6OY/p5IIQ67wzUGonK2yp6SwdDPRE7ovKL/ct80NN5/5IBepzhOTzR\
    yW8T";

/// Starts a TLS server that counts the connections whose handshake it begins.
fn start() -> (u16, Arc<AtomicU32>) {
    let der = |text: &str| STANDARD.decode(text).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(der(KEY)));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(der(CERTIFICATE))], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&connections);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            // The client ends the handshake, which is an error here.
            let _ = connection.complete_io(&mut stream);
        }
    });
    (port, connections)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_server_with_an_invalid_certificate_fails_the_run_at_the_first_try() {
    let (port, connections) = start();
    let (database, folder) = (database().await, data_dir());
    let url = format!("https://127.0.0.1:{port}");
    let mut command = binary(&["serve", "--bind", "127.0.0.1:0", "--refresh-models=false"]);
    command.args(["--anthropic-base-url", &url]).arg("--data-dir").arg(folder.path());
    command.env("DATABASE_URL", database.url()).env("ANTHROPIC_API_KEY", "planted-model-key");
    let program = Program::serve(command).await;
    let client = client_with(None);
    let session = client.post(format!("{}/v1/sessions", program.url)).send().await.unwrap();
    let session: Value = session.json().await.unwrap();
    let messages =
        format!("{}/v1/sessions/{}/messages", program.url, session["id"].as_str().unwrap());
    let post = client.post(messages).header("prefer", "wait=60");
    let run = post.json(&json!({ "content": "Are you there?" })).send().await.unwrap();
    let run: Value = run.json().await.unwrap();
    assert_eq!(
        json!([run["status"], run["error"]]),
        json!(["failed", {
            "type": "model_request_failed_error",
            "reason": "tls_certificate",
            "message": "the certificate of the model's server is not valid: invalid peer certificate: \
                        Other(OtherError(CaUsedAsEndEntity)); the operator must correct the certificate or the base URL, or \
                        name the file with its authority in SSL_CERT_FILE",
        }]),
    );
    assert_eq!(connections.load(Ordering::SeqCst), 1, "the request was tried again");
    program.terminate().await;
}
