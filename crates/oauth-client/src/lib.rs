//! OAuth 2.1 client for MCP servers over HTTP, as specified by MCP Authorization.
//!
//! A token belongs to one source and is sent only there. No data of a caller is used. Addresses
//! from responses are checked before `egress` contacts them.

mod account;
mod challenge;
mod client;
mod consent;
mod discover;
mod fault;
mod jwt;
mod kept;
mod metadata;
mod places;
mod renew;
mod token;
mod web;

use std::fmt;
use std::sync::Arc;

use egress::{Egress, Origin};
use tool::{Clock, Problem, Secret, SourceName, Store};
use url::Url;

pub use account::Account;
pub use jwt::SigningKey;

pub use account::Tries;
pub use challenge::Challenge;
pub use fault::Fault;
pub use token::Token;

/// Configuration of token requests for one source.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the source.
    pub source: SourceName,
    /// URL of the source.
    pub url: String,
    /// Grant type of the token requests.
    pub grant: Grant,
    /// Registered client; `None` for dynamic client registration.
    pub client: Option<Registered>,
    /// HTTPS URL of a client id metadata document for this installation.
    pub client_metadata: Option<String>,
    /// Scopes to request; empty for those that the server names.
    ///
    /// With [`Grant::ClientCredentials`] no others are requested: a server cannot obtain a stronger
    /// token.
    pub scopes: Vec<String>,
    /// Identifier of the only authorization server that may be used.
    pub issuer: Option<String>,
    /// Token endpoint that replaces metadata discovery.
    pub token_endpoint: Option<String>,
    /// Whether a server may name URLs on any port of this machine, not only on its own.
    pub any_loopback_port: bool,
    /// Whether the operator configured OAuth for this source.
    pub said: bool,
}

impl Settings {
    /// Creates the default settings: a person logs in, and the client registers itself.
    pub fn new(source: SourceName, url: &str) -> Self {
        Self {
            source,
            url: url.to_owned(),
            grant: Grant::AuthorizationCode,
            client: None,
            client_metadata: None,
            scopes: Vec::new(),
            issuer: None,
            token_endpoint: None,
            any_loopback_port: false,
            said: false,
        }
    }
}

/// Grant type of token requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Tokens for the installation itself.
    ClientCredentials,
    /// Tokens for a person, who logs in once.
    AuthorizationCode,
}

/// Client that is registered at an authorization server.
#[derive(Debug, Clone)]
pub struct Registered {
    /// Client id at the authorization server.
    pub id: String,
    /// Client authentication for token requests.
    pub proof: Proof,
}

/// Client authentication at the token endpoint.
#[derive(Clone)]
pub enum Proof {
    /// Public client without authentication.
    None,
    /// Authentication with a secret.
    Secret(Secret),
    /// Authentication with a signature (RFC 7523).
    Key(Arc<SigningKey>),
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Secret(_) => "Secret(…)",
            Self::Key(_) => "Key(…)",
        })
    }
}

/// Dependencies of a token provider.
#[derive(Debug, Clone)]
pub struct Means {
    /// Client for outgoing requests.
    pub egress: Egress,
    /// Encrypted store for credentials; with `None` they are lost at exit.
    pub store: Option<Arc<dyn Store>>,
    /// Clock for expiry times.
    pub clock: Arc<dyn Clock>,
}

impl Settings {
    /// Validates the URLs without connecting.
    ///
    /// # Errors
    /// A [`Problem`] with its place and the suggested fix.
    fn check(&self) -> Result<(Url, Vec<Origin>), Problem> {
        let mut origins = Vec::new();
        let named = [
            ("url", Some(&self.url)),
            ("issuer", self.issuer.as_ref()),
            ("token_endpoint", self.token_endpoint.as_ref()),
        ];
        for (place, text) in named.into_iter().filter_map(|(place, text)| Some((place, text?))) {
            let origin = Origin::parse(text).map_err(|error| {
                Problem::new(place, error.to_string()).fix("write it as `https://HOST/PATH`")
            })?;
            if !origin.is_https() && !origin.is_loopback() {
                let why = "tokens and secrets go over https only, but for this machine itself";
                return Err(Problem::new(place, why).fix("write it with `https://`"));
            }
            origins.push(origin);
        }
        let url = Url::parse(&self.url)
            .map_err(|error| Problem::new("url", error.to_string()).fix("mend it"))?;
        Ok((url, origins))
    }
}
