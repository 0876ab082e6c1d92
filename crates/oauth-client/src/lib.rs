//! OAuth 2.1 towards MCP servers over HTTP, as MCP's authorization specification has it: who asks for a
//! token, where, and when again.
//!
//! A token is of one source and is sent nowhere else. Nothing of a caller comes in here. Every address
//! that an answer names is judged before it is dialled, and `egress` dials.

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

/// How a source's tokens are asked for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The source.
    pub source: SourceName,
    /// Its address.
    pub url: String,
    /// On whose behalf.
    pub grant: Grant,
    /// The client as it is registered; `None` where it registers itself.
    pub client: Option<Registered>,
    /// The https address of a client id metadata document that describes this installation.
    pub client_metadata: Option<String>,
    /// Scopes to ask for, and with [`Grant::ClientCredentials`] no others: a server cannot name itself a
    /// stronger token. Empty: those that the server names.
    pub scopes: Vec<String>,
    /// The only authorization server that is asked, by its identifier.
    pub issuer: Option<String>,
    /// Its token endpoint, where its metadata are not to be asked for.
    pub token_endpoint: Option<String>,
    /// Whether a server may name addresses on any port of this machine, and not on its own alone.
    pub any_loopback_port: bool,
    /// Whether the operator said any of this.
    pub said: bool,
}

impl Settings {
    /// What holds for a source where nothing is said: a person logs in, the client registers itself.
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

/// On whose behalf tokens are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// The installation's own.
    ClientCredentials,
    /// A person's, who logs in once.
    AuthorizationCode,
}

/// A client that an authorization server knows.
#[derive(Debug, Clone)]
pub struct Registered {
    /// Its id.
    pub id: String,
    /// How it proves that it is that client.
    pub proof: Proof,
}

/// How a client proves who it is.
#[derive(Clone)]
pub enum Proof {
    /// Not at all: a public client.
    None,
    /// By a secret.
    Secret(Secret),
    /// By a signature (RFC 7523).
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

/// What an account works with.
#[derive(Debug, Clone)]
pub struct Means {
    /// The way out.
    pub egress: Egress,
    /// Where what must outlive the process is kept, sealed; `None`: it is forgotten.
    pub store: Option<Arc<dyn Store>>,
    /// For what expires.
    pub clock: Arc<dyn Clock>,
}

impl Settings {
    /// Checks the addresses; dials nothing.
    ///
    /// # Errors
    /// A [`Problem`] with the place and the fix.
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
