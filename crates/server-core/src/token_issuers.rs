//! Verification of tokens from configured issuers, and the OAuth metadata for clients without a
//! token.
//!
//! Signing keys are fetched through a port, kept for at most one hour and fetched at most once a
//! minute, independent of what callers send.

mod issuer_keys;
mod issuer_sign_in;

use std::fmt::Write as _;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use identity::{
    CredentialError, CredentialErrorKind, JwkSet, KeyRing, Principal, TokenVerificationError,
    TrustedIssuer, UnverifiedJwt,
};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{BoxFuture, Clock, ErrorCode};

use crate::error::ApiError;
use issuer_keys::IssuerKeys;
pub use issuer_sign_in::{AuthorizationRequest, IssuedIdentity, ReturnedCode, SignInProvider};

/// Port to the JWKS documents of token issuers.
pub trait JwksProvider: Send + Sync + std::fmt::Debug {
    /// Fetches the JWKS of this issuer, within ten seconds.
    ///
    /// # Errors
    /// Returns the reason for the failure, for the log.
    fn fetch_jwks<'a>(&'a self, issuer: &'a str) -> BoxFuture<'a, Result<Bytes, String>>;

    /// The JWKS URL that the operator configured; `None` uses the issuer's metadata.
    fn jwks_url(&self, _issuer: &str) -> Option<&str> {
        None
    }
}

/// The trusted token issuers and the resource that this server is for them.
#[derive(Debug)]
pub struct IssuerTrust {
    /// The public URL of `/mcp`, which is the required audience of tokens. It ends with `/mcp`.
    pub resource: String,
    /// The trusted issuers.
    pub issuers: Vec<TrustedIssuer>,
    /// The provider of their signing keys.
    pub key_source: Arc<dyn JwksProvider>,
    /// The connection to the issuers with which people sign in, if there are any.
    pub sign_in: Option<Arc<dyn SignInProvider>>,
}

/// The trusted issuers, which can be replaced at runtime.
#[derive(Debug, Default)]
pub struct TokenIssuers {
    current: ArcSwapOption<ActiveIssuers>,
    sign_in_slots: issuer_sign_in::SignInSlots,
}

#[derive(Debug)]
struct ActiveIssuers {
    resource: String,
    scopes: Vec<String>,
    issuer_keys: Vec<Arc<IssuerKeys>>,
    key_source: Arc<dyn JwksProvider>,
    sign_in: Option<Arc<dyn SignInProvider>>,
}

/// The server state against which a token is verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VerificationContext<'a> {
    pub(crate) key_ring: &'a KeyRing,
    pub(crate) clock: &'a Arc<dyn Clock>,
}

impl TokenIssuers {
    /// Replaces the trusted issuers. The keys of an issuer with an unchanged JWKS URL are kept.
    pub fn replace(&self, trust: Option<IssuerTrust>) {
        let before = self.current.load_full();
        let inner = trust.map(|IssuerTrust { resource, issuers, key_source: keys, sign_in }| {
            let mut scopes: Vec<String> = issuers.iter().flat_map(granted_scopes).collect();
            scopes.sort_unstable();
            scopes.dedup();
            let known = |issuer: &TrustedIssuer, place: Option<&str>| {
                let all = before.iter().flat_map(|before| &before.issuer_keys);
                all.into_iter().find(|kept| kept.is_same_endpoint(issuer, place)).cloned()
            };
            let kept = |issuer: TrustedIssuer| {
                let place = keys.jwks_url(&issuer.iss);
                let known = known(&issuer, place);
                IssuerKeys::with_config(known, issuer, place.map(str::to_owned))
            };
            let all = issuers.into_iter().map(kept).collect();
            Arc::new(ActiveIssuers {
                resource,
                scopes,
                issuer_keys: all,
                key_source: keys,
                sign_in,
            })
        });
        self.current.store(inner);
    }

