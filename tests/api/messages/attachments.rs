//! Messages with images, documents and search results: they are stored and sent unchanged,
//! described in events, and refused if the model would refuse them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::support::media::{base64, image_at, pdf, pixel, png};
use crate::support::{
    Session, Setup, TestApp, assert_refused, invalid, problem, raw, refusal, replies, says,
};

async fn app() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

fn document(source: &Value) -> Value {
    json!({ "type": "document", "source": source })
}

fn search_result(is_cited: bool) -> Value {
    json!({ "type": "search_result", "source": "wiki/door", "title": "Doors",
            "content": [{ "type": "text", "text": "Doors open." }],
            "citations": { "enabled": is_cited } })
}

/// Content with all types of blocks that the model accepts.
fn everything() -> Value {
    json!([
        { "type": "text", "text": "Compare these." },
        pixel(),
        image_at("https://example.org/door.webp"),
        { "type": "document", "source": base64("application/pdf", &pdf(2)), "title": "Plan",
          "context": "Of the house.", "citations": { "enabled": true } },
        document(&json!({ "type": "text", "media_type": "text/plain", "data": "A door." })),
        document(&json!({ "type": "content", "content": [{ "type": "text", "text": "a" }, pixel()] })),
        document(&json!({ "type": "url", "url": "https://example.org/plan.pdf" })),
        search_result(true),
    ])
}

