//! What an MCP server over HTTP is told beside fixed headers: tokens, or a secret of each caller.

use std::collections::BTreeMap;

use http::HeaderName;
use oauth_client::SigningKey;
use tool::Secret;
use url::{Host, Url};

use super::Resolver;
use super::source::text_of;
use crate::Place;
use crate::field::Field;
use crate::high::{OAuthConfig, OAuthProof, PerCallerConfig};
use crate::low::{self, GrantWord};
use crate::node::shorten;
use crate::text;

/// Subjects of one source.
const SUBJECTS: usize = 10_000;

impl Resolver<'_> {
    /// How tokens are asked for.
    pub(super) fn oauth(
        &self,
        mcp: &low::Mcp,
        url: &Url,
        headers: &[(HeaderName, Secret)],
    ) -> Option<Box<OAuthConfig>> {
        let (low, place) = mcp.oauth.given()?;
        let tell = |message: &str, fix: &str| self.sink.tell_hidden(place, message, fix);
        if headers.iter().any(|(name, _)| *name == http::header::AUTHORIZATION) {
            tell(
                "the header `authorization` is set, so no token can be sent",
                "remove one of them",
            );
        }
        if !is_safe(url) {
            let message = "tokens go over https only, but for this machine itself";
            tell(message, "write the `url` with `https://`");
        }
        let proof = self.proof(low, place)?;
        let alone = low.grant.get() == Some(&GrantWord::ClientCredentials);
        let client_id = low.client_id.get().cloned();
        match (&client_id, &proof) {
            (Some(id), _) if id.is_empty() || id.len() > 2048 || id.contains(char::is_control) => {
                tell("the `client_id` is empty, too long or holds control characters", "mend it");
            }
            (None, OAuthProof::Secret(_) | OAuthProof::Key(_)) => {
                tell(
                    "a secret or a key is given, and no `client_id`",
                    "write the id that they belong to",
                );
            }
            (_, OAuthProof::None) if alone => {
                let fix = "write `client_id` and one of `client_secret_env`, `client_secret_file` and \
                           `private_key_file`";
                tell("the grant `client_credentials` needs a client and its credential", fix);
            }
            _ => {}
        }
        let scopes = low.scopes.get().into_iter().flatten();
        Some(Box::new(OAuthConfig {
            alone,
            client_id,
            proof,
            client_metadata: self
                .place_of(&low.client_metadata, |url| url.scheme() == "https" && url.path() != "/"),
            scopes: scopes.filter_map(|scope| self.scope(scope)).collect(),
            issuer: self.place_of(&low.issuer, is_safe),
            token_endpoint: self.place_of(&low.token_endpoint, is_safe),
            any_loopback_port: low.any_loopback_port.get() == Some(&true),
        }))
    }

    /// Kept as it is written: an issuer is compared letter by letter.
    pub(super) fn place_of(
        &self,
        field: &Field<String>,
        fits: impl Fn(&Url) -> bool,
    ) -> Option<String> {
        let (text, place) = field.given()?;
        let url = self.url(text, place)?;
        if !fits(&url) {
            let message = format!("`{}` is no address for secrets and tokens", shorten(text));
            self.sink.tell(place, message, "write it as `https://HOST/PATH`");
        }
        Some(text.clone())
    }

    fn scope(&self, field: &Field<String>) -> Option<String> {
        let (scope, place) = field.given()?;
        // RFC 6749, 3.3.
        let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        if !scope.is_empty() && scope.len() <= 256 && scope.bytes().all(fits) {
            return Some(scope.clone());
        }
        let message = format!("`{}` is no scope", shorten(scope));
        self.sink.tell(place, message, "write each scope on its own: `scopes: [read, write]`");
        None
    }

    fn proof(&self, low: &low::OAuth, place: Place) -> Option<OAuthProof> {
        let given = [
            ("client_secret", low.client_secret.is_absent()),
            ("client_secret_env", low.client_secret_env.is_absent()),
            ("client_secret_file", low.client_secret_file.is_absent()),
            ("private_key_env", low.private_key_env.is_absent()),
            ("private_key_file", low.private_key_file.is_absent()),
        ];
        let given: Vec<_> =
            given.iter().filter(|(_, absent)| !absent).map(|(key, _)| *key).collect();
        if let [_, _, ..] = given.as_slice() {
            let message =
                format!("a client has one credential, and here are {}", given.join(" and "));
            self.sink.tell_hidden(place, message, "remove all but one of them");
            return None;
        }
        if let Some((secret, place)) = low.client_secret.given() {
            return self.secret(&secret.0, place);
        }
        if let Some((name, place)) = low.client_secret_env.given() {
            return self.secret(&self.variable(name, place)?, place);
        }
        if let Some((path, place)) = low.client_secret_file.given() {
            return self.secret(self.file(path, place)?.trim_end_matches(['\r', '\n']), place);
        }
        if let Some((name, place)) = low.private_key_env.given() {
            return self.key(self.variable(name, place)?, place);
        }
        if let Some((path, place)) = low.private_key_file.given() {
            return self.key(self.file(path, place)?, place);
        }
        // A key that is there and cannot be read was told of.
        given.is_empty().then_some(OAuthProof::None)
    }

    fn variable(&self, name: &str, place: Place) -> Option<String> {
        let found = self.environment.get(name).filter(|text| !text.is_empty());
        if found.is_none() {
            let message = format!("the environment variable `{}` is not set", shorten(name));
            self.sink.tell_hidden(place, message, "set it");
        }
        found.map(str::to_owned)
    }

    fn file(&self, path: &str, place: Place) -> Option<String> {
        let read = text::read(&self.path(path));
        let told = |fault: crate::Fault| {
            let message = format!("`{}` {}", shorten(path), fault.message);
            self.sink.tell_hidden(place, message, "look at the path, and at who may read it");
        };
        read.map_err(told).ok()
    }

    fn secret(&self, text: &str, place: Place) -> Option<OAuthProof> {
        if !text.is_empty() && text.len() <= 8192 && !text.contains(char::is_control) {
            return Some(OAuthProof::Secret(Secret::new(text)));
        }
        let message = "a client secret is one line of 1 to 8192 bytes";
        self.sink.tell_hidden(place, message, "look at where it comes from");
        None
    }

    fn key(&self, pem: String, place: Place) -> Option<OAuthProof> {
        if let Err(why) = SigningKey::read(&pem) {
            let message = format!("the private key cannot be used: {why}");
            let fix = "write it with `openssl pkcs8 -topk8 -nocrypt`";
            self.sink.tell_hidden(place, message, fix);
            return None;
        }
        Some(OAuthProof::Key(Secret::new(pem)))
    }

    /// A secret of each caller.
    pub(super) fn per_caller(
        &self,
        mcp: &low::Mcp,
        headers: &[(HeaderName, Secret)],
    ) -> Option<Box<PerCallerConfig>> {
        let (low, place) = mcp.per_caller.given()?;
        let tell = |message: String, fix: &str| self.sink.tell_hidden(place, message, fix);
        if !mcp.oauth.is_absent() {
            let message = "a source has one credential, and here are `oauth` and `per_caller`";
            tell(message.to_owned(), "remove one of them");
        }
        let (header, prefix) = match low.header.get() {
            None => (Some(http::header::AUTHORIZATION), "Bearer "),
            Some(name) => (super::source::header_name(name), ""),
        };
        let Some(header) = header else {
            let name = low.header.get().map(|name| shorten(name)).unwrap_or_default();
            tell(format!("`{name}` is no header that can be set"), "such as `X-Api-Key`");
            return None;
        };
        if headers.iter().any(|(name, _)| *name == header) {
            let message = format!("the header `{header}` is set for all callers too");
            tell(message, "take it out of `headers`");
        }
        let secrets = low.secrets.get();
        if secrets.is_none_or(BTreeMap::is_empty) {
            let fix = "write one for each: `secrets: { SUBJECT: ${VARIABLE} }`";
            tell("there are no secrets by subject".to_owned(), fix);
        }
        let mut values = BTreeMap::new();
        for (subject, secret) in secrets.into_iter().flatten().take(SUBJECTS) {
            let value = format!("{prefix}{}", text_of(secret));
            let empty = value == prefix;
            if empty || value.len() > 8192 || http::HeaderValue::try_from(&value).is_err() {
                let message = format!("the secret of `{}` cannot be sent", shorten(subject));
                tell(message, "a secret is one line of 1 to 8192 bytes");
            }
            values.insert(subject.clone(), Secret::new(value));
        }
        let list_as = low.list_as.get().cloned();
        if let Some(subject) = list_as.as_ref().filter(|subject| !values.contains_key(*subject)) {
            let message = format!("`list_as` names `{}`, who has no secret", shorten(subject));
            tell(message, "name one of the subjects under `secrets`");
        }
        Some(Box::new(PerCallerConfig { header, values, list_as }))
    }
}

/// Encrypted, or this machine itself.
pub(super) fn is_safe(url: &Url) -> bool {
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        }
}

#[cfg(test)]
mod tests;
