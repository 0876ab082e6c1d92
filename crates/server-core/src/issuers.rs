//! Verification of tokens from configured issuers, and the OAuth metadata for clients without a
//! token.
//!
//! Signing keys are fetched through a port, kept for at most one hour and fetched at most once a
//! minute, independent of what callers send.

mod kept;

use std::fmt::Write as _;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use identity::{CredentialError, Issuer, KeyRing, Principal, Reason, Token, TokenFault};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Boxed, Clock, Code};

use crate::error::ApiError;
use kept::Kept;

/// Port to the JWKS documents of token issuers.
pub trait KeySource: Send + Sync + std::fmt::Debug {
    /// Fetches the JWKS of this issuer, within ten seconds.
    ///
    /// # Errors
    /// Returns the reason for the failure, for the log.
    fn fetch<'a>(&'a self, issuer: &'a str) -> Boxed<'a, Result<Bytes, String>>;

    /// The JWKS URL that the operator configured; `None` uses the issuer's metadata.
    fn place(&self, _issuer: &str) -> Option<&str> {
        None
    }
}

/// The trusted token issuers and the resource that this server is for them.
#[derive(Debug)]
pub struct Trusted {
    /// The public URL of `/mcp`, which is the required audience of tokens. It ends with `/mcp`.
    pub resource: String,
    /// The trusted issuers.
    pub issuers: Vec<Issuer>,
    /// The provider of their signing keys.
    pub keys: Arc<dyn KeySource>,
}

/// The trusted issuers, which can be replaced at runtime.
#[derive(Debug, Default)]
pub struct Issuers {
    now: ArcSwapOption<Inner>,
}

#[derive(Debug)]
struct Inner {
    resource: String,
    scopes: Vec<String>,
    all: Vec<Arc<Kept>>,
    keys: Arc<dyn KeySource>,
}

impl Issuers {
    /// Replaces the trusted issuers. The keys of an issuer with an unchanged JWKS URL are kept.
    pub fn set(&self, trusted: Option<Trusted>) {
        let before = self.now.load_full();
        let inner = trusted.map(|Trusted { resource, issuers, keys }| {
            let mut scopes: Vec<String> = issuers.iter().flat_map(scopes).collect();
            scopes.sort_unstable();
            scopes.dedup();
            let known = |issuer: &Issuer, place: Option<&str>| {
                let all = before.iter().flat_map(|before| &before.all);
                all.into_iter().find(|kept| kept.same(issuer, place)).cloned()
            };
            let kept = |issuer: Issuer| {
                let place = keys.place(&issuer.issuer);
                let known = known(&issuer, place);
                Kept::after(known, issuer, place.map(str::to_owned))
            };
            let all = issuers.into_iter().map(kept).collect();
            Arc::new(Inner { resource, scopes, all, keys })
        });
        self.now.store(inner);
    }

    /// Verifies a token and returns its principal; `source` is the source of the endpoint, if any.
    ///
    /// # Errors
    /// [`Code::Unauthenticated`] with the same message for all reasons, [`Code::Forbidden`] for a
    /// valid token without grants, [`Code::UpstreamLost`] if the keys of its issuer are
    /// unavailable.
    pub(crate) async fn verify(
        &self,
        presented: &str,
        source: Option<&str>,
        (ring, clock): (&KeyRing, &Arc<dyn Clock>),
    ) -> Result<Principal, ApiError> {
        let inner = self.now.load_full();
        let judged = match &inner {
            Some(inner) => inner.verify(presented, source, (ring, clock)).await,
            None => Err(Refused::Fault(Reason::UnknownIssuer.into())),
        };
        let refused = match judged {
            Ok(principal) => return Ok(principal),
            Err(refused) => refused,
        };
        let reason = match refused {
            Refused::Fault(TokenFault::Refused(reason)) => reason,
            Refused::Fault(TokenFault::UnknownKey) => Reason::UnknownId,
            Refused::Fault(TokenFault::NoGrant) => {
                tracing::info!("token without a grant");
                let told = "the token holds, and nothing is granted for what it says";
                let error = ApiError::new(Code::Forbidden, told)
                    .fix("ask for the scope that is named, or have the operator grant it");
                return Err(self.challenged(error, source, Some("insufficient_scope")));
            }
            Refused::NoKeys => {
                let told = "the keys of the token's issuer cannot be had just now";
                return Err(
                    ApiError::new(Code::UpstreamLost, told).fix("try again in some seconds")
                );
            }
        };
        tracing::info!(reason = reason.as_str(), "token refused");
        let told = CredentialError::new(reason).to_string();
        let error = ApiError::new(Code::Unauthenticated, told)
            .fix("send `Authorization: Bearer TOKEN` with one that was made for this server");
        Err(self.challenged(error, source, Some("invalid_token")))
    }