    /// Verifies a token and returns its principal; `source` is the source of the endpoint, if any.
    ///
    /// # Errors
    /// [`ErrorCode::Unauthenticated`] with the same message for all reasons, [`ErrorCode::Forbidden`] for a
    /// valid token without grants, [`ErrorCode::UpstreamLost`] if the keys of its issuer are
    /// unavailable.
    pub(crate) async fn verify_token(
        &self,
        presented: &str,
        source: Option<&str>,
        context: VerificationContext<'_>,
    ) -> Result<Principal, ApiError> {
        let inner = self.current.load_full();
        let judged = match &inner {
            Some(inner) => inner.verify_token(presented, source, context).await,
            None => Err(TokenRejection::Invalid(CredentialErrorKind::UnknownIssuer.into())),
        };
        let refused = match judged {
            Ok(principal) => return Ok(principal),
            Err(refused) => refused,
        };
        let reason = match refused.reason() {
            Ok(reason) => reason,
            Err(error) if error.code() == ErrorCode::Forbidden => {
                return Err(self.with_challenge(error, source, Some("insufficient_scope")));
            }
            Err(error) => return Err(error),
        };
        tracing::info!(reason = reason.as_str(), "token rejected");
        let told = CredentialError::new(reason).to_string();
        let error = ApiError::new(ErrorCode::Unauthenticated, told).with_help(
            "send `Authorization: Bearer TOKEN` with a token that was issued for this \
                server",
        );
        Err(self.with_challenge(error, source, Some("invalid_token")))
    }

    /// Adds the challenge that names the authorization metadata, if there are issuers.
    pub(crate) fn with_challenge(
        &self,
        error: ApiError,
        source: Option<&str>,
        error_code: Option<&str>,
    ) -> ApiError {
        match self.current.load().as_deref() {
            Some(inner) => error.with_challenge(inner.challenge_header(source, error_code)),
            None => error,
        }
    }

    /// The protected resource metadata (RFC 9728) for `/mcp` or for the endpoint of one source;
    /// `None` if no issuer is configured.
    pub fn resource_metadata(&self, source: Option<&str>) -> Option<ProtectedResourceMetadata> {
        let inner = self.current.load_full()?;
        let issuers = inner.issuer_keys.iter().map(|kept| kept.issuer.iss.clone());
        Some(ProtectedResourceMetadata {
            resource: inner.resource_uri(source),
            resource_name: "Toolkeep",
            authorization_servers: issuers.collect(),
            scopes_supported: inner.scopes.clone(),
            bearer_methods_supported: ["header"],
        })
    }
}

/// Metadata that a client needs to obtain a token.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProtectedResourceMetadata {
    /// Identifier of this resource, for which the token must be issued.
    resource: String,
    resource_name: &'static str,
    /// Issuers whose tokens are accepted.
    authorization_servers: Vec<String>,
    /// Scopes that grant access.
    scopes_supported: Vec<String>,
    /// Ways to send a token.
    bearer_methods_supported: [&'static str; 1],
}

/// Why a token was rejected.
#[derive(Debug)]
enum TokenRejection {
    Invalid(TokenVerificationError),
    /// The keys of its issuer are not available.
    KeysUnavailable,
}

impl TokenRejection {
    /// Returns why the token is invalid; or the error if it is valid and grants nothing, or if that
    /// cannot be checked.
    fn reason(&self) -> Result<CredentialErrorKind, ApiError> {
        match self {
            Self::Invalid(TokenVerificationError::Rejected(reason)) => Ok(*reason),
            Self::Invalid(TokenVerificationError::UnknownKey) => Ok(CredentialErrorKind::UnknownId),
            Self::Invalid(TokenVerificationError::NoGrant) => {
                tracing::info!("token without a grant");
                let message = "the token is valid, but no grant matches its claims";
                Err(ApiError::new(ErrorCode::Forbidden, message)
                    .with_help("request the named scope, or ask the operator for a grant"))
            }
            Self::KeysUnavailable => {
                let told = "the signing keys of the token's issuer are unavailable";
                Err(ApiError::new(ErrorCode::UpstreamLost, told)
                    .with_help("try again in a few seconds"))
            }
        }
    }
}

