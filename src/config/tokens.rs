//! Whose tokens are good where keys are.

use anyhow::{Context as _, bail};
use clap::Args;

use super::Auth;
use crate::tokens::{Issuer, Pace, Rules};

/// Options of tokens.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    /// The identity provider whose tokens are good where keys are: their `iss`, to the letter
    /// [default: none]
    #[arg(long, env = "TWOSTEP_TOKEN_ISSUER", value_name = "URL")]
    pub token_issuer: Option<String>,
    /// What tokens must be meant for: their `aud`, or one of them; needed with an issuer
    #[arg(long, env = "TWOSTEP_TOKEN_AUDIENCE", value_name = "NAME")]
    pub token_audience: Option<String>,
    /// Where the provider's keys are, a JWKS; https, or http on this machine
    /// [default: where its discovery document says]
    #[arg(long, env = "TWOSTEP_TOKEN_JWKS_URL", value_name = "URL")]
    pub token_jwks_url: Option<String>,
    /// The claim that names the tenant
    #[arg(long, env = "TWOSTEP_TOKEN_TENANT_CLAIM", default_value = "tenant", value_name = "NAME")]
    pub token_tenant_claim: String,
    /// The claim of the scopes, of which `twostep:read` and `twostep:write` count
    #[arg(long, env = "TWOSTEP_TOKEN_SCOPE_CLAIM", default_value = "scope", value_name = "NAME")]
    pub token_scope_claim: String,
}

impl TokenArgs {
    /// The provider, if one is named.
    pub(super) fn into_issuer(self, auth: Auth) -> anyhow::Result<Option<Issuer>> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (audience, jwks_url) = (given(self.token_audience), given(self.token_jwks_url));
        let Some(issuer) = given(self.token_issuer) else {
            if audience.is_some() || jwks_url.is_some() {
                bail!(
                    "--token-audience and --token-jwks-url are for the tokens of an identity \
                     provider: say --token-issuer as well"
                );
            }
            return Ok(None);
        };
        if auth != Auth::Keys {
            bail!("--token-issuer is for --auth keys: with any other, nobody is asked for a token");
        }
        let audience = audience.context(
            "--token-issuer needs --token-audience: without it, tokens that the provider gives \
             for other services would be good here",
        )?;
        let jwks_url = jwks_url.map(|url| url.parse());
        let rules = Rules {
            issuer,
            audience,
            jwks_url: jwks_url.transpose().context("--token-jwks-url is not a URL")?,
            tenant_claim: self.token_tenant_claim,
            scope_claim: self.token_scope_claim,
            pace: Pace::default(),
        };
        let place = "the keys of --token-issuer cannot be asked for: name an https URL by it or by \
                     --token-jwks-url";
        Ok(Some(Issuer::new(rules).context(place)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(issuer: &str, audience: &str, jwks_url: &str) -> TokenArgs {
        TokenArgs {
            token_issuer: Some(issuer.to_owned()),
            token_audience: Some(audience.to_owned()),
            token_jwks_url: Some(jwks_url.to_owned()),
            token_tenant_claim: "tenant".to_owned(),
            token_scope_claim: "scope".to_owned(),
        }
    }

    #[test]
    fn what_is_incomplete_or_cannot_be_asked_is_refused_with_what_is_missing() {
        // A second test of the same process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let said = |args: TokenArgs, auth| match args.into_issuer(auth) {
            Ok(issuer) => issuer.map_or("none", |_| "good").to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let https = "https://id.example";
        for (args, auth, expected) in [
            (args("", "", ""), Auth::Open, "none"),
            (args(https, "twostep", ""), Auth::Keys, "good"),
            (args("id.example", "twostep", "https://id.example/keys"), Auth::Keys, "good"),
            (args("http://127.0.0.1:9", "twostep", ""), Auth::Keys, "good"),
            (args("", "twostep", ""), Auth::Keys, "say --token-issuer as well"),
            (args("", "", https), Auth::Keys, "say --token-issuer as well"),
            (args(https, "", ""), Auth::Keys, "needs --token-audience"),
            (args(https, "twostep", ""), Auth::Open, "is for --auth keys"),
            (args(https, "twostep", ""), Auth::OpenToAll, "is for --auth keys"),
            (args("id.example", "twostep", ""), Auth::Keys, "neither an https URL nor"),
            (args("http://id.example", "twostep", ""), Auth::Keys, "neither an https URL nor"),
            (args(https, "twostep", "http://id.example"), Auth::Keys, "neither an https URL nor"),
            (args(https, "twostep", "keys"), Auth::Keys, "is not a URL"),
        ] {
            let said = said(args, auth);
            assert!(said.contains(expected), "{said:?} lacks {expected:?}");
        }
    }
}
