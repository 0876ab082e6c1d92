//! Server metadata: RFC 9728 for the protected resource, RFC 8414 or OpenID Connect Discovery for
//! its authorization server. Only the members in use are parsed.

use egress::Origin;
use serde::Deserialize;

/// Metadata of a protected resource.
#[derive(Debug, Deserialize)]
pub(super) struct ResourceMetadata {
    #[serde(rename = "resource")]
    pub(super) resource: Option<String>,
    #[serde(default)]
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
}

/// Metadata of an authorization server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthorizationServerMetadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) userinfo_endpoint: Option<String>,
    pub(super) jwks_uri: Option<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) authorization_response_iss_parameter_supported: Option<bool>,
    pub(super) client_id_metadata_document_supported: Option<bool>,
    /// Whether there are no metadata, so that the default endpoints of MCP 2025-03-26 apply.
    #[serde(skip)]
    pub(super) is_assumed: bool,
}

impl AuthorizationServerMetadata {
    /// Creates metadata with the default endpoints of MCP 2025-03-26.
    pub(super) fn with_default_endpoints(origin: &str) -> Self {
        let at = |path: &str| Some(format!("{origin}{path}"));
        Self {
            issuer: origin.to_owned(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            is_assumed: true,
            ..Self::default()
        }
    }

    /// Creates metadata with a configured token endpoint.
    pub(super) fn with_token_endpoint(issuer: &str, token_endpoint: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            token_endpoint: Some(token_endpoint.to_owned()),
            ..Self::default()
        }
    }

    /// Returns whether PKCE with S256 is supported. MCP: a server that does not declare it does not
    /// support it.
    pub(super) fn supports_pkce(&self) -> bool {
        let methods = self.code_challenge_methods_supported.as_deref();
        self.is_assumed || methods.is_some_and(|methods| methods.iter().any(|it| it == "S256"))
    }

    /// Returns whether login page and token endpoint have one origin. Otherwise a server could name
    /// another's page and receive its codes.
    pub(super) fn has_one_origin(&self) -> bool {
        let origin = |url: Option<&str>| Origin::parse(url?).ok();
        let page = origin(self.authorization_endpoint.as_deref());
        page.is_some() && page == origin(self.token_endpoint.as_deref())
    }

    /// Returns whether the server accepts client id metadata documents.
    pub(super) fn supports_client_metadata(&self) -> bool {
        self.client_id_metadata_document_supported == Some(true)
    }

    /// Returns whether the server names this scope.
    pub(super) fn supports_scope(&self, scope: &str) -> bool {
        self.scopes_supported.as_deref().is_some_and(|all| all.iter().any(|it| it == scope))
    }
}

/// Result of the discovery.
#[derive(Debug)]
pub(super) struct DiscoveredServer {
    /// Resource identifier of the token requests (RFC 8707).
    pub(super) resource: String,
    /// Default scopes from the resource metadata.
    pub(super) default_scopes: Option<Vec<String>>,
    pub(super) server: AuthorizationServerMetadata,
}

impl DiscoveredServer {
    /// Returns the parameter of a token request that names the resource (RFC 8707).
    pub(super) fn resource_parameter(&self) -> (&'static str, String) {
        ("resource", self.resource.clone())
    }
}