impl ActiveIssuers {
    async fn verify_token(
        &self,
        presented: &str,
        source: Option<&str>,
        VerificationContext { key_ring, clock }: VerificationContext<'_>,
    ) -> Result<Principal, TokenRejection> {
        let fault = |reason: CredentialErrorKind| TokenRejection::Invalid(reason.into());
        let token = UnverifiedJwt::parse_token(presented).map_err(fault)?;
        let named = |kept: &&Arc<IssuerKeys>| Some(kept.issuer.iss.as_str()) == token.issuer();
        let kept =
            self.issuer_keys.iter().find(named).ok_or(fault(CredentialErrorKind::UnknownIssuer))?;
        let own = source.map(|source| format!("{}/{source}", self.resource));
        let audiences: Vec<&str> =
            std::iter::once(self.resource.as_str()).chain(own.as_deref()).collect();
        let directory = key_ring.directory();
        self.verify_with_keys(kept, clock, |keys| {
            kept.issuer.verify_token(&token, keys, &audiences, directory, clock.wall_now())
        })
        .await
    }

    /// Verifies with the keys of an issuer, and again with new ones where a key is unknown.
    async fn verify_with_keys<T>(
        &self,
        kept: &Arc<IssuerKeys>,
        clock: &Arc<dyn Clock>,
        verify: impl Fn(&JwkSet) -> Result<T, TokenVerificationError>,
    ) -> Result<T, TokenRejection> {
        let judge = || {
            let keys = kept.current_keys(&self.key_source, clock)?;
            Some(verify(&keys.0))
        };
        let first = judge();
        if !matches!(first, None | Some(Err(TokenVerificationError::UnknownKey))) {
            return first.ok_or(TokenRejection::KeysUnavailable)?.map_err(TokenRejection::Invalid);
        }
        // An unknown key may be a new one.
        let judged =
            if kept.refresh_and_wait(&self.key_source, clock).await { judge() } else { first };
        judged.ok_or(TokenRejection::KeysUnavailable)?.map_err(TokenRejection::Invalid)
    }

    fn resource_uri(&self, source: Option<&str>) -> String {
        match source {
            Some(source) => format!("{}/{source}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// The URL of this server as clients use it, without a trailing slash.
    fn base_url(&self) -> &str {
        self.resource.strip_suffix("/mcp").unwrap_or(&self.resource)
    }

    /// The value of `WWW-Authenticate` (RFC 6750 3, RFC 9728 5.1).
    fn challenge_header(&self, source: Option<&str>, fault: Option<&str>) -> String {
        let mut message = "Bearer realm=\"toolkeep\"".to_owned();
        let mut add = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            write!(message, ", {name}=\"{value}\"").unwrap_or_default();
        };
        if let Some(fault) = fault {
            add("error", fault);
        }
        let base = self.base_url();
        // A name that is invalid in a header value is not a source name.
        let source = source.filter(|source| tool::SourceName::new(*source).is_ok());
        let tail = source.map(|source| format!("/{source}")).unwrap_or_default();
        let place = format!("{base}/.well-known/oauth-protected-resource/mcp{tail}");
        add("resource_metadata", &place);
        if !self.scopes.is_empty() {
            add("scope", &self.scopes.join(" "));
        }
        message
    }
}

/// The scopes that have grants.
fn granted_scopes(issuer: &TrustedIssuer) -> Vec<String> {
    let scopes =
        issuer.grants.iter().filter(|grant| matches!(grant.claim.as_str(), "scope" | "scp"));
    scopes.map(|grant| grant.value.clone()).collect()
}
