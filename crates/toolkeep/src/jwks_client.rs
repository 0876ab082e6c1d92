//! Client for the key sets (JWKS) of token issuers, over the shared egress client.
//!
//! It is in this crate because no other depends on both the server's port and `egress`. A fetch
//! takes one or two GET requests without redirects; egress bounds its size and the caller its time.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use egress::{EgressClient, Origin, RequestLimits, UrlTrust};
use http::header::{ACCEPT, HeaderValue};
use http::{Request, StatusCode};
use server_core::{IssuerTrust, JwksProvider};
use tool::BoxFuture;
use url::Url;

use config::{AccessTokensConfig, Config};

/// Largest document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 256 << 10;

/// Returns the trusted token issuers with a client for their key sets.
pub(crate) fn trusted_issuers(config: &Config, egress: &EgressClient) -> Option<IssuerTrust> {
    let AccessTokensConfig { resource, issuers } = config.access_tokens.clone()?;
    let configured_urls =
        issuers.iter().map(|one| (one.issuer.iss.clone(), one.jwks_url.clone())).collect();
    let keys = Arc::new(JwksClient { egress: egress.with_separate_pool(), configured_urls });
    let issuers = issuers.into_iter().map(|one| one.issuer).collect();
    Some(IssuerTrust { resource, issuers, key_source: keys })
}

#[derive(Debug)]
struct JwksClient {
    egress: EgressClient,
    /// Configured key set URL of each issuer, if any.
    configured_urls: HashMap<String, Option<String>>,
}

impl JwksProvider for JwksClient {
    fn fetch_jwks<'a>(&'a self, issuer: &'a str) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(self.fetch_key_set(issuer))
    }

    fn jwks_url(&self, issuer: &str) -> Option<&str> {
        self.configured_urls.get(issuer)?.as_deref()
    }
}

impl JwksClient {
    async fn fetch_key_set(&self, issuer: &str) -> Result<Bytes, String> {
        let issuer_origin = Origin::parse(issuer).map_err(|error| error.to_string())?;
        if let Some(url) = self.configured_urls.get(issuer).ok_or("it is not configured")? {
            // Configured by the operator, so any network is allowed.
            let origin = Origin::parse(url).map_err(|error| error.to_string())?;
            let class = UrlTrust::Configured { origin };
            return self
                .get_document(&class, url)
                .await?
                .ok_or(format!("there is nothing at `{url}`"));
        }
        let place = self.discover_jwks_uri(issuer, &issuer_origin).await?;
        let url_origin = Origin::parse(&place).map_err(|error| error.to_string())?;
        let class = match url_origin == issuer_origin {
            true => UrlTrust::Configured { origin: issuer_origin },
            // Named by the issuer's metadata: only public addresses over https.
            false if url_origin.is_https() => UrlTrust::UpstreamResponse,
            false => return Err(format!("its metadata name `{place}`, which is not https")),
        };
        self.get_document(&class, &place).await?.ok_or(format!("there is nothing at `{place}`"))
    }

    /// Reads the key set URL from the issuer's metadata (RFC 8414, OpenID Connect Discovery).
    async fn discover_jwks_uri(
        &self,
        issuer: &str,
        issuer_origin: &Origin,
    ) -> Result<String, String> {
        let class = UrlTrust::Configured { origin: issuer_origin.clone() };
        for place in metadata_urls(issuer)? {
            let Some(text) = self.get_document(&class, &place).await? else { continue };
            let metadata: serde_json::Value = serde_json::from_slice(&text)
                .map_err(|error| format!("`{place}` is not valid JSON: {error}"))?;
            let text = |key: &str| metadata.get(key).and_then(serde_json::Value::as_str);
            if text("issuer") != Some(issuer) {
                return Err(format!("`{place}` names another issuer"));
            }
            let keys = text("jwks_uri").map(str::to_owned);
            return keys.ok_or(format!("`{place}` names no `jwks_uri`"));
        }
        Err("it publishes no metadata at the standard URLs; set `jwks` in the configuration"
            .to_owned())
    }

    /// Fetches a document; returns `None` for HTTP 404.
    async fn get_document(&self, class: &UrlTrust, url: &str) -> Result<Option<Bytes>, String> {
        let told = |error: egress::EgressError| error.to_string();
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.egress.validate_url(class, url).map_err(told)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let limits =
            RequestLimits { max_body_bytes: MAX_DOCUMENT_BYTES, ..RequestLimits::default() };
        let response = self.egress.send_request(class, request, limits).await.map_err(told)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            status => return Err(format!("`{url}` returned HTTP {status}")),
        }
        let (mut rest, mut body) = (response.into_body(), BytesMut::new());
        while let Some(part) = rest.next_chunk().await.map_err(told)? {
            body.extend_from_slice(&part);
        }
        Ok(Some(body.freeze()))
    }
}

/// Returns the standard URLs of an issuer's metadata, in the order to try.
fn metadata_urls(issuer: &str) -> Result<Vec<String>, String> {
    let url = Url::parse(issuer).map_err(|error| error.to_string())?;
    let path = url.path().trim_end_matches('/').to_owned();
    let at = |path: String| {
        let mut url = url.clone();
        url.set_path(&path);
        url.to_string()
    };
    let mut all = vec![at(format!("{path}/.well-known/openid-configuration"))];
    all.push(at(format!("/.well-known/oauth-authorization-server{path}")));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::metadata_urls;

    #[test]
    fn metadata_are_where_the_standards_say() {
        assert_eq!(
            metadata_urls("https://login.example/realms/a/").unwrap(),
            [
                "https://login.example/realms/a/.well-known/openid-configuration",
                "https://login.example/.well-known/oauth-authorization-server/realms/a",
            ]
        );
        assert_eq!(
            metadata_urls("https://login.example").unwrap().first().unwrap(),
            "https://login.example/.well-known/openid-configuration"
        );
    }
}
