use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tracing::subscriber::with_default;
use tracing_subscriber::fmt;

use super::*;

const SECRETS: [&str; 3] = ["sesame-open-7", "quo\"te\\back\nline", "short"];
const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn redacted(form: Form, line: &str) -> String {
    Redactor::new(SECRETS.into_iter(), form).unwrap().redact_text(line)
}

#[test]
fn secrets_of_the_process_are_masked_in_every_spelling() {
    for (line, expected) in [
        ("the key sesame-open-7 is refused", "the key *** is refused"),
        ("[sesame-open-7,sesame-open-7]", "[***,***]"),
        ("printed: \"quo\\\"te\\\\back\\nline\"", "printed: \"***\""),
        ("as it is: quo\"te\\back\nline", "as it is: ***"),
        ("a query: ?k=quo%22te%5Cback%0Aline&a=b", "a query: ?k=***&a=b"),
        ("short words are words", "short words are words"),
        ("nothing here", "nothing here"),
        ("", ""),
    ] {
        assert_eq!(redacted(Form::Text, line), expected);
    }
}

#[test]
fn texts_that_look_like_secrets_are_masked_and_their_openings_kept() {
    let jwt = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    for (line, expected) in [
        (format!("key=tsk_0123abcd_{HEX} id"), "key=tsk_0123abcd_*** id"),
        (format!("Bearer tsk_0123abcd_{HEX}"), "Bearer tsk_0123abcd_***"),
        (format!("?ticket=tst_{HEX}&a=1"), "?ticket=tst_***&a=1"),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned(), "whsec_***"),
        ("x-api-key: sk-ant-api03-Zm9v_-YmFy".to_owned(), "x-api-key: sk-ant-***"),
        ("sk-proj-0123456789abcdefghij, then".to_owned(), "sk-***, then"),
        ("Authorization: bearer  a.b~c+d/e=".to_owned(), "Authorization: bearer  ***"),
        ("\"Basic dXNlcjpwYXNz\"".to_owned(), "\"Basic ***\""),
        (format!("<{jwt}>"), "<eyJ***>"),
        (format!("{jwt}, then"), "eyJ***, then"),
        ("Bearer Bearer a-b".to_owned(), "Bearer *** ***"),
        ("postgres://me:ge:he@im@host:5/db".to_owned(), "postgres://me:***@host:5/db"),
        ("https://a:b@c and http://d:e@f/".to_owned(), "https://a:***@c and http://d:***@f/"),
        ("https://ghp0123456789abcdef@host/".to_owned(), "https://***@host/"),
        (format!("https://tsk_0123abcd_{HEX}:a@host/"), "https://tsk_0123abcd_***:***@host/"),
        ("https://sesame-open-7:a@host/".to_owned(), "https://***:***@host/"),
        ("AKIAIOSFODNN7EXAMPLE".to_owned(), "AKIA***"),
    ] {
        assert_eq!(redacted(Form::Text, &line), expected);
        assert_eq!(redacted(Form::Json, &line), expected);
    }
}

#[test]
fn texts_that_only_begin_like_secrets_are_kept() {
    for line in [
        "tsk_0123abcd was taken back",
        "disk-full on task-1",
        "Basic level, basic auth",
        "eyJ is the head of a token",
        "http://127.0.0.1:8080/v1?to=me@host",
        "postgres://twostep@localhost:5432/twostep",
        "https://me:@host",
        "AKIA and the like",
        "tst_1",
    ] {
        assert_eq!(redacted(Form::Text, line), line);
    }
}

#[test]
fn a_line_without_secrets_is_not_copied() {
    let redactor = Redactor::new(SECRETS.into_iter(), Form::Json).unwrap();
    assert!(matches!(redactor.redact(b"nothing here"), Cow::Borrowed(_)));
}