    /// Adds the challenge that names the authorization metadata, if there are issuers.
    pub(crate) fn challenged(
        &self,
        error: ApiError,
        source: Option<&str>,
        fault: Option<&str>,
    ) -> ApiError {
        match self.now.load().as_deref() {
            Some(inner) => error.challenge(inner.challenge(source, fault)),
            None => error,
        }
    }

    /// The protected resource metadata (RFC 9728) for `/mcp` or for the endpoint of one source;
    /// `None` if no issuer is configured.
    pub fn metadata(&self, source: Option<&str>) -> Option<Metadata> {
        let inner = self.now.load_full()?;
        let issuers = inner.all.iter().map(|kept| kept.issuer.issuer.clone());
        Some(Metadata {
            resource: inner.resource(source),
            resource_name: "Toolkeep",
            authorization_servers: issuers.collect(),
            scopes_supported: inner.scopes.clone(),
            bearer_methods_supported: ["header"],
        })
    }
}

/// What a client must know to get a token.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Metadata {
    /// What a token must be for.
    resource: String,
    resource_name: &'static str,
    /// The issuers whose tokens are believed.
    authorization_servers: Vec<String>,
    /// The scopes for which something is granted.
    scopes_supported: Vec<String>,
    /// Where a token goes.
    bearer_methods_supported: [&'static str; 1],
}

/// Why a token was rejected.
enum Refused {
    Fault(TokenFault),
    /// The keys of its issuer are not available.
    NoKeys,
}

impl Inner {
    async fn verify(
        &self,
        presented: &str,
        source: Option<&str>,
        (ring, clock): (&KeyRing, &Arc<dyn Clock>),
    ) -> Result<Principal, Refused> {
        let fault = |reason: Reason| Refused::Fault(reason.into());
        let token = Token::read(presented).map_err(fault)?;
        let named = |kept: &&Arc<Kept>| Some(kept.issuer.issuer.as_str()) == token.issuer();
        let kept = self.all.iter().find(named).ok_or(fault(Reason::UnknownIssuer))?;
        let own = source.map(|source| format!("{}/{source}", self.resource));
        let audiences: Vec<&str> =
            std::iter::once(self.resource.as_str()).chain(own.as_deref()).collect();
        let judge = || {
            let keys = kept.keys(&self.keys, clock)?;
            let beside = (ring.directory(), clock.wall());
            Some(kept.issuer.verify(&token, &keys.0, &audiences, beside))
        };
        let first = judge();
        if !matches!(first, None | Some(Err(TokenFault::UnknownKey))) {
            return first.ok_or(Refused::NoKeys)?.map_err(Refused::Fault);
        }
        // An unknown key may be a new one.
        let judged = if kept.renewed(&self.keys, clock).await { judge() } else { first };
        judged.ok_or(Refused::NoKeys)?.map_err(Refused::Fault)
    }

    fn resource(&self, source: Option<&str>) -> String {
        match source {
            Some(source) => format!("{}/{source}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// The value of `WWW-Authenticate` (RFC 6750 3, RFC 9728 5.1).
    fn challenge(&self, source: Option<&str>, fault: Option<&str>) -> String {
        let mut told = "Bearer realm=\"toolkeep\"".to_owned();
        let mut add = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            write!(told, ", {name}=\"{value}\"").unwrap_or_default();
        };
        if let Some(fault) = fault {
            add("error", fault);
        }
        let base = self.resource.strip_suffix("/mcp").unwrap_or(&self.resource);
        // A name that is invalid in a header value is not a source name.
        let source = source.filter(|source| tool::SourceName::new(*source).is_ok());
        let tail = source.map(|source| format!("/{source}")).unwrap_or_default();
        let place = format!("{base}/.well-known/oauth-protected-resource/mcp{tail}");
        add("resource_metadata", &place);
        if !self.scopes.is_empty() {
            add("scope", &self.scopes.join(" "));
        }
        told
    }
}

/// The scopes that have grants.
fn scopes(issuer: &Issuer) -> Vec<String> {
    let scopes =
        issuer.grants.iter().filter(|grant| matches!(grant.claim.as_str(), "scope" | "scp"));
    scopes.map(|grant| grant.value.clone()).collect()
}
