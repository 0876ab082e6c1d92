//! The keys of issuers, over the way out that everything takes.
//!
//! It stands here because nothing below sees both the doors' port and `egress`; it is one GET or
//! two, without redirects, bounded by guard and by the port's caller in time.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use egress::{Class, Egress, HttpLimits, Origin};
use http::header::{ACCEPT, HeaderValue};
use http::{Request, StatusCode};
use server_core::{KeySource, Trusted};
use tool::Boxed;
use url::Url;

use config::{Config, TokensConfig};

/// Bytes of an answer.
const MOST: usize = 256 << 10;

/// Whose tokens are believed, with a way to their keys.
pub(crate) fn trusted(config: &Config, egress: &Egress) -> Option<Trusted> {
    let TokensConfig { resource, issuers } = config.tokens.clone()?;
    let jwks = issuers.iter().map(|one| (one.issuer.issuer.clone(), one.jwks.clone())).collect();
    let keys = Arc::new(Published { egress: egress.apart(), jwks });
    let issuers = issuers.into_iter().map(|one| one.issuer).collect();
    Some(Trusted { resource, issuers, keys })
}

#[derive(Debug)]
struct Published {
    egress: Egress,
    /// Where each issuer's keys are, where the operator says so.
    jwks: HashMap<String, Option<String>>,
}

impl KeySource for Published {
    fn fetch<'a>(&'a self, issuer: &'a str) -> Boxed<'a, Result<Bytes, String>> {
        Box::pin(self.fetched(issuer))
    }

    fn place(&self, issuer: &str) -> Option<&str> {
        self.jwks.get(issuer)?.as_deref()
    }
}

impl Published {
    async fn fetched(&self, issuer: &str) -> Result<Bytes, String> {
        let own = Origin::parse(issuer).map_err(|error| error.to_string())?;
        if let Some(place) = self.jwks.get(issuer).ok_or("it is not configured")? {
            // The operator's word, whatever network it is in.
            let origin = Origin::parse(place).map_err(|error| error.to_string())?;
            let class = Class::Operator { origin };
            return self.get(&class, place).await?.ok_or(format!("there is nothing at `{place}`"));
        }
        let place = self.published_at(issuer, &own).await?;
        let named = Origin::parse(&place).map_err(|error| error.to_string())?;
        let class = match named == own {
            true => Class::Operator { origin: own },
            // Somebody else's word: public addresses, encrypted.
            false if named.is_https() => Class::Upstream,
            false => return Err(format!("its metadata name `{place}`, which is not https")),
        };
        self.get(&class, &place).await?.ok_or(format!("there is nothing at `{place}`"))
    }

    /// What the issuer's own metadata say (RFC 8414, OpenID Connect Discovery).
    async fn published_at(&self, issuer: &str, own: &Origin) -> Result<String, String> {
        let class = Class::Operator { origin: own.clone() };
        for place in well_known(issuer)? {
            let Some(text) = self.get(&class, &place).await? else { continue };
            let metadata: serde_json::Value = serde_json::from_slice(&text)
                .map_err(|error| format!("`{place}` holds no JSON: {error}"))?;
            let text = |key: &str| metadata.get(key).and_then(serde_json::Value::as_str);
            if text("issuer") != Some(issuer) {
                return Err(format!("`{place}` is of another issuer"));
            }
            let keys = text("jwks_uri").map(str::to_owned);
            return keys.ok_or(format!("`{place}` names no `jwks_uri`"));
        }
        Err("its metadata are not where they should be; write `jwks` in the configuration"
            .to_owned())
    }

    /// A document; nothing where there is none.
    async fn get(&self, class: &Class, place: &str) -> Result<Option<Bytes>, String> {
        let told = |error: egress::EgressError| error.to_string();
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.egress.check(class, place).map_err(told)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let limits = HttpLimits { body: MOST, ..HttpLimits::default() };
        let response = self.egress.send(class, request, limits).await.map_err(told)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            status => return Err(format!("`{place}` answers with HTTP {status}")),
        }
        let (mut rest, mut body) = (response.into_body(), BytesMut::new());
        while let Some(part) = rest.chunk().await.map_err(told)? {
            body.extend_from_slice(&part);
        }
        Ok(Some(body.freeze()))
    }
}

/// Where an issuer's metadata may be, in this order.
fn well_known(issuer: &str) -> Result<Vec<String>, String> {
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
    use super::well_known;

    #[test]
    fn metadata_are_where_the_standards_say() {
        assert_eq!(
            well_known("https://login.example/realms/a/").unwrap(),
            [
                "https://login.example/realms/a/.well-known/openid-configuration",
                "https://login.example/.well-known/oauth-authorization-server/realms/a",
            ]
        );
        assert_eq!(
            well_known("https://login.example").unwrap().first().unwrap(),
            "https://login.example/.well-known/openid-configuration"
        );
    }
}
