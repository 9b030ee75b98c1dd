//! Tokens of an identity provider, accepted in addition to API keys.

use anyhow::{Context as _, bail};
use clap::Args;

use super::args::Auth;
use crate::tokens::{Issuer, IssuerConfig, KeyRefresh};

/// Options for tokens of an identity provider.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    /// Identity provider whose tokens are accepted in addition to keys: the exact value of `iss`
    /// [default: none]
    #[arg(long, env = "TWOSTEP_TOKEN_ISSUER", value_name = "URL")]
    pub token_issuer: Option<String>,
    /// Audience that tokens must contain in `aud`; required with --token-issuer
    #[arg(long, env = "TWOSTEP_TOKEN_AUDIENCE", value_name = "NAME")]
    pub token_audience: Option<String>,
    /// URL of the provider's keys (JWKS): https, or http on this machine
    /// [default: read from the provider's discovery document]
    #[arg(long, env = "TWOSTEP_TOKEN_JWKS_URL", value_name = "URL")]
    pub token_jwks_url: Option<String>,
    /// Claim that contains the tenant
    #[arg(long, env = "TWOSTEP_TOKEN_TENANT_CLAIM", default_value = "tenant", value_name = "NAME")]
    pub token_tenant_claim: String,
    /// Claim that contains the scopes; `twostep:read` and `twostep:write` are used
    #[arg(long, env = "TWOSTEP_TOKEN_SCOPE_CLAIM", default_value = "scope", value_name = "NAME")]
    pub token_scope_claim: String,
}

impl TokenArgs {
    /// Checks the options and returns the provider, if one is configured.
    pub(super) fn into_issuer(self, auth: Auth) -> anyhow::Result<Option<Issuer>> {
        let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (audience, jwks_url) = (non_empty(self.token_audience), non_empty(self.token_jwks_url));
        let Some(issuer) = non_empty(self.token_issuer) else {
            if audience.is_some() || jwks_url.is_some() {
                bail!("--token-audience and --token-jwks-url need --token-issuer");
            }
            return Ok(None);
        };
        if auth != Auth::Keys {
            bail!("--token-issuer needs --auth keys: other modes accept callers without a token");
        }
        let audience = audience.context(
            "--token-issuer needs --token-audience: without it, tokens that the provider issues \
             for other services would be accepted",
        )?;
        let jwks_url = jwks_url.map(|url| url.parse());
        let config = IssuerConfig {
            issuer,
            audience,
            jwks_url: jwks_url.transpose().context("--token-jwks-url is not a URL")?,
            tenant_claim: self.token_tenant_claim,
            scope_claim: self.token_scope_claim,
            key_refresh: KeyRefresh::default(),
        };
        let context = "the keys of --token-issuer cannot be fetched: set an https URL there or in \
                       --token-jwks-url";
        Ok(Some(Issuer::new(config).context(context)?))
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
    fn incomplete_or_unreachable_settings_are_rejected_with_the_missing_option() {
        // Another test of the same process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let outcome = |args: TokenArgs, auth| match args.into_issuer(auth) {
            Ok(issuer) => issuer.map_or("none", |_| "good").to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let https = "https://id.example";
        for (args, auth, expected) in [
            (args("", "", ""), Auth::Open, "none"),
            (args(https, "twostep", ""), Auth::Keys, "good"),
            (args("id.example", "twostep", "https://id.example/keys"), Auth::Keys, "good"),
            (args("http://127.0.0.1:9", "twostep", ""), Auth::Keys, "good"),
            (args("", "twostep", ""), Auth::Keys, "need --token-issuer"),
            (args("", "", https), Auth::Keys, "need --token-issuer"),
            (args(https, "", ""), Auth::Keys, "needs --token-audience"),
            (args(https, "twostep", ""), Auth::Open, "needs --auth keys"),
            (args(https, "twostep", ""), Auth::OpenToAll, "needs --auth keys"),
            (args("id.example", "twostep", ""), Auth::Keys, "neither an https URL nor"),
            (args("http://id.example", "twostep", ""), Auth::Keys, "neither an https URL nor"),
            (args(https, "twostep", "http://id.example"), Auth::Keys, "neither an https URL nor"),
            (args(https, "twostep", "keys"), Auth::Keys, "is not a URL"),
        ] {
            let outcome = outcome(args, auth);
            assert!(outcome.contains(expected), "{outcome:?} lacks {expected:?}");
        }
    }
}
