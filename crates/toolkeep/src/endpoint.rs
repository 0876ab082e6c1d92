//! From a source's configuration to its endpoint over HTTP, with what it sends as its credential.

use std::sync::Arc;

use oauth_client::{Account, Grant, Means, Proof, Registered, Settings, SigningKey};
use source_mcp::Http;
use tool::{Problem, Secret};

use config::{OAuthConfig, OAuthProof, SourceConfig, SourceKind};

/// The endpoint of an MCP server over HTTP.
///
/// # Errors
/// A [`Problem`] where it cannot be made as it is configured.
pub(crate) fn of(config: &SourceConfig, means: Means) -> Result<Http, Problem> {
    let SourceKind::McpUrl { url, headers, oauth, per_caller } = &config.kind else {
        return Err(Problem::new(config.name.as_str(), "is reached by no URL"));
    };
    // Resolved once: a call adds nothing to them.
    let mut sent: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    if let Some(token) = &config.credential {
        let bearer = Secret::new(format!("Bearer {}", token.open()));
        sent.push(("authorization".to_owned(), bearer));
    }
    if let Some(each) = per_caller {
        let lister = each.list_as.as_ref().and_then(|subject| each.values.get(subject));
        sent.extend(lister.map(|secret| (each.header.to_string(), secret.clone())));
    }
    let http = Http::new(&means.egress, url.as_str(), &sent)?;
    if let Some(each) = per_caller {
        return Ok(http.per_caller(each.header.clone()));
    }
    let settings = settings(config, url.as_str(), oauth.as_deref())?;
    match Account::new(settings, means) {
        Ok(account) => Ok(http.with_account(account)),
        Err(problem) if oauth.is_some() => Err(problem),
        // Not encrypted, and nobody spoke of tokens: none are ever sent there.
        Err(_) => Ok(http),
    }
}

fn settings(
    config: &SourceConfig,
    url: &str,
    oauth: Option<&OAuthConfig>,
) -> Result<Settings, Problem> {
    let settings = Settings::new(config.name.clone(), url);
    let Some(oauth) = oauth else { return Ok(settings) };
    let proof = match &oauth.proof {
        OAuthProof::None => Proof::None,
        OAuthProof::Secret(secret) => Proof::Secret(secret.clone()),
        OAuthProof::Key(pem) => {
            let bad = |why: &str| Problem::new("oauth.private_key", why).fix("mend it");
            Proof::Key(Arc::new(SigningKey::read(pem.open()).map_err(bad)?))
        }
    };
    let client = oauth.client_id.clone().map(|id| Registered { id, proof });
    let grant = if oauth.alone { Grant::ClientCredentials } else { Grant::AuthorizationCode };
    Ok(Settings {
        grant,
        client,
        client_metadata: oauth.client_metadata.clone(),
        scopes: oauth.scopes.clone(),
        issuer: oauth.issuer.clone(),
        token_endpoint: oauth.token_endpoint.clone(),
        any_loopback_port: oauth.any_loopback_port,
        said: true,
        ..settings
    })
}
