//! What servers say of themselves: RFC 9728 for the protected resource, RFC 8414 or OpenID Connect
//! Discovery for its authorization server. Only what is used is read.

use egress::Origin;
use serde::Deserialize;

/// A protected resource.
#[derive(Debug, Deserialize)]
pub(super) struct Resource {
    #[serde(rename = "resource")]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
}

/// An authorization server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Server {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) authorization_response_iss_parameter_supported: Option<bool>,
    pub(super) client_id_metadata_document_supported: Option<bool>,
    /// Whether nobody said any of this: the endpoints of MCP 2025-03-26 are taken.
    #[serde(skip)]
    pub(super) assumed: bool,
}

impl Server {
    /// A server of MCP 2025-03-26 that has no metadata: the endpoints stand at the root.
    pub(super) fn assumed(origin: &str) -> Self {
        let at = |path: &str| Some(format!("{origin}{path}"));
        Self {
            issuer: origin.to_owned(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            assumed: true,
            ..Self::default()
        }
    }

    /// One whose token endpoint the operator named.
    pub(super) fn named(issuer: &str, token_endpoint: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            token_endpoint: Some(token_endpoint.to_owned()),
            ..Self::default()
        }
    }

    /// Whether PKCE with S256 is there: a server that does not say so has none, says MCP.
    pub(super) fn has_pkce(&self) -> bool {
        let methods = self.code_challenge_methods_supported.as_deref();
        self.assumed || methods.is_some_and(|methods| methods.iter().any(|it| it == "S256"))
    }

    /// Whether people log in where codes are exchanged: a server that names the page of another one would
    /// receive the codes of that.
    pub(super) fn has_one_origin(&self) -> bool {
        let origin = |url: Option<&str>| Origin::parse(url?).ok();
        let page = origin(self.authorization_endpoint.as_deref());
        page.is_some() && page == origin(self.token_endpoint.as_deref())
    }

    /// Whether clients may be described by a document at their id.
    pub(super) fn reads_documents(&self) -> bool {
        self.client_id_metadata_document_supported == Some(true)
    }

    /// Whether a scope is among those that it names.
    pub(super) fn knows_scope(&self, scope: &str) -> bool {
        self.scopes_supported.as_deref().is_some_and(|all| all.iter().any(|it| it == scope))
    }
}

/// What was found out.
#[derive(Debug)]
pub(super) struct Known {
    /// What tokens are asked for (RFC 8707).
    pub(super) resource: String,
    /// The least scopes, by the resource's metadata.
    pub(super) scopes: Option<Vec<String>>,
    pub(super) server: Server,
}
