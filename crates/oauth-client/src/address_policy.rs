//! Policy for addresses: configured origins are allowed, and public ones that a response names.

use egress::{Origin, UrlTrust};
use url::Url;

use super::TokenError;
use tool::display_text::escape_and_truncate;

/// Origins that the operator configured.
#[derive(Debug)]
pub(super) struct AddressPolicy {
    operator_origins: Vec<Origin>,
    /// Whether every port of this machine is allowed too.
    allows_any_loopback_port: bool,
}

impl AddressPolicy {
    /// Creates the policy for the origins that the operator configured.
    ///
    /// A source on loopback may run where it cannot reach other ports of this machine, such as in a
    /// container. Those are allowed only if the operator says so.
    pub(super) fn new(configured: Vec<Origin>, any_loopback_port: bool) -> Self {
        Self { operator_origins: configured, allows_any_loopback_port: any_loopback_port }
    }

    /// Returns the trust class of `url`, which `named_by` names.
    ///
    /// # Errors
    /// A [`TokenError`] if the URL is invalid or not HTTPS.
    pub(super) fn classify_url(&self, url: &str, named_by: &str) -> Result<UrlTrust, TokenError> {
        let bad = |why: String| {
            TokenError::blocked(format!(
                "{named_by} names the URL `{}`, which was rejected: {why}",
                escape_and_truncate(url, 200)
            ))
        };
        let origin = Origin::parse(url).map_err(|error| bad(error.to_string()))?;
        if self.operator_origins.contains(&origin)
            || self.allows_any_loopback_port && origin.is_loopback()
        {
            return Ok(UrlTrust::Configured { origin });
        }
        if !origin.is_https() {
            return Err(bad("it does not use https".to_owned()));
        }
        Ok(UrlTrust::UpstreamResponse)
    }

    /// Verifies a URL that is shown to a person: HTTPS, or this machine for local sources.
    pub(super) fn check_browser_url(&self, url: &str) -> Result<(), TokenError> {
        self.classify_url(url, "the authorization server").map(drop)
    }
}

/// Returns the default metadata URLs of a protected resource (RFC 9728 3.1).
pub(super) fn resource_metadata_urls(url: &Url) -> Vec<String> {
    well_known_urls(url, "oauth-protected-resource", true)
}

/// Returns the metadata URLs of an authorization server in MCP's order (RFC 8414 3.1 and 5).
pub(super) fn server_metadata_urls(issuer: &Url) -> Vec<String> {
    let path = trimmed_path(issuer);
    if path.is_empty() {
        return ["oauth-authorization-server", "openid-configuration"]
            .iter()
            .flat_map(|word| well_known_urls(issuer, word, false))
            .collect();
    }
    let mut all = Vec::new();
    for word in ["oauth-authorization-server", "openid-configuration"] {
        all.extend(well_known_urls(issuer, word, false));
    }
    let mut appended = issuer.clone();
    appended.set_query(None);
    appended.set_fragment(None);
    appended.set_path(&format!("{path}/.well-known/openid-configuration"));
    all.push(appended.to_string());
    all
}

