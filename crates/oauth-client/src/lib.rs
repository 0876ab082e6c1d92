//! OAuth 2.1 client for MCP servers over HTTP, as specified by MCP Authorization, and for the issuers
//! that the server itself trusts.
//!
//! A token belongs to one source and is sent only there. No data of a caller is used. Addresses
//! from responses are checked before `egress` contacts them.

mod address_policy;
mod authorization_code;
mod bearer_challenge;
mod client_auth;
mod client_registration;
mod discovery;
mod http_client;
mod issuer_client;
mod metadata;
mod signing_key;
mod stored_credentials;
mod token_error;
mod token_provider;
mod token_renewal;
mod token_request;
mod token_revocation;

use std::fmt;
use std::sync::Arc;

use egress::{EgressClient, Origin};
use tool::{Clock, Problem, Secret, SourceName, Store};
use url::Url;

pub use signing_key::SigningKey;
pub use token_provider::TokenProvider;

pub use bearer_challenge::BearerChallenge;
pub use issuer_client::{
    AuthorizationRequest, IssuedIdentity, IssuerClient, ReturnedCode, SignInClient,
};
pub use token_error::TokenError;
pub use token_provider::AuthRetries;
pub use token_request::AccessToken;

/// Configuration of token requests for one source.
#[derive(Debug, Clone)]
pub struct OAuthSettings {
    /// Name of the source.
    pub source: SourceName,
    /// URL of the source.
    pub source_url: String,
    /// Grant type of the token requests.
    pub grant_type: GrantType,
    /// Registered client; `None` for dynamic client registration.
    pub client: Option<ConfiguredClient>,
    /// HTTPS URL of a client id metadata document for this installation.
    pub client_metadata_url: Option<String>,
    /// Scopes to request; empty for those that the server names.
    ///
    /// With [`GrantType::ClientCredentials`] no others are requested: a server cannot obtain a stronger
    /// token.
    pub scopes: Vec<String>,
    /// Identifier of the only authorization server that may be used.
    pub issuer: Option<String>,
    /// Token endpoint that replaces metadata discovery.
    pub token_endpoint: Option<String>,
    /// Whether a server may name URLs on any port of this machine, not only on its own.
    pub any_loopback_port: bool,
    /// Whether the operator configured OAuth for this source.
    pub is_configured: bool,
}

impl OAuthSettings {
    /// Creates the default settings: a person logs in, and the client registers itself.
    pub fn new(source: SourceName, url: &str) -> Self {
        Self {
            source,
            source_url: url.to_owned(),
            grant_type: GrantType::AuthorizationCode,
            client: None,
            client_metadata_url: None,
            scopes: Vec::new(),
            issuer: None,
            token_endpoint: None,
            any_loopback_port: false,
            is_configured: false,
        }
    }
}

/// Grant type of token requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantType {
    /// Tokens for the installation itself.
    ClientCredentials,
    /// Tokens for a person, who logs in once.
    AuthorizationCode,
}

/// Client that is registered at an authorization server.
#[derive(Debug, Clone)]
pub struct ConfiguredClient {
    /// Client id at the authorization server.
    pub client_id: String,
    /// Client authentication for token requests.
    pub auth: ClientAuth,
}

/// Client authentication at the token endpoint.
#[derive(Clone)]
pub enum ClientAuth {
    /// Public client without authentication.
    Public,
    /// Authentication with a secret.
    Secret(Secret),
    /// Authentication with a signature (RFC 7523).
    PrivateKey(Arc<SigningKey>),
}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "None",
            Self::Secret(_) => "Secret(…)",
            Self::PrivateKey(_) => "Key(…)",
        })
    }
}

/// Dependencies of a token provider.
#[derive(Debug, Clone)]
pub struct OAuthDependencies {
    /// Client for outgoing requests.
    pub egress: EgressClient,
    /// Encrypted store for credentials; with `None` they are lost at exit.
    pub store: Option<Arc<dyn Store>>,
    /// Clock for expiry times.
    pub clock: Arc<dyn Clock>,
}

impl OAuthSettings {
    /// Validates the URLs without connecting.
    ///
    /// # Errors
    /// A [`Problem`] with its place and the suggested fix.
    fn validate_urls(&self) -> Result<(Url, Vec<Origin>), Problem> {
        let mut origins = Vec::new();
        let named = [
            ("url", Some(&self.source_url)),
            ("issuer", self.issuer.as_ref()),
            ("token_endpoint", self.token_endpoint.as_ref()),
        ];
        for (place, text) in named.into_iter().filter_map(|(place, text)| Some((place, text?))) {
            let origin = Origin::parse(text).map_err(|error| {
                Problem::new(place, error.to_string()).with_help("write it as `https://HOST/PATH`")
            })?;
            if !origin.is_https() && !origin.is_loopback() {
                let why = "tokens and secrets are sent only over https, or to this machine";
                return Err(Problem::new(place, why).with_help("write it with `https://`"));
            }
            origins.push(origin);
        }
        let url = Url::parse(&self.source_url)
            .map_err(|error| Problem::new("url", error.to_string()).with_help("correct it"))?;
        Ok((url, origins))
    }
}
