//! Why a token is not good: for the log, never for who sent it.

use jsonwebtoken::errors::{Error, ErrorKind};

/// Why a token is not good. It repeats nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is larger than any that is looked at.
    #[error("it is too long")]
    TooLong,
    /// It cannot be read.
    #[error("it is no signed token")]
    Form,
    /// Its header names none that its key is for.
    #[error("it is signed in a way that its key is not for")]
    Algorithm,
    /// Its header wants something understood.
    #[error("its header has critical members")]
    Critical,
    /// Its header names no key.
    #[error("it does not name its key")]
    NoKeyId,
    /// The provider publishes no such key, or does not answer.
    #[error("its key is not known")]
    UnknownKey,
    /// Something of it was changed, or it was signed with another key.
    #[error("its signature is wrong")]
    Signature,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// Its time is to come.
    #[error("it is not good yet")]
    NotYet,
    /// It is somebody else's.
    #[error("it is of another issuer")]
    Issuer,
    /// It is meant for somebody else.
    #[error("it is for another audience")]
    Audience,
    /// It lacks `exp`, `iss`, `aud` or `sub`, or has a wrong one.
    #[error("it lacks a claim that every token has")]
    Claims,
    /// Its subject is too long, or cannot be shown.
    #[error("its subject is not a text of 1 to 255 plain characters")]
    Subject,
    /// The claim of the tenant is missing, or no name.
    #[error("it names no tenant")]
    Tenant,
}

impl From<Error> for Refused {
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
