//! Signature verification with `ring`, which TLS uses too.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error as TokenError, ErrorKind};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as ring;

/// Installs the provider in the `jsonwebtoken` library, which has one per process.
pub(super) fn install() {
    // Fails if it is already installed.
    let _ = PROVIDER.install_default();
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    // Needed only to derive public keys from private keys.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Refuses to sign: the service only verifies tokens.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the library defines this signature")]
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, TokenError> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the library defines this signature")]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, TokenError> {
    let scheme = Scheme::of(*algorithm).ok_or(ErrorKind::UnsupportedAlgorithm)?;
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Check { algorithm: *algorithm, scheme, key: key.clone() }))
}

/// The verification algorithm in `ring`.
#[derive(Clone, Copy)]
enum Scheme {
    Rsa(&'static ring::RsaParameters),
    Curve(&'static dyn ring::VerificationAlgorithm),
}

impl Scheme {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all other algorithms are refused, including future ones"
    )]
    fn of(algorithm: Algorithm) -> Option<Self> {
        Some(match algorithm {
            Algorithm::RS256 => Self::Rsa(&ring::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Self::Rsa(&ring::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Self::Rsa(&ring::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Self::Rsa(&ring::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Self::Rsa(&ring::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Self::Rsa(&ring::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => Self::Curve(&ring::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => Self::Curve(&ring::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => Self::Curve(&ring::ED25519),
            _ => return None,
        })
    }
}

/// The verifier of one signature.
struct Check {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for Check {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), Error> {
        let checked = match (self.scheme, self.key.kind()) {
            (Scheme::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                ring::RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Scheme::Curve(algorithm), DecodingKeyKind::SecretOrDer(bytes)) => {
                ring::UnparsedPublicKey::new(algorithm, bytes).verify(message, signature)
            }
            (Scheme::Rsa(_), DecodingKeyKind::SecretOrDer(_))
            | (Scheme::Curve(_), DecodingKeyKind::RsaModulusExponent { .. }) => {
                return Err(Error::new());
            }
        };
        checked.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Check {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
