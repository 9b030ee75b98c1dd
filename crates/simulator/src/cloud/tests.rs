//! The signature of a request, as an independent implementation makes it, and each reason to refuse one.

use axum::http::{HeaderMap, HeaderName, Method, Uri};
use jiff::Timestamp;
use sha2::Digest as _;

use super::signature::{hex, signature_of, verify};

const BODY: &[u8] = br#"{"model":"anthropic.claude-opus-5-5"}"#;

/// A request that is signed now, with changes to its headers.
fn refusal(changes: &[(&'static str, Option<&str>)], body: &[u8]) -> String {
    refusal_at(Timestamp::now(), changes, body)
}

fn refusal_at(at: Timestamp, changes: &[(&'static str, Option<&str>)], body: &[u8]) -> String {
    let date = at.strftime("%Y%m%dT%H%M%SZ").to_string();
    let scope = format!("{}/us-east-1/bedrock-mantle/aws4_request", &date[..8]);
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| {
        headers.insert(HeaderName::from_static(name), value.parse().unwrap());
    };
    set("host", "bedrock.example");
    set("x-amz-date", &date);
    let canonical = format!(
        "POST\n/anthropic/v1/messages\n\nhost:bedrock.example\nx-amz-date:{date}\n\nhost;x-amz-date\n{}",
        hex(&sha2::Sha256::new_with_prefix(BODY).finalize())
    );
    let signature = signature_of(&canonical, &date, &scope);
    set(
        "authorization",
        &format!(
            "AWS4-HMAC-SHA256 Credential=AKIDSIMULATOR/{scope}, SignedHeaders=host;x-amz-date, \
             Signature={signature}"
        ),
    );
    for (name, value) in changes {
        match value {
            Some(value) => drop(headers.insert(*name, value.parse().unwrap())),
            None => drop(headers.remove(*name)),
        }
    }
    let uri = Uri::from_static("/anthropic/v1/messages");
    verify(&Method::POST, &uri, &headers, body).err().unwrap_or_default()
}

#[test]
fn a_signature_is_accepted_and_every_change_refused() {
    assert_eq!(refusal(&[], BODY), "");
    let mismatch = "does not match the signature you provided";
    assert!(refusal(&[], b"{}").contains(mismatch), "another body");
    assert!(refusal(&[("host", Some("other"))], BODY).contains(mismatch));
    assert!(refusal(&[("x-amz-date", None)], BODY).contains("X-Amz-Date"));
    assert!(refusal(&[("authorization", None)], BODY).contains("Missing Authentication Token"));
    let unsigned = refusal(&[("content-type", Some("application/json"))], BODY);
    assert_eq!(unsigned, "'content-type' must be a 'SignedHeader' in the AWS Authorization.");
    let token = refusal(&[("x-amz-security-token", Some("other"))], BODY);
    assert_eq!(token, "The security token included in the request is invalid.");
    let expired = refusal(&[("x-amz-security-token", Some(super::EXPIRED_SESSION_TOKEN))], BODY);
    assert_eq!(expired, "The security token included in the request is expired");
    let minutes = |minutes: i64| Timestamp::now() + jiff::SignedDuration::from_mins(minutes);
    assert!(refusal_at(minutes(-6), &[], BODY).starts_with("Signature expired"));
    assert!(refusal_at(minutes(6), &[], BODY).starts_with("Signature not yet current"));
}

/// The values were computed with botocore 1.44, `botocore.auth.SigV4Auth`.
#[test]
fn the_signature_is_that_of_botocore() {
    let (date, scope) = ("20261126T120000Z", "20261126/us-east-1/bedrock-mantle/aws4_request");
    let canonical = "POST\n/anthropic/v1/messages\n\nhost:bedrock.example\nx-amz-date:20261126T120000Z\n\n\
                     host;x-amz-date\nBODY_HASH";
    let hash = hex(&sha2::Sha256::new_with_prefix(BODY).finalize());
    let canonical = canonical.replace("BODY_HASH", &hash);
    assert_eq!(
        signature_of(&canonical, date, scope),
        "959a93aa1c29296b4ffc858280e0c1da264a07ee9d64c14db0a77548f71a6cab"
    );
}