fn trimmed_path(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

/// Returns the well-known URL with the path appended, and with `includes_root` also the one
/// without.
fn well_known_urls(url: &Url, word: &str, includes_root: bool) -> Vec<String> {
    let mut candidate = url.clone();
    candidate.set_query(None);
    candidate.set_fragment(None);
    let mut all = Vec::new();
    let path = trimmed_path(url);
    candidate.set_path(&format!("/.well-known/{word}{path}"));
    all.push(candidate.to_string());
    if includes_root && !path.is_empty() {
        candidate.set_path(&format!("/.well-known/{word}"));
        all.push(candidate.to_string());
    }
    all
}

/// Returns whether `resource` covers `url`: it is equal, or above it on the same origin. RFC 9728
/// 3.3 requires equality, but servers that protect a whole host name the host.
pub(super) fn covers_url(resource: &str, url: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let prefix = trimmed_path(&resource);
    let suffix = trimmed_path(url).strip_prefix(prefix);
    resource.origin() == url.origin()
        && resource.username().is_empty()
        && resource.password().is_none()
        && resource.fragment().is_none()
        && resource.query().is_none_or(|query| Some(query) == url.query())
        && suffix.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use egress::{Origin, UrlTrust};
    use url::Url;

    use super::{AddressPolicy, covers_url, resource_metadata_urls, server_metadata_urls};

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn well_known_places_come_in_the_order_of_the_specification() {
        assert_eq!(
            resource_metadata_urls(&url("https://h:8443/public/mcp?x=1")),
            [
                "https://h:8443/.well-known/oauth-protected-resource/public/mcp",
                "https://h:8443/.well-known/oauth-protected-resource",
            ]
        );
        assert_eq!(resource_metadata_urls(&url("https://h/")).len(), 1);
        assert_eq!(
            server_metadata_urls(&url("https://a/tenant1")),
            [
                "https://a/.well-known/oauth-authorization-server/tenant1",
                "https://a/.well-known/openid-configuration/tenant1",
                "https://a/tenant1/.well-known/openid-configuration",
            ]
        );
        for root in ["https://a", "https://a/"] {
            assert_eq!(
                server_metadata_urls(&url(root)),
                [
                    "https://a/.well-known/oauth-authorization-server",
                    "https://a/.well-known/openid-configuration",
                ]
            );
        }
    }

    #[test]
    fn a_resource_covers_what_is_below_it_and_nothing_else() {
        let at = url("https://h/a/mcp");
        for (resource, covered) in [
            ("https://h/a/mcp", true),
            ("https://h/a/mcp/", true),
            ("HTTPS://H:443/a", true),
            ("https://h", true),
            ("https://h/a/mc", false),
            ("https://h/a/mcp/more", false),
            ("https://h/b", false),
            ("http://h/a/mcp", false),
            ("https://h:8443/a/mcp", false),
            ("https://evil.example/a/mcp", false),
            ("https://u@h/a/mcp", false),
            ("https://h/a/mcp#f", false),
            ("https://h/a/mcp?q", false),
            ("h", false),
        ] {
            assert_eq!(covers_url(resource, &at), covered, "{resource}");
        }
    }

    #[test]
    fn only_the_operators_word_opens_a_private_network() {
        let own = |url: &str| Origin::parse(url).unwrap();
        let named = vec![own("https://10.0.0.1/mcp"), own("https://auth.corp")];
        let places = AddressPolicy::new(named, false);
        let class = |url: &str| places.classify_url(url, "it");
        for url in ["https://10.0.0.1/x", "https://auth.corp/token"] {
            assert_eq!(class(url).unwrap(), UrlTrust::Configured { origin: own(url) }, "{url}");
        }
        for url in ["https://10.0.0.2/", "https://localhost/", "https://as.example/"] {
            assert_eq!(class(url).unwrap(), UrlTrust::UpstreamResponse, "guard judges {url}");
        }
        for url in
            ["http://as.example/", "http://localhost:1/", "ftp://a/", "file:///etc/passwd", "x"]
        {
            assert!(class(url).is_err(), "{url}");
        }
        let here = |any| AddressPolicy::new(vec![own("http://127.0.0.1:1/mcp")], any);
        assert!(here(false).classify_url("http://127.0.0.1:1/x", "it").is_ok());
        assert!(here(false).classify_url("http://localhost:2/", "it").is_err());
        let here = here(true);
        assert_eq!(
            here.classify_url("http://localhost:2/", "it").unwrap(),
            UrlTrust::Configured { origin: own("http://localhost:2") }
        );
        assert_eq!(
            here.classify_url("https://10.0.0.2/", "it").unwrap(),
            UrlTrust::UpstreamResponse
        );
        assert!(here.classify_url("http://10.0.0.2/", "it").is_err());
    }
}