#[test]
fn a_json_escape_before_a_secret_remains_complete() {
    let redactor = Redactor::new(["nsecret-1", "001bsecret"].into_iter(), Form::Json).unwrap();
    for (line, expected) in [
        (r#"{"a":"x\nsecret-1"}"#, r#"{"a":"x\n***"}"#),
        (r#"{"a":"x\\nsecret-1"}"#, r#"{"a":"x\\***"}"#),
        (r#"{"a":"\u001bsecret"}"#, r#"{"a":"\u001b***"}"#),
        (r#"{"a":"\\u001bsecret"}"#, r#"{"a":"\\u***"}"#),
    ] {
        let found = redactor.redact_text(line);
        assert_eq!(found, expected);
        serde_json::from_str::<Value>(&found).unwrap();
    }
}

#[test]
fn a_line_of_only_openings_takes_linear_time() {
    let time_of = |length: usize| {
        let begun = processor_time();
        for shape in &SHAPES {
            let line = shape.opening.repeat(length / shape.opening.len());
            redacted(Form::Text, &line);
            // The user name before a password.
            redacted(Form::Text, &format!("://{line}:password@"));
        }
        processor_time().checked_sub(begun).unwrap()
    };
    let (short, long) = (time_of(50_000), time_of(200_000));
    // Quadratic time would be sixteen times as long.
    assert!(long < 10 * short, "{short:?}, {long:?}");
}

/// The processor time of this thread, which does not depend on other processes.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Formats an event with these texts in its message, fields and span, as a subscriber does.
fn line_of(form: Form, texts: &[String; 4]) -> String {
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Written {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(line);
            Ok(line.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let written = Written::default();
    let writer = written.clone();
    let [message, plain, printed, of_span] = texts;
    let log = || {
        let span = tracing::info_span!("outer", of_span = %of_span);
        let _entered = span.enter();
        tracing::info!(plain = &**plain, printed = ?[printed], "{message}");
    };
    let builder = fmt().with_ansi(false).with_writer(move || writer.clone());
    match form {
        Form::Text => with_default(builder.finish(), log),
        Form::Json => with_default(builder.json().flatten_event(true).finish(), log),
    }
    let bytes = written.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// A secret, and the part of it that must not be visible.
fn secret() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        Just((SECRETS[0].to_owned(), SECRETS[0].to_owned())),
        Just((SECRETS[1].to_owned(), SECRETS[1].to_owned())),
        "[0-9a-f]{64}".prop_map(|hex| (format!("tsk_0011_{hex}"), hex)),
        "[0-9a-f]{64}".prop_map(|hex| (format!("tst_{hex}"), hex)),
        "[A-Za-z0-9+/]{43}=".prop_map(|text| (format!("whsec_{text}"), text)),
        "[A-Za-z0-9_-]{20,40}".prop_map(|text| (format!("sk-ant-{text}"), text)),
        "[A-Za-z0-9_-]{20,40}".prop_map(|text| (format!("Bearer {text}"), text)),
        "[A-Za-z0-9!,;=.]{8,20}".prop_map(|text| (format!("https://me:{text}@host"), text)),
        "[A-Za-z0-9_-]{20}\\.[A-Za-z0-9_-]{20}\\.[A-Za-z0-9_-]{20}"
            .prop_map(|text| (format!("eyJ{text}"), text)),
    ]
}

/// The text around a secret: words, quotes, escapes, and the openings of secrets.
fn noise() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[ -~]{0,12}",
        "[\"\\\\\n\t{}:,\u{1b}]{0,6}",
        "(eyJ|sk-|tsk_|://|Bearer |Basic |tst_|AKIA){0,3}",
        "\\PC{0,6}",
    ];
    prop::collection::vec(word, 0..4).prop_map(|words| words.concat())
}

fn field() -> impl Strategy<Value = (String, Vec<String>)> {
    prop::collection::vec((noise(), secret(), noise()), 0..3).prop_map(|parts| {
        let text =
            parts.iter().map(|(before, (whole, _), after)| format!("{before}{whole}{after}"));
        let text = text.collect::<Vec<_>>().concat();
        (text, parts.into_iter().map(|(_, (_, hidden), _)| hidden).collect())
    })
}

/// Collects all texts of a value.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(members) => members.values().for_each(|item| texts(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_secret_survives_in_any_field(fields in [field(), field(), field(), field()]) {
        let written = fields.clone().map(|(text, _)| text);
        let hidden: Vec<String> = fields.into_iter().flat_map(|(_, hidden)| hidden).collect();
        let text = redacted(Form::Text, &line_of(Form::Text, &written));
        let json = redacted(Form::Json, &line_of(Form::Json, &written));
        let mut shown = vec![text, json.clone()];
        texts(&serde_json::from_str(&json).unwrap(), &mut shown);
        for shown in &shown {
            for hidden in &hidden {
                prop_assert!(!shown.contains(hidden), "{hidden:?} is in {shown}");
            }
        }
    }
}
