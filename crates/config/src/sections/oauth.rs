//! What an MCP server over HTTP is told beside fixed headers: tokens, or a secret of each caller.

use std::collections::BTreeMap;

use http::HeaderName;
use oauth_client::SigningKey;
use serde_json::{Value, json};
use tool::Secret;

use super::address::{safe_address, secret_address};
use super::mcp::header_name;
use crate::node::shorten;
use crate::parsers::{list, map, plain_text, text, truth, words};
use crate::section::{flattened, section};
use crate::shown::{HIDDEN, Show, without_query};
use crate::value::{ConfigValue, ValueParser as _};

/// Subjects of one source.
const SUBJECTS: usize = 10_000;
/// The keys that hold a client's credential.
const PROOFS: [&str; 5] = [
    "client_secret",
    "client_secret_env",
    "client_secret_file",
    "private_key_env",
    "private_key_file",
];

section! {
    /// How tokens are asked for (OAuth 2.1). A secret stands in a variable or in a file, better than here.
    #[derive(Debug, Clone, Hash)]
    pub struct OAuthConfig as "OAuth": Show {
        /// On whose behalf. Default: `authorization_code`.
        pub alone as "grant": bool = grant(), shown if *alone { "client_credentials" } else { "authorization_code" }.into();
        /// The client's id, where it is registered by hand.
        pub client_id: Option<String> = text();
        /// How it proves that it is that client.
        pub proof as "..": OAuthProof = flattened::<ProofKeys>().then(proof);
        /// https address of a document that describes this installation as a client.
        pub client_metadata: Option<String> = text().then(document), shown client_metadata.as_deref().map(without_query).into();
        /// Scopes to ask for, and with `client_credentials` no others. Default: those that the server names.
        pub scopes: Vec<String> = list(text().then(scope));
        /// The only authorization server that is asked, as its metadata name it. Needed where it lies in a
        /// private network.
        pub issuer: Option<String> = text().then(safe_address);
        /// Its token endpoint, where its metadata are not to be asked for.
        pub token_endpoint: Option<String> = text().then(safe_address), shown token_endpoint.as_deref().map(without_query).into();
        /// Whether the server may name authorization servers on any port of this machine, for development.
        /// Default: false; `issuer` and `token_endpoint` name one.
        pub any_loopback_port: bool = truth(), shown any_loopback_port.then_some(true).into();
    }
}

section! {
    /// How a client proves who it is.
    struct ProofKeys as "ProofKeys" {
        /// Its secret.
        client_secret: Option<OAuthProof> = plain_text().then(secret);
        /// Name of the environment variable that holds its secret.
        client_secret_env: Option<OAuthProof> = text().convert_text(variable).then(secret);
        /// File that holds its secret; read with the configuration.
        client_secret_file: Option<OAuthProof> = text().convert_text(file_text).convert_text(secret_line);
        /// File that holds its private key instead of a secret: PKCS#8 in PEM, of P-256, P-384, Ed25519 or
        /// RSA.
        private_key_file: Option<OAuthProof> = text().convert_text(file_text).then(private_key);
        /// Name of the environment variable that holds its private key.
        private_key_env: Option<OAuthProof> = text().convert_text(variable).then(private_key);
    }
}

words! {
    /// On whose behalf tokens are asked for.
    fn grant as "GrantWord" -> bool {
        /// A person's, who logs in once.
        "authorization_code" = false,
        /// The installation's own.
        "client_credentials" = true,
    }
}

section! {
    /// A secret of its own for each caller.
    #[derive(Debug, Clone, Hash)]
    pub struct PerCallerConfig as "PerCaller": Show {
        /// The header that carries it. Default: `Authorization`, with `Bearer ` before the secret.
        pub header: HeaderName = text().convert_text(header), default http::header::AUTHORIZATION;
        /// The secrets, by the subject of the caller's key.
        pub values as "secrets": BTreeMap<String, Secret> = map(plain_text()).map(secrets);
        /// The subject whose secret lists the tools. Default: they are listed without one.
        pub list_as: Option<String> = text();
    }
}

/// How a client proves who it is.
#[derive(Debug, Clone, Default, Hash)]
pub enum OAuthProof {
    /// Not at all.
    #[default]
    None,
    /// By a secret.
    Secret(Secret),
    /// By a private key, in PEM.
    Key(Secret),
}

impl OAuthProof {
    /// What must not be seen of it.
    pub fn secret(&self) -> Option<&Secret> {
        match self {
            Self::None => None,
            Self::Secret(secret) | Self::Key(secret) => Some(secret),
        }
    }
}

impl Show for OAuthProof {
    fn show(&self) -> Value {
        match self {
            Self::None => json!({}),
            Self::Secret(_) => json!({ "client_secret": HIDDEN }),
            Self::Key(_) => json!({ "private_key_env": HIDDEN }),
        }
    }
}

