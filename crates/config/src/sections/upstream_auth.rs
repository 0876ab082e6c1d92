//! Authentication to an MCP server over HTTP: OAuth tokens, or a secret of each caller.

use std::collections::BTreeMap;

use http::HeaderName;
use oauth_client::SigningKey;
use serde_json::{Value, json};
use tool::Secret;

use super::http_url::{check_secret_url, secure_url};
use super::mcp_server::parse_header_name;
use crate::config_display::{REDACTED, RedactedJson, redact_query};
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{flattened, section};
use crate::value_parsers::{boolean, is_scope_byte, keywords, list, mapping, scalar_text, text};
use crate::yaml_tree::shorten_text;

/// The most callers with a secret for one source.
const MAX_SUBJECTS: usize = 10_000;
/// The keys of a client's credential.
const CREDENTIAL_KEYS: [&str; 5] = [
    "client_secret",
    "client_secret_env",
    "client_secret_file",
    "private_key_env",
    "private_key_file",
];

section! {
    /// OAuth 2.1 for the tokens of this server. Prefer a variable or a file for secrets.
    #[derive(Debug, Clone, Hash)]
    pub struct OAuthConfig as "OAuth": RedactedJson {
        /// The grant type. Default: `authorization_code`.
        pub is_client_credentials as "grant": bool = grant_type(),
            display if *is_client_credentials { "client_credentials" } else { "authorization_code" }.into();
        /// The client id, for a client that is registered manually.
        pub client_id: Option<String> = text();
        /// The authentication of the client.
        pub client_auth as "..": OAuthClientAuth =
            flattened::<ClientAuthKeys>().and_then(client_auth);
        /// The https URL of a client metadata document of this installation.
        pub metadata_url as "client_metadata": Option<String> = text().and_then(metadata_url),
            display metadata_url.as_deref().map(redact_query).into();
        /// The scopes to request. Default: those that the server names; none with `client_credentials`.
        pub scopes: Vec<String> = list(text().and_then(oauth_scope));
        /// The only accepted authorization server, by the issuer in its metadata. Required for one in a private network.
        pub issuer: Option<String> = text().and_then(secure_url);
        /// The token endpoint of that server, instead of the one in its metadata.
        pub token_endpoint: Option<String> = text().and_then(secure_url),
            display token_endpoint.as_deref().map(redact_query).into();
        /// Whether the server may name an authorization server on any port of this machine, for development.
        /// Default: `false`; `issuer` and `token_endpoint` can name one.
        pub allows_loopback_ports as "any_loopback_port": bool = boolean(),
            display allows_loopback_ports.then_some(true).into();
    }
}

section! {
    /// The authentication of a client: at most one of these.
    pub(super) struct ClientAuthKeys as "ProofKeys" {
        /// The client secret. Prefer `client_secret_env` or `client_secret_file`.
        client_secret: Option<OAuthClientAuth> = scalar_text().and_then(client_secret);
        /// Name of the environment variable with the client secret.
        client_secret_env: Option<OAuthClientAuth> =
            text().convert_text(read_variable).and_then(client_secret);
        /// File with the client secret; read with the configuration.
        client_secret_file: Option<OAuthClientAuth> =
            text().convert_text(read_secret_file).convert_text(secret_line);
        /// File with the private key of the client, instead of a secret: PKCS#8 in PEM, of P-256, P-384, Ed25519 or RSA.
        private_key_file: Option<OAuthClientAuth> =
            text().convert_text(read_secret_file).and_then(private_key);
        /// Name of the environment variable with the private key of the client.
        private_key_env: Option<OAuthClientAuth> =
            text().convert_text(read_variable).and_then(private_key);
    }
}

keywords! {
    /// The OAuth grant type.
    fn grant_type as "GrantWord" -> bool {
        /// Tokens of a person, who logs in once.
        "authorization_code" = false,
        /// Tokens of this installation.
        "client_credentials" = true,
    }
}

