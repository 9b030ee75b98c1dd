//! Tests: readers receive all open previews, and topics without readers are removed.

use super::*;
use crate::domain::event::{EventBody, NewEvent, PreviewKind, Stamp};
use crate::domain::message::Content;

fn start(id: &str) -> PreviewStart {
    PreviewStart { event_id: id.to_owned(), kind: PreviewKind::Message, name: None }
}

fn event(session_id: SessionId, run_id: RunId, id: &str) -> Frame {
    let body = EventBody::AgentMessage {
        content: Content::text("all").unwrap(),
        interrupted: false,
        message_id: None,
    };
    let event = NewEvent::with_id(id.to_owned(), &body);
    let created_at = jiff::Timestamp::UNIX_EPOCH;
    let stamp = Stamp { session_id, run_id: Some(run_id), seq: 1, created_at };
    Frame::encode(event.id, event.kind.to_owned(), &event.body, &stamp)
}

fn texts(frames: &[Arc<PreviewFrame>]) -> Vec<String> {
    frames
        .iter()
        .filter_map(|frame| {
            let data = std::str::from_utf8(&frame.sse).unwrap().split("data: ").nth(1).unwrap();
            let value: serde_json::Value = serde_json::from_str(data).unwrap();
            value["delta"]["content"]["text"].as_str().map(str::to_owned)
        })
        .collect()
}

#[tokio::test]
async fn a_late_reader_gets_an_open_preview_from_its_start() {
    let bus = Arc::new(Bus::default());
    let (session, run) = (SessionId::new(), RunId::new());
    bus.preview_start(session, run, start("evt_1"));
    bus.preview_delta(session, "evt_1", 0, "Hel");
    bus.preview_delta(session, "evt_1", 0, "lo");
    let mut reader = bus.subscribe(session);
    assert_eq!(texts(&reader.open), ["Hello"]);
    bus.preview_delta(session, "evt_1", 0, "!");
    let Some(Signal::Preview(frame)) = reader.next().await else { panic!("expected a preview") };
    assert_eq!(texts(&[frame]), ["!"]);
}

#[tokio::test]
async fn the_event_of_the_same_id_ends_a_preview() {
    let bus = Arc::new(Bus::default());
    let (session, run) = (SessionId::new(), RunId::new());
    bus.preview_start(session, run, start("evt_1"));
    bus.publish(session, vec![event(session, run, "evt_1")]);
    assert!(bus.subscribe(session).open.is_empty());
}

#[tokio::test]
async fn a_restarted_preview_is_empty() {
    let bus = Arc::new(Bus::default());
    let (session, run) = (SessionId::new(), RunId::new());
    bus.preview_start(session, run, start("evt_1"));
    bus.preview_delta(session, "evt_1", 0, "wrong");
    bus.preview_start(session, run, start("evt_1"));
    bus.preview_delta(session, "evt_1", 0, "right");
    assert_eq!(texts(&bus.subscribe(session).open), ["right"]);
}

#[tokio::test]
async fn a_reader_that_is_too_slow_must_subscribe_again() {
    let bus = Arc::new(Bus::default());
    let (session, run) = (SessionId::new(), RunId::new());
    let mut reader = bus.subscribe(session);
    for _ in 0..1000 {
        bus.publish(session, vec![event(session, run, "evt_1")]);
    }
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn a_reader_that_lags_by_many_bytes_must_subscribe_again() {
    let bus = Arc::new(Bus::default());
    let (session, run) = (SessionId::new(), RunId::new());
    let mut slow = bus.subscribe(session);
    bus.preview_start(session, run, start("evt_1"));
    let text = "x".repeat(100_000);
    for _ in 0..12 {
        bus.preview_delta(session, "evt_1", 0, &text);
    }
    let mut heard = 0;
    let is_told = loop {
        match slow.try_next() {
            Some(Some(_)) => heard += 1,
            end => break end.is_some(),
        }
    };
    assert!(is_told && heard < 12, "{heard}");
    let mut again = bus.subscribe(session);
    drop(slow);
    assert_eq!(texts(&again.open), [text.repeat(12)]);
    bus.preview_delta(session, "evt_1", 0, "y");
    let Some(Signal::Preview(frame)) = again.next().await else { panic!("expected a preview") };
    assert_eq!(texts(&[frame]), ["y"]);
}

#[tokio::test]
async fn a_reader_that_keeps_up_receives_any_number_of_bytes() {
    let bus = Arc::new(Bus::default());
    let (session, run) = (SessionId::new(), RunId::new());
    let mut reader = bus.subscribe(session);
    bus.preview_start(session, run, start("evt_1"));
    assert!(reader.next().await.is_some());
    let text = "x".repeat(100_000);
    for _ in 0..50 {
        bus.preview_delta(session, "evt_1", 0, &text);
        assert!(reader.next().await.is_some());
    }
}

#[tokio::test]
async fn a_topic_without_readers_and_previews_is_removed() {
    let bus = Arc::new(Bus::default());
    let (session, run) = (SessionId::new(), RunId::new());
    let readers = [bus.subscribe(session), bus.subscribe(session)];
    bus.preview_start(session, run, start("evt_1"));
    drop(readers);
    assert_eq!(bus.topics().len(), 1, "the preview is open");
    bus.publish(session, vec![event(session, run, "evt_1")]);
    assert_eq!(bus.topics().len(), 0);
    drop(bus.subscribe(session));
    assert_eq!(bus.topics().len(), 0);
}

#[tokio::test]
async fn a_peer_whose_announcement_expired_receives_the_whole_preview_again() {
    let bus = Arc::new(Bus::default());
    let (session, run, peer) = (SessionId::new(), RunId::new(), WorkerId::new());
    let say = |message: Message| {
        let batch = serde_json::json!({ "from": peer, "m": [message] });
        bus.handle_payload(&batch.to_string());
    };
    say(Message::Hello { is_new: true });
    say(Message::Watch { session, is_new: true });
    bus.preview_start(session, run, start("evt_1"));
    bus.preview_delta(session, "evt_1", 0, "One ");
    bus.outbox.drain();
    bus.outbox.clear();
    // This delta is not sent to the peer.
    bus.preview_delta(session, "evt_1", 0, "two ");
    say(Message::Hello { is_new: false });
    say(Message::Watch { session, is_new: false });
    bus.preview_delta(session, "evt_1", 0, "three");
    let delivered: String = bus
        .outbox
        .drain()
        .into_iter()
        .filter_map(|one| if let Message::Delta { text, .. } = one { Some(text) } else { None })
        .collect();
    assert_eq!(delivered, "One two three");
}
