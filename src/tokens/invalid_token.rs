//! The reasons that a token is refused. They are for the log and never sent to the caller.

use jsonwebtoken::errors::{Error, ErrorKind};

/// The reason that a token is refused. It contains no part of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// The token exceeds the size limit.
    #[error("it is too long")]
    TooLong,
    /// The token cannot be parsed.
    #[error("it is not a signed token")]
    Form,
    /// The key may not be used for the algorithm in the header.
    #[error("its key may not be used for its algorithm")]
    Algorithm,
    /// The header has a `crit` member, and no extension is supported.
    #[error("its header has critical members")]
    Critical,
    /// The header has no key ID.
    #[error("its header has no key ID")]
    NoKeyId,
    /// The provider does not publish the key, or is unavailable.
    #[error("its key is unknown")]
    UnknownKey,
    /// The signature does not match.
    #[error("its signature does not match")]
    Signature,
    /// The token has expired.
    #[error("it has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("it is not valid yet")]
    NotYet,
    /// The token has another issuer.
    #[error("it has another issuer")]
    Issuer,
    /// The token has another audience.
    #[error("it has another audience")]
    Audience,
    /// The claim `exp`, `iss`, `aud` or `sub` is missing or not valid.
    #[error("a required claim is missing or not valid")]
    Claims,
    /// The subject is too long or has control characters.
    #[error("its subject is not a text of 1 to 255 plain characters")]
    Subject,
    /// The tenant claim is missing or not a valid name.
    #[error("its tenant claim is missing or not valid")]
    Tenant,
}

impl From<Error> for InvalidToken {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        if matches!(kind, ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_)) {
            return Self::Claims;
        }
        let known = [
            (ErrorKind::InvalidSignature, Self::Signature),
            (ErrorKind::ExpiredSignature, Self::Expired),
            (ErrorKind::ImmatureSignature, Self::NotYet),
            (ErrorKind::InvalidIssuer, Self::Issuer),
            (ErrorKind::InvalidAudience, Self::Audience),
            (ErrorKind::InvalidAlgorithm, Self::Algorithm),
        ];
        let found = known.into_iter().find(|(other, _)| other == kind);
        found.map_or(Self::Form, |(_, refused)| refused)
    }
}