/// The same content as events and the plain view describe it.
fn descriptions() -> Value {
    let pdf = format!(r#"[application/pdf "Plan", {} bytes]"#, pdf(2).len());
    let names = [
        "Compare these.",
        "[image/png, 70 bytes]",
        "[image https://example.org/door.webp]",
        &pdf,
        "[text/plain, 7 bytes]",
        "[document]",
        "[document https://example.org/plan.pdf]",
        r#"[search result "Doors", wiki/door]"#,
    ];
    names.map(|text| json!({ "type": "text", "text": text })).to_vec().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_may_have_all_types_of_blocks() {
    let app = app().await;
    let session = app.session().await;
    let message = json!({ "content": everything(), "id": "all-of-it" });
    assert_eq!(session.ask_with(message.clone()).await["output_text"], "Yes.");
    assert_eq!(session.history().await[0]["message"]["content"], everything());
    assert_eq!(app.upstream().body(0)["messages"][0]["content"], everything());
    let events = session.events().await;
    assert_eq!(
        (&events[0]["type"], &events[0]["content"]),
        (&json!("user.message"), &descriptions())
    );

    let path = session.path("/messages?view=plain");
    let plain: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!(plain["data"][0]["message"]["content"], descriptions());

    let again = session.message(&message).send().await.unwrap();
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(session.ask("And now?").await["output_text"], "Yes.");
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_are_sent_in_canonical_json() {
    let app = app().await;
    let session = app.session().await;
    let odd = r#"{"content": [ {"source" :{"url":"https:\/\/a.b","type":"url"}, "type":"image"},
        {"text":"\u00e9","type":"text"} ]}"#;
    let response = raw(&session, odd).header("prefer", "wait=20").send().await.unwrap();
    assert_eq!(response.json::<Value>().await.unwrap()["output_text"], "Yes.");
    let sent = concat!(
        r#""messages":[{"role":"user","content":[{"type":"image","#,
        r#""source":{"type":"url","url":"https://a.b"}},{"type":"text","text":"é"}]}]"#,
    );
    assert!(app.upstream().text(0).contains(sent), "{}", app.upstream().text(0));
}

/// Blocks that the model would refuse, with the pointers to the errors.
fn bad_blocks() -> Vec<(Value, &'static str)> {
    let image = |media_type: &str, bytes: &[u8]| json!({ "type": "image", "source": base64(media_type, bytes) });
    let paper = |bytes: &[u8]| document(&base64("application/pdf", bytes));
    let locked = String::from_utf8(pdf(1)).unwrap().replace("/Size 4", "/Size 4 /Encrypt 5 0 R");
    vec![
        (json!({ "type": "video", "source": {} }), "/content/0/source"),
        (json!({ "type": "tool_result", "text": "a" }), "/content/0/type"),
        (image("image/jpeg", &png(1, 0)), "/content/0/source/data"),
        (image("image/svg+xml", b"<svg/>"), "/content/0/source/media_type"),
        (image("image/png", &png(8001, 0)), "/content/0/source/data"),
        (image("image/png", &png(1, 0)[..12]), "/content/0/source/data"),
        (image("image/png", &png(1, 8_000_000)), "/content/0/source/data"),
        (image_at("http://example.org/a.png"), "/content/0/source/url"),
        (json!({ "type": "image", "source": { "type": "file" } }), "/content/0/source/file_id"),
        (paper(&pdf(101)), "/content/0/source/data"),
        (paper(locked.as_bytes()), "/content/0/source/data"),
        (paper(b"no pdf"), "/content/0/source/data"),
        (
            document(&json!({ "type": "text", "media_type": "text/plain", "data": " " })),
            "/content/0/source/data",
        ),
        (
            json!({ "type": "search_result", "source": "a", "title": "b", "content": [] }),
            "/content/0/content",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_the_model_would_refuse_are_refused_with_pointers() {
    let app = app().await;
    let session = app.session().await;
    for (block, pointer) in bad_blocks() {
        let message = json!({ "content": [block] });
        assert_refused(&session, session.message(&message), invalid(pointer)).await;
    }
    let many = json!({ "content": vec![image_at("https://a.b"); 101] });
    assert_refused(&session, session.message(&many), invalid("/content")).await;
    let mixed = json!({ "content": [search_result(true), search_result(false)] });
    assert_refused(&session, session.message(&mixed), invalid("/content/1/citations")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_above_the_limits_of_the_conversation_is_refused() {
    let app = app().await;
    let session = app.session().await;
    let images = |count: usize| json!({ "content": vec![image_at("https://a.b"); count] });
    session.ask_with(images(60)).await;
    let mut last = images(40);
    last["id"] = json!("the-last");
    assert_refused(&session, session.message(&images(41)), invalid("/content")).await;
    session.ask_with(last.clone()).await;
    let again = session.message(&last).send().await.unwrap();
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_refused(&session, session.message(&images(1)), invalid("/content")).await;

    let other = app.session().await;
    other.ask_with(json!({ "content": [search_result(true)] })).await;
    let uncited = json!({ "content": [search_result(false)] });
    assert_refused(&other, other.message(&uncited), invalid("/content")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_may_have_several_megabytes() {
    let app = app().await;
    let session = app.session().await;
    let large = json!({ "type": "image", "source": base64("image/png", &png(8000, 7_800_000)) });
    let run = session.ask_with(json!({ "content": [large] })).await;
    assert_eq!(run["output_text"], "Yes.");
    assert!(session.events().await[0].to_string().len() < 1000, "events only describe it");
    session.ask_with(json!({ "content": [large] })).await;
    // Two images have 20.8 MB. With a third one, the model's server would refuse every request.
    let third = json!({ "content": [large] });
    assert_refused(&session, session.message(&third), invalid("/content")).await;
}

/// Opens a connection that announces a large body and sends only the beginning.
async fn start_large_body(session: &Session<'_>, length: usize) -> TcpStream {
    let mut socket = TcpStream::connect(session.app.address).await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{{\"content\":\"",
        session.path("/messages")
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_large_bodies_is_limited() {
    const MAX: usize = 2_000_000;
    let setup = Setup { max_message: Some(MAX), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
    let session = app.session().await;
    let padded = |length: usize| {
        let mut body = r#"{"content":"Hi"}"#.to_owned();
        body.extend(std::iter::repeat_n(' ', length - body.len()));
        raw(&session, body)
    };
    assert_refused(&session, padded(MAX + 1), refusal(413, "body_too_large")).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(start_large_body(&session, MAX).await);
    }
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let response = padded(MAX).send().await.unwrap();
        if response.status() == 503 {
            assert_eq!(response.headers()["retry-after"], "1");
            problem(response, 503, "too_many_large_bodies").await;
            break;
        }
        assert!(Instant::now() < deadline, "a fifth large body is accepted");
    }
    assert_eq!(session.ask("Are small bodies accepted?").await["output_text"], "Yes.");
    drop(held);
    let run: Value = loop {
        let response = padded(MAX).send().await.unwrap();
        if response.status() == 202 {
            break response.json().await.unwrap();
        }
        assert!(Instant::now() < deadline, "large bodies are still refused");
        sleep(Duration::from_millis(10)).await;
    };
    session.settled(&run).await;
    app.stop().await;
}
