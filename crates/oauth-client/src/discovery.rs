//! Discovery of the authorization server from a challenge, with every fallback that MCP names.

use url::Url;

use super::address_policy::{self, covers_url};
use super::http_client::{OAuthHttpClient, RequestTarget};
use super::metadata::{AuthorizationServerMetadata, DiscoveredServer, ResourceMetadata};
use super::{OAuthSettings, TokenError};
use tool::display_text::escape_and_truncate;

/// Maximum authorization servers of one resource that are considered.
const MAX_SERVERS: usize = 16;

/// Discovers the authorization server of a source. `hint` is the metadata URL from a challenge.
pub(super) async fn discover_server(
    http: &OAuthHttpClient,
    (settings, url): (&OAuthSettings, &Url),
    hint: Option<&str>,
) -> Result<DiscoveredServer, TokenError> {
    let default_resource = || canonical_resource(url);
    if let Some(endpoint) = &settings.token_endpoint {
        let issuer = settings.issuer.as_deref().unwrap_or(endpoint);
        let server = AuthorizationServerMetadata::with_token_endpoint(issuer, endpoint);
        return Ok(DiscoveredServer { resource: default_resource(), default_scopes: None, server });
    }
    let resource = fetch_resource_metadata(http, url, hint).await?;
    let (resource, scopes, named) = match resource {
        Some(ResourceMetadata { resource: name, authorization_servers, scopes_supported }) => {
            let resource = name.unwrap_or_else(default_resource);
            if !covers_url(&resource, url) {
                let message = format!(
                    "has metadata of another resource, `{}`, so no token was requested",
                    escape_and_truncate(&resource, 200)
                );
                return Err(TokenError::blocked(message)
                    .with_help("correct the resource in its metadata, or configure that address"));
            }
            (resource, scopes_supported, authorization_servers)
        }
        None => (default_resource(), None, Vec::new()),
    };
    let has_no_issuer = named.is_empty();
    let server = match select_issuer(settings, named)? {
        Some(issuer) => {
            let same = |said: &str| said == issuer;
            fetch_server_metadata(http, &issuer, same)
                .await?
                .ok_or_else(|| no_metadata_error(&issuer))?
        }
        // MCP 2025-03-26: the host of the server is its authorization server.
        None if has_no_issuer => {
            let origin = url.origin().ascii_serialization();
            // No issuer was named, so the metadata on its own host may name one.
            let same = |said: &str| Url::parse(said).is_ok_and(|it| it.origin() == url.origin());
            let found = fetch_server_metadata(http, &origin, same).await?;
            found.unwrap_or_else(|| AuthorizationServerMetadata::with_default_endpoints(&origin))
        }
        None => {
            return Err(TokenError::malformed("names no usable authorization server"));
        }
    };
    Ok(DiscoveredServer { resource, default_scopes: scopes, server })
}

/// Returns the canonical resource URL: without fragment, and without a trailing slash as the only
/// path.
fn canonical_resource(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let text = url.to_string();
    if url.path() == "/" && url.query().is_none() {
        return text.trim_end_matches('/').to_owned();
    }
    text
}

async fn fetch_resource_metadata(
    web: &OAuthHttpClient,
    url: &Url,
    hint: Option<&str>,
) -> Result<Option<ResourceMetadata>, TokenError> {
    let what = "its metadata";
    if let Some(hint) = hint {
        let at = RequestTarget { url: hint, role: what, named_by: "its challenge" };
        let found = web.get_json(at).await?;
        return found.map(Some).ok_or_else(|| {
            TokenError::malformed(format!(
                "points to its metadata at `{}`, but there is nothing there",
                escape_and_truncate(hint, 200)
            ))
        });
    }
    for place in address_policy::resource_metadata_urls(url) {
        let at = RequestTarget { url: &place, role: what, named_by: "the configuration" };
        if let Some(found) = web.get_json(at).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Selects the issuer: the configured one, which the resource must name too, or the first.
fn select_issuer(
    settings: &OAuthSettings,
    named_issuers: Vec<String>,
) -> Result<Option<String>, TokenError> {
    let Some(configured_issuer) = &settings.issuer else {
        return Ok(named_issuers.into_iter().next());
    };
    if named_issuers.is_empty()
        || named_issuers.iter().take(MAX_SERVERS).any(|it| it == configured_issuer)
    {
        return Ok(Some(configured_issuer.clone()));
    }
    let named: Vec<_> =
        named_issuers.iter().take(MAX_SERVERS).map(|it| escape_and_truncate(it, 200)).collect();
    let message = format!(
        "names the authorization server `{}`, not the configured `{}`, so no request was sent \
         there",
        named.join("`, `"),
        escape_and_truncate(configured_issuer, 200)
    );
    Err(TokenError::blocked(message).with_help("check `issuer`, or ask the server's operator"))
}

/// Fetches the metadata of an authorization server, or returns `None` if it has none.
pub(super) async fn fetch_server_metadata(
    web: &OAuthHttpClient,
    issuer: &str,
    is_same_issuer: impl Fn(&str) -> bool,
) -> Result<Option<AuthorizationServerMetadata>, TokenError> {
    let bad = |why: &str| {
        TokenError::malformed(format!(
            "names the authorization server `{}`, {why}",
            escape_and_truncate(issuer, 200)
        ))
    };
    let url = Url::parse(issuer).map_err(|_| bad("which is not a valid URL"))?;
    for place in address_policy::server_metadata_urls(&url) {
        let what = "the metadata of the authorization server";
        let at = RequestTarget { url: &place, role: what, named_by: "the server" };
        let Some(server) = web.get_json::<AuthorizationServerMetadata>(at).await? else { continue };
        // RFC 8414 3.3 requires this check: otherwise one server could impersonate another.
        if !is_same_issuer(&server.issuer) {
            let other = escape_and_truncate(&server.issuer, 200);
            let why = format!("whose metadata belongs to `{other}` and was ignored");
            let fault = TokenError { kind: tool::source::SourceErrorKind::Blocked, ..bad(&why) };
            return Err(fault.with_help("ask the operator of the authorization server"));
        }
        return Ok(Some(server));
    }
    Ok(None)
}

fn no_metadata_error(issuer: &str) -> TokenError {
    let issuer = escape_and_truncate(issuer, 200);
    TokenError::malformed(format!(
        "names the authorization server `{issuer}`, which has no metadata"
    ))
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::canonical_resource;

    #[test]
    fn a_resource_is_written_without_what_does_not_name_it() {
        for (url, resource) in [
            ("https://H.example/mcp#x", "https://h.example/mcp"),
            ("https://h.example", "https://h.example"),
            ("https://h.example:8443/", "https://h.example:8443"),
            ("https://h.example/a/?q=1", "https://h.example/a/?q=1"),
        ] {
            assert_eq!(canonical_resource(&Url::parse(url).unwrap()), resource);
        }
    }
}
