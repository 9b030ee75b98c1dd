//! Verification of Signature Version 4.
//!
//! Source of the rules: the IAM User Guide of AWS, "AWS Signature Version 4 for API requests", with its
//! pages "Elements of an AWS API request signature", "Create a signed AWS API request" and "Troubleshoot
//! Signature Version 4 signing".

use std::fmt::Write as _;

use axum::http::{HeaderMap, HeaderName, Method, Uri};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use super::{ACCESS_KEY_ID, EXPIRED_SESSION_TOKEN, REGION, SECRET_ACCESS_KEY, SESSION_TOKEN};

/// The service that the scope names, as Anthropic's client of this endpoint names it
/// (`anthropic.lib.bedrock`).
const SERVICE: &str = "bedrock-mantle";
/// The time for which a signature is valid, in seconds.
const VALID_FOR: i64 = 5 * 60;

/// The parts of the `Authorization` header.
struct Authorization<'a> {
    key_id: &'a str,
    scope: [&'a str; 4],
    signed_headers: Vec<&'a str>,
    signature: &'a str,
}

/// Returns the reason why the signature of a request is not accepted.
pub(super) fn verify(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(), String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let authorization = text("authorization").ok_or("Missing Authentication Token")?;
    let parsed = Authorization::parse(authorization).ok_or(
        "Authorization header requires 'Credential' parameter. Authorization header requires \
         'Signature' parameter. Authorization header requires 'SignedHeaders' parameter.",
    )?;
    check_identity(&parsed, text("x-amz-security-token"))?;
    let date = text("x-amz-date").ok_or(
        "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
    )?;
    check_scope(&parsed, date)?;
    check_date(date)?;
    for name in ["host"].into_iter().chain(headers.keys().map(HeaderName::as_str)) {
        let is_required = name == "host" || name == "content-type" || name.starts_with("x-amz-");
        if is_required && !parsed.signed_headers.contains(&name) {
            return Err(format!("'{name}' must be a 'SignedHeader' in the AWS Authorization."));
        }
    }
    let canonical = canonical_request(&parsed, method, uri, headers, body);
    if signature_of(&canonical, date, &parsed.scope.join("/")) == parsed.signature {
        return Ok(());
    }
    Err("The request signature we calculated does not match the signature you provided. Check your \
         AWS Secret Access Key and signing method. Consult the service documentation for details."
        .to_owned())
}

impl<'a> Authorization<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> =
            text.strip_prefix("AWS4-HMAC-SHA256 ")?.split(',').map(str::trim).collect();
        let part = |name: &str| parts.iter().find_map(|part| part.strip_prefix(name));
        let (key_id, scope) = part("Credential=")?.split_once('/')?;
        Some(Self {
            key_id,
            scope: scope.split('/').collect::<Vec<_>>().try_into().ok()?,
            signed_headers: part("SignedHeaders=")?.split(';').collect(),
            signature: part("Signature=")?,
        })
    }
}

fn check_identity(parsed: &Authorization<'_>, session_token: Option<&str>) -> Result<(), String> {
    match session_token {
        Some(EXPIRED_SESSION_TOKEN) => {
            Err("The security token included in the request is expired".to_owned())
        }
        None | Some(SESSION_TOKEN) if parsed.key_id == ACCESS_KEY_ID => Ok(()),
        _ => Err("The security token included in the request is invalid.".to_owned()),
    }
}

fn check_scope(parsed: &Authorization<'_>, date: &str) -> Result<(), String> {
    let [day, region, service, end] = parsed.scope;
    if !date.starts_with(day) {
        return Err(format!("Date in Credential scope does not match YYYYMMDD from {date}"));
    }
    if region != REGION {
        return Err(format!("Credential should be scoped to a valid region, not '{region}'."));
    }
    if service != SERVICE {
        return Err(format!("Credential should be scoped to correct service: '{SERVICE}'."));
    }
    if end != "aws4_request" {
        return Err(
            "Credential should be scoped with a valid terminator: 'aws4_request'".to_owned()
        );
    }
    Ok(())
}

fn check_date(date: &str) -> Result<(), String> {
    let wrong = || format!("Date must be in ISO-8601 'basic format'. Got '{date}'.");
    let signed = DateTime::strptime("%Y%m%dT%H%M%SZ", date).map_err(|_| wrong())?;
    let signed = TimeZone::UTC.to_timestamp(signed).map_err(|_| wrong())?.as_second();
    let now = Timestamp::now().as_second();
    if now - signed > VALID_FOR {
        return Err(format!("Signature expired: {date} is now earlier than {now} - 5 min."));
    }
    if signed - now > VALID_FOR {
        return Err(format!(
            "Signature not yet current: {date} is still later than {now} + 5 min."
        ));
    }
    Ok(())
}

fn canonical_request(
    parsed: &Authorization<'_>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> String {
    let mut text = format!("{method}\n{}\n{}\n", uri.path(), uri.query().unwrap_or_default());
    for name in &parsed.signed_headers {
        let values: Vec<String> = headers
            .get_all(*name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let _ = writeln!(text, "{name}:{}", values.join(","));
    }
    let _ = write!(text, "\n{}\n{}", parsed.signed_headers.join(";"), hex(&Sha256::digest(body)));
    text
}

/// The signature of a canonical request in hexadecimal digits.
pub(super) fn signature_of(canonical: &str, date: &str, scope: &str) -> String {
    let hash = hex(&Sha256::digest(canonical));
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
    let key = format!("AWS4{SECRET_ACCESS_KEY}").into_bytes();
    let key = scope.split('/').fold(key, |key, part| mac(&key, part));
    hex(&mac(&key, &to_sign))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