section! {
    /// Secrets of the callers for this server.
    #[derive(Debug, Clone, Hash)]
    pub struct CallerSecretsConfig as "PerCaller": RedactedJson {
        /// The header with the secret. Default: `Authorization`, with `Bearer ` before the secret.
        pub header: HeaderName = text().convert_text(secret_header),
            default http::header::AUTHORIZATION;
        /// The secrets by the subject of the caller's key. At most 10000.
        pub header_values as "secrets": BTreeMap<String, Secret> =
            mapping(scalar_text()).map(header_secrets);
        /// The subject whose secret is used to list the tools. Default: they are listed without a secret.
        pub listing_subject as "list_as": Option<String> = text();
    }
}

/// The authentication of an OAuth client.
#[derive(Debug, Clone, Default, Hash)]
pub enum OAuthClientAuth {
    /// No authentication: a public client.
    #[default]
    None,
    /// A secret that the server shares.
    ClientSecret(Secret),
    /// A private key, in PEM.
    PrivateKey(Secret),
}

impl OAuthClientAuth {
    /// The secret or the private key.
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Self::None => None,
            Self::ClientSecret(secret) | Self::PrivateKey(secret) => Some(secret),
        }
    }
}

impl RedactedJson for OAuthClientAuth {
    fn to_redacted_json(&self) -> Value {
        match self {
            Self::None => json!({}),
            Self::ClientSecret(_) => json!({ "client_secret": REDACTED }),
            Self::PrivateKey(_) => json!({ "private_key_env": REDACTED }),
        }
    }
}

/// Checks that the keys fit together.
pub(super) fn check_oauth(value: ConfigValue<'_>, oauth: OAuthConfig) -> OAuthConfig {
    let report = |message: &str, help: &str| value.report_redacted(message, help);
    match (&oauth.client_id, &oauth.client_auth) {
        (Some(id), _) if id.is_empty() || id.len() > 2048 || id.contains(char::is_control) => {
            report(
                "the `client_id` is empty, too long or contains control characters",
                "write 1 to 2048 characters",
            );
        }
        (None, OAuthClientAuth::ClientSecret(_) | OAuthClientAuth::PrivateKey(_)) => {
            let help = "write the id that it belongs to";
            report("a client credential needs a `client_id`", help);
        }
        (_, OAuthClientAuth::None)
            if oauth.is_client_credentials && value.present_keys(&CREDENTIAL_KEYS).is_empty() =>
        {
            let help = "write `client_id` and one of `client_secret_env`, `client_secret_file` and \
                       `private_key_file`";
            report("the grant `client_credentials` needs a `client_id` and a credential", help);
        }
        _ => {}
    }
    oauth
}

pub(super) fn client_auth(value: ConfigValue<'_>, keys: ClientAuthKeys) -> Option<OAuthClientAuth> {
    let present = value.present_keys(&CREDENTIAL_KEYS);
    if present.len() > 1 {
        let message = format!("a client has one credential; found {}", present.join(" and "));
        value.report_redacted(message, "remove all but one of them");
        return None;
    }
    let secret = keys.client_secret.or(keys.client_secret_env).or(keys.client_secret_file);
    secret.or(keys.private_key_env).or(keys.private_key_file)
}

fn metadata_url(value: ConfigValue<'_>, text: String) -> Option<String> {
    check_secret_url(value, text, |url| url.scheme() == "https" && url.path() != "/")
}

pub(super) fn oauth_scope(value: ConfigValue<'_>, scope: String) -> Option<String> {
    if (1..=256).contains(&scope.len()) && scope.bytes().all(is_scope_byte) {
        return Some(scope);
    }
    let message = format!("invalid scope `{}`", shorten_text(&scope));
    value.report(message, "write each scope as an item: `scopes: [read, write]`");
    None
}