/// What the keys must be together.
pub(super) fn oauth(value: ConfigValue<'_>, oauth: OAuthConfig) -> OAuthConfig {
    let fault = |message: &str, fix: &str| value.fault_hidden(message, fix);
    match (&oauth.client_id, &oauth.proof) {
        (Some(id), _) if id.is_empty() || id.len() > 2048 || id.contains(char::is_control) => {
            fault("the `client_id` is empty, too long or holds control characters", "mend it");
        }
        (None, OAuthProof::Secret(_) | OAuthProof::Key(_)) => {
            let fix = "write the id that they belong to";
            fault("a secret or a key is given, and no `client_id`", fix);
        }
        (_, OAuthProof::None) if oauth.alone && value.which_of(&PROOFS).is_empty() => {
            let fix = "write `client_id` and one of `client_secret_env`, `client_secret_file` and \
                       `private_key_file`";
            fault("the grant `client_credentials` needs a client and its credential", fix);
        }
        _ => {}
    }
    oauth
}

fn proof(value: ConfigValue<'_>, keys: ProofKeys) -> Option<OAuthProof> {
    let given = value.which_of(&PROOFS);
    if given.len() > 1 {
        let message = format!("a client has one credential, and here are {}", given.join(" and "));
        value.fault_hidden(message, "remove all but one of them");
        return None;
    }
    let secret = keys.client_secret.or(keys.client_secret_env).or(keys.client_secret_file);
    secret.or(keys.private_key_env).or(keys.private_key_file)
}

fn document(value: ConfigValue<'_>, text: String) -> Option<String> {
    secret_address(value, text, |url| url.scheme() == "https" && url.path() != "/")
}

fn scope(value: ConfigValue<'_>, scope: String) -> Option<String> {
    // RFC 6749, 3.3.
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    if (1..=256).contains(&scope.len()) && scope.bytes().all(fits) {
        return Some(scope);
    }
    let message = format!("`{}` is no scope", shorten(&scope));
    value.fault(message, "write each scope on its own: `scopes: [read, write]`");
    None
}

fn variable(value: ConfigValue<'_>, name: &str) -> Option<String> {
    let found = value.file.environment.get(name).filter(|text| !text.is_empty());
    if found.is_none() {
        let message = format!("the environment variable `{}` is not set", shorten(name));
        value.fault_hidden(message, "set it");
    }
    found.map(str::to_owned)
}

fn file_text(value: ConfigValue<'_>, path: &str) -> Option<String> {
    let fault = |fault: crate::Fault| {
        let message = format!("`{}` {}", shorten(path), fault.message);
        value.fault_hidden(message, "look at the path, and at who may read it");
    };
    crate::text::read(&value.file.path(path)).map_err(fault).ok()
}

fn secret(value: ConfigValue<'_>, text: String) -> Option<OAuthProof> {
    if (1..=8192).contains(&text.len()) && !text.contains(char::is_control) {
        return Some(OAuthProof::Secret(Secret::new(text)));
    }
    let message = "a client secret is one line of 1 to 8192 bytes";
    value.fault_hidden(message, "look at where it comes from");
    None
}

fn secret_line(value: ConfigValue<'_>, text: &str) -> Option<OAuthProof> {
    secret(value, text.trim_end_matches(['\r', '\n']).to_owned())
}

fn private_key(value: ConfigValue<'_>, pem: String) -> Option<OAuthProof> {
    if let Err(why) = SigningKey::read(&pem) {
        let message = format!("the private key cannot be used: {why}");
        value.fault_hidden(message, "write it with `openssl pkcs8 -topk8 -nocrypt`");
        return None;
    }
    Some(OAuthProof::Key(Secret::new(pem)))
}

fn header(value: ConfigValue<'_>, name: &str) -> Option<HeaderName> {
    let header = header_name(name);
    if header.is_none() {
        let message = format!("`{}` is no header that can be set", shorten(name));
        value.fault_hidden(message, "such as `X-Api-Key`");
    }
    header
}

fn secrets(_: ConfigValue<'_>, texts: BTreeMap<String, String>) -> BTreeMap<String, Secret> {
    let texts = texts.into_iter().take(SUBJECTS);
    texts.map(|(subject, text)| (subject, Secret::new(text))).collect()
}

/// What the keys must be together. The values are those of the header then.
pub(super) fn per_caller(value: ConfigValue<'_>, mut config: PerCallerConfig) -> PerCallerConfig {
    let fault = |message: String, fix: &str| value.fault_hidden(message, fix);
    if value
        .member("secrets")
        .and_then(ConfigValue::entries)
        .is_none_or(|mut all| all.next().is_none())
    {
        let fix = "write one for each: `secrets: { SUBJECT: ${VARIABLE} }`";
        fault("there are no secrets by subject".to_owned(), fix);
    }
    let prefix = if value.has("header") { "" } else { "Bearer " };
    for (subject, secret) in &mut config.values {
        let header = format!("{prefix}{}", secret.open());
        let fits = header.len() <= 8192 && http::HeaderValue::try_from(&header).is_ok();
        if !fits || secret.open().is_empty() {
            let message = format!("the secret of `{}` cannot be sent", shorten(subject));
            fault(message, "a secret is one line of 1 to 8192 bytes");
        }
        *secret = Secret::new(header);
    }
    let secrets = value.member("secrets");
    let names = |subject: &str| secrets.is_some_and(|all| all.node.get(subject).is_some());
    if let Some(subject) = config.list_as.as_ref().filter(|it| !names(it)) {
        let message = format!("`list_as` names `{}`, who has no secret", shorten(subject));
        fault(message, "name one of the subjects under `secrets`");
    }
    config
}

#[cfg(test)]
mod tests;
