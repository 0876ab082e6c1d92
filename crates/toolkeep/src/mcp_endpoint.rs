//! Builds the HTTP endpoint of an MCP server from its configuration, with headers and credentials.

use std::sync::Arc;

use oauth_client::{
    ClientAuth, ConfiguredClient, GrantType, OAuthDependencies, OAuthSettings, SigningKey,
    TokenProvider,
};
use source_mcp::HttpEndpoint;
use tool::{Problem, Secret};

use config::{OAuthClientAuth, OAuthConfig, SourceConfig, SourceKind};

/// Builds the endpoint of an MCP server over HTTP.
///
/// # Errors
/// A [`Problem`] if the configuration is not usable.
pub(crate) fn build_mcp_endpoint(
    config: &SourceConfig,
    dependencies: OAuthDependencies,
) -> Result<HttpEndpoint, Problem> {
    let SourceKind::McpUrl { url, headers, oauth, per_caller } = &config.kind else {
        return Err(Problem::new(config.name.as_str(), "has no URL"));
    };
    // Resolved once; calls add no headers.
    let mut sent: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    if let Some(token) = &config.credential {
        let bearer = Secret::new(format!("Bearer {}", token.expose()));
        sent.push(("authorization".to_owned(), bearer));
    }
    if let Some(per_caller_config) = per_caller {
        let listing_secret = per_caller_config
            .listing_subject
            .as_ref()
            .and_then(|subject| per_caller_config.header_values.get(subject));
        sent.extend(
            listing_secret.map(|secret| (per_caller_config.header.to_string(), secret.clone())),
        );
    }
    let http = HttpEndpoint::new(&dependencies.egress, url.as_str(), &sent)?;
    if let Some(each) = per_caller {
        return Ok(http.with_caller_header(each.header.clone()));
    }
    let settings = oauth_settings(config, url.as_str(), oauth.as_deref())?;
    match TokenProvider::new(settings, dependencies) {
        Ok(account) => Ok(http.with_token_provider(account)),
        Err(problem) if oauth.is_some() => Err(problem),
        // Plain HTTP without an `oauth` section: no token is ever sent there.
        Err(_) => Ok(http),
    }
}

/// Returns how a client authenticates at a token endpoint.
///
/// # Errors
/// A [`Problem`] if its private key is not usable.
pub(crate) fn client_authentication(config: &OAuthClientAuth) -> Result<ClientAuth, Problem> {
    Ok(match config {
        OAuthClientAuth::None => ClientAuth::Public,
        OAuthClientAuth::ClientSecret(secret) => ClientAuth::Secret(secret.clone()),
        OAuthClientAuth::PrivateKey(pem) => {
            let bad = |why: &str| {
                Problem::new("oauth.private_key", why)
                    .with_help("write an unencrypted private key in PEM format")
            };
            ClientAuth::PrivateKey(Arc::new(SigningKey::from_pem(pem.expose()).map_err(bad)?))
        }
    })
}

fn oauth_settings(
    config: &SourceConfig,
    url: &str,
    oauth: Option<&OAuthConfig>,
) -> Result<OAuthSettings, Problem> {
    let settings = OAuthSettings::new(config.name.clone(), url);
    let Some(oauth) = oauth else { return Ok(settings) };
    let proof = client_authentication(&oauth.client_auth)?;
    let client = oauth.client_id.clone().map(|id| ConfiguredClient { client_id: id, auth: proof });
    let grant = if oauth.is_client_credentials {
        GrantType::ClientCredentials
    } else {
        GrantType::AuthorizationCode
    };
    Ok(OAuthSettings {
        grant_type: grant,
        client,
        client_metadata_url: oauth.metadata_url.clone(),
        scopes: oauth.scopes.clone(),
        issuer: oauth.issuer.clone(),
        token_endpoint: oauth.token_endpoint.clone(),
        any_loopback_port: oauth.allows_loopback_ports,
        is_configured: true,
        ..settings
    })
}