fn read_variable(value: ConfigValue<'_>, name: &str) -> Option<String> {
    let text = value.file.environment.get(name).filter(|text| !text.is_empty());
    if text.is_none() {
        let message = format!("the environment variable `{}` is not set", shorten_text(name));
        value.report_redacted(message, "set it, or correct its name");
    }
    text.map(str::to_owned)
}

fn read_secret_file(value: ConfigValue<'_>, path: &str) -> Option<String> {
    let report = |error: crate::ConfigError| {
        let message = format!("`{}` {}", shorten_text(path), error.message);
        value.report_redacted(message, "check the path and its permissions");
    };
    crate::file_text::read_text(&value.file.resolve_path(path)).map_err(report).ok()
}

fn client_secret(value: ConfigValue<'_>, text: String) -> Option<OAuthClientAuth> {
    if (1..=8192).contains(&text.len()) && !text.contains(char::is_control) {
        return Some(OAuthClientAuth::ClientSecret(Secret::new(text)));
    }
    let message = "invalid client secret";
    value.report_redacted(message, "a client secret is one line of 1 to 8192 bytes");
    None
}

fn secret_line(value: ConfigValue<'_>, text: &str) -> Option<OAuthClientAuth> {
    client_secret(value, text.trim_end_matches(['\r', '\n']).to_owned())
}

fn private_key(value: ConfigValue<'_>, pem: String) -> Option<OAuthClientAuth> {
    if let Err(reason) = SigningKey::from_pem(&pem) {
        let message = format!("the private key cannot be used: {reason}");
        value.report_redacted(message, "convert it: `openssl pkcs8 -topk8 -nocrypt`");
        return None;
    }
    Some(OAuthClientAuth::PrivateKey(Secret::new(pem)))
}

fn secret_header(value: ConfigValue<'_>, name: &str) -> Option<HeaderName> {
    let header = parse_header_name(name);
    if header.is_none() {
        let message = format!("the header `{}` cannot be set", shorten_text(name));
        value.report_redacted(message, "use another one, such as `X-Api-Key`");
    }
    header
}

fn header_secrets(_: ConfigValue<'_>, texts: BTreeMap<String, String>) -> BTreeMap<String, Secret> {
    let texts = texts.into_iter().take(MAX_SUBJECTS);
    texts.map(|(subject, text)| (subject, Secret::new(text))).collect()
}

/// Checks that the keys fit together, and completes the secrets to header values.
pub(super) fn check_caller_secrets(
    value: ConfigValue<'_>,
    mut config: CallerSecretsConfig,
) -> CallerSecretsConfig {
    let report = |message: String, help: &str| value.report_redacted(message, help);
    if value
        .find_member("secrets")
        .and_then(ConfigValue::require_entries)
        .is_none_or(|mut entries| entries.next().is_none())
    {
        let help = "write one for each caller: `secrets: { SUBJECT: ${VARIABLE} }`";
        report("`secrets` is missing or empty".to_owned(), help);
    }
    let prefix = if value.has_member("header") { "" } else { "Bearer " };
    for (subject, secret) in &mut config.header_values {
        let header = format!("{prefix}{}", secret.expose());
        let is_valid = header.len() <= 8192 && http::HeaderValue::try_from(&header).is_ok();
        if !is_valid || secret.expose().is_empty() {
            let message = format!("the secret of `{}` cannot be sent", shorten_text(subject));
            report(message, "a secret is one line of 1 to 8192 bytes");
        }
        *secret = Secret::new(header);
    }
    let secrets = value.find_member("secrets");
    let has_secret =
        |subject: &str| secrets.is_some_and(|secrets| secrets.node.find_value(subject).is_some());
    if let Some(subject) = config.listing_subject.as_ref().filter(|subject| !has_secret(subject)) {
        let message = format!("`list_as` names `{}`, which has no secret", shorten_text(subject));
        report(message, "name one of the subjects under `secrets`");
    }
    config
}

#[cfg(test)]
mod tests;
