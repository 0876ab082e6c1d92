//! The issuers whose access tokens are accepted, and the rights of their tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use identity::{ClaimGrant, OrgClaim, RoleRecord, SignatureAlgorithm, TrustedIssuer};
use tool::{Org, PermissionLevel};

use super::http_url::{check_secret_url, http_url, is_https_or_loopback, secure_url};
use super::issuer_sign_in::IssuerSignInConfig;
use crate::config_value::{ConfigValue, ValueParser as _};
use crate::section::{section, subsection};
use crate::value_parsers::{boolean, is_scope_byte, list, mapping, text};
use crate::yaml_tree::shorten_text;

/// The most issuers of one configuration.
const MAX_ISSUERS: usize = 32;
/// The most grants of one issuer.
const MAX_GRANTS: usize = 1_000;
/// The longest claim or value, in bytes.
const MAX_CLAIM_BYTES: usize = 2_048;
/// The default lifetime limit of a token, in milliseconds.
const DEFAULT_LIFETIME_MS: u64 = 3_600_000;
/// The highest lifetime limit of a token.
const MAX_LIFETIME: Duration = Duration::from_hours(7 * 24);
/// The default signature algorithms of tokens.
const DEFAULT_ALGORITHMS: [SignatureAlgorithm; 3] =
    [SignatureAlgorithm::Rs256, SignatureAlgorithm::Es256, SignatureAlgorithm::EdDsa];

section! {
    /// The issuers whose access tokens are accepted. `/mcp` is then an OAuth protected resource: its metadata name the
    /// issuers to clients.
    #[derive(Debug, Clone)]
    pub struct AccessTokensConfig as "Tokens": RedactedJson {
        /// The URL of `/mcp` as clients use it, such as `https://tools.example/mcp`. The audience of a token must be
        /// exactly this text.
        pub resource: String = text().and_then(resource_url),
            required "write the URL of `/mcp` as clients use it: `https://HOST/mcp`";
        /// The trusted issuers: 1 to 32.
        pub issuers: Vec<IssuerConfig> = list(subsection::<IssuerKeys>().and_then(trusted_issuer));
    }
}

/// A trusted issuer of access tokens.
#[derive(Debug, Clone)]
pub struct IssuerConfig {
    /// The issuer, and the rights of its tokens.
    pub issuer: TrustedIssuer,
    /// The URL of its keys; `None` for the one in its metadata.
    pub jwks_url: Option<String>,
    /// The sign-in to the console, if people sign in with this issuer.
    pub sign_in: Option<IssuerSignInConfig>,
}

section! {
    /// A trusted issuer, and the rights of its tokens.
    struct IssuerKeys as "Issuer" {
        /// The name of the issuer here: 1 to 32 lower-case letters, digits, `_` and `-`. The record names its users
        /// `NAME:USER`.
        name: Option<String> = text().map(issuer_name);
        /// The `iss` of its tokens, exactly. Its metadata are fetched from there.
        issuer: Option<String> = text().and_then(issuer_url);
        /// The URL of its keys. Default: the one in its metadata.
        jwks: Option<String> = text().and_then(secure_url);
        /// The accepted signature algorithms: any of EdDSA, ES256, ES384, ES512, RS256, RS384, RS512, PS256, PS384
        /// and PS512. Default: RS256, ES256 and EdDSA.
        algorithms: BTreeSet<SignatureAlgorithm> =
            list(text().convert_text(signature_algorithm)).map(algorithm_set),
            default DEFAULT_ALGORITHMS.into();
        /// The organisation of its users. Default: `default`.
        org: Option<Org> = text().convert_text(parse_org);
        /// The claim that names the organisation, for an issuer of several.
        org_claim: Option<String> = text();
        /// The organisations by the values of `org_claim`. A token with another value is rejected.
        orgs: Option<BTreeMap<String, Org>> = mapping(text().convert_text(parse_org));
        /// The claim that names the user. Default: `sub`.
        subject: String = text(), default "sub".to_owned();
        /// Whether its tokens belong to people, who may approve calls. Default: `false`, and they belong to agents.
        person: bool = boolean();
        /// The longest lifetime of a token in minutes or hours, such as `30m`: from `1m` to `168h`. Default: `1h`.
        max_lifetime: u64 = text().convert_text(token_lifetime), default DEFAULT_LIFETIME_MS;
        /// The client with which people sign in to the web console. Default: nobody signs in with this issuer.
        sign_in: Option<IssuerSignInConfig> = subsection::<IssuerSignInConfig>();
        /// The rights of its tokens: 1 to 1000 grants. A token that matches none of them has no rights.
        grants: Vec<ClaimGrant> = list(subsection::<GrantKeys>().and_then(claim_grant));
    }
}

section! {
    /// The rights of a token with this claim.
    struct GrantKeys as "Grant2" {
        /// The claim, such as `scope`, or the path to a nested one, such as `realm_access.roles`.
        claim: Option<String> = text();
        /// The value of the claim, an item of its list, or one scope of its string.
        value: Option<String> = text();
        /// The permission level: guest, user or admin.
        level: Option<String> = text();
        /// The roles. Default: none.
        roles: Vec<String> = list(text().map(role_name));
    }
}

/// Checks the number of issuers, and that each is listed once.
pub(crate) fn check_issuers(
    value: ConfigValue<'_>,
    tokens: AccessTokensConfig,
) -> AccessTokensConfig {
    let count = value.count_items("issuers");
    if !(1..=MAX_ISSUERS).contains(&count) {
        let message = format!("{count} issuers are listed; 1 to {MAX_ISSUERS} are allowed");
        value.report(message, "write `issuers: [{ name: …, issuer: …, grants: … }]`");
    }
    let issuers = value.find_member("issuers").into_iter().flat_map(ConfigValue::list_items);
    let mut seen = Vec::new();
    for issuer in issuers {
        let text = |key| issuer.find_member(key).and_then(ConfigValue::as_text);
        let (name, url) = (text("name"), text("issuer"));
        let is_same = |(a, b): &(Option<&str>, Option<&str>)| {
            name.is_some() && *a == name || url.is_some() && *b == url
        };
        if seen.iter().any(is_same) {
            let message = "an issuer with this name or this URL is already listed";
            issuer.report(message, "give each issuer a unique name and URL, or remove one");
        }
        seen.push((name, url));
    }
    tokens
}

fn resource_url(value: ConfigValue<'_>, text: String) -> Option<String> {
    let url = http_url(value, &text)?;
    let is_mcp = url.query().is_none() && url.fragment().is_none() && url.path() == "/mcp";
    if is_mcp && is_https_or_loopback(&url) && url.as_str() == text {
        return Some(text);
    }
    let message = format!("invalid resource URL `{}`", shorten_text(&text));
    value.report(message, "write the URL of `/mcp` as clients use it: `https://HOST/mcp`");
    None
}

fn trusted_issuer(value: ConfigValue<'_>, keys: IssuerKeys) -> Option<IssuerConfig> {
    let org_claim = org_claim(value, keys.org_claim, keys.orgs);
    let count = value.count_items("grants");
    if !(1..=MAX_GRANTS).contains(&count) {
        let message = format!("{count} grants are listed; 1 to {MAX_GRANTS} are allowed");
        let help = "write `grants: [{ claim: scope, value: tools, level: user }]`: without a grant \
                    its tokens have no rights";
        value.report(message, help);
    }
    let (name, url) =
        (required_text(value, "name", keys.name), required_text(value, "issuer", keys.issuer));
    let issuer = TrustedIssuer {
        name: name?,
        iss: url?,
        algorithms: keys.algorithms,
        org: keys.org.unwrap_or_default(),
        org_claim,
        subject_claim: keys.subject,
        is_person: keys.person,
        grants: keys.grants,
        max_lifetime_ms: keys.max_lifetime,
        client_id: keys.sign_in.as_ref().map(|sign_in| sign_in.client_id.clone()),
    };
    Some(IssuerConfig { issuer, jwks_url: keys.jwks, sign_in: keys.sign_in })
}

/// Checks a required string of 1 to 2,048 bytes.
fn required_text(value: ConfigValue<'_>, key: &str, text: Option<String>) -> Option<String> {
    match text {
        Some(text) if (1..=MAX_CLAIM_BYTES).contains(&text.len()) => Some(text),
        None if value.has_member(key) => None,
        _ => {
            let message = format!("the key `{key}` is missing or empty");
            value.report(message, "see docs/guide/identity.md");
            None
        }
    }
}

fn issuer_name(value: ConfigValue<'_>, name: String) -> String {
    let is_allowed =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if !name.is_empty() && (name.len() > 32 || !name.bytes().all(is_allowed)) {
        let message = format!("invalid issuer name `{}`", shorten_text(&name));
        value.report(message, "use 1 to 32 lower-case letters, digits, `_` and `-`");
    }
    name
}

fn issuer_url(value: ConfigValue<'_>, text: String) -> Option<String> {
    if text.is_empty() {
        return Some(text);
    }
    // An issuer has no query and no fragment (RFC 8414, section 2).
    let is_allowed = |url: &url::Url| {
        is_https_or_loopback(url) && url.query().is_none() && url.fragment().is_none()
    };
    check_secret_url(value, text, is_allowed)
}

fn signature_algorithm(value: ConfigValue<'_>, word: &str) -> Option<SignatureAlgorithm> {
    word.parse().map_err(|message: String| value.report(message, "")).ok()
}

fn algorithm_set(
    value: ConfigValue<'_>,
    algorithms: Vec<SignatureAlgorithm>,
) -> BTreeSet<SignatureAlgorithm> {
    if value.list_items().next().is_none() {
        value.report(
            "`algorithms` is empty, so every token would be rejected",
            "write one, such as `[ES256]`",
        );
    }
    algorithms.into_iter().collect()
}

fn parse_org(value: ConfigValue<'_>, text: &str) -> Option<Org> {
    let report = |error: tool::NameError| value.report(error.to_string(), "");
    text.parse().map_err(report).ok()
}

fn org_claim(
    value: ConfigValue<'_>,
    claim: Option<String>,
    orgs: Option<BTreeMap<String, Org>>,
) -> Option<OrgClaim> {
    if value.has_member("org_claim") != value.has_member("orgs") {
        value.report("`org_claim` and `orgs` need each other", "write both, or only `org`");
    } else if value.has_member("orgs") && value.has_member("org") {
        let message = "`org` and `orgs` exclude each other";
        value.report(message, "remove one of them");
    }
    Some(OrgClaim { claim: claim?, orgs: orgs? })
}

/// Parses a lifetime of whole minutes or hours to milliseconds.
fn token_lifetime(value: ConfigValue<'_>, text: &str) -> Option<u64> {
    let (number, minutes) = match (text.strip_suffix('m'), text.strip_suffix('h')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 60),
        _ => ("", 0),
    };
    let max_minutes = MAX_LIFETIME.as_secs() / 60;
    let minutes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(minutes));
    let minutes = minutes.filter(|minutes| (1..=max_minutes).contains(minutes));
    if minutes.is_none() {
        let message = format!("invalid token lifetime `{}`", shorten_text(text));
        value.report(message, "write minutes or hours up to `168h`, such as `30m` or `1h`");
    }
    Some(minutes? * 60_000)
}

fn claim_grant(value: ConfigValue<'_>, keys: GrantKeys) -> Option<ClaimGrant> {
    let claim = required_text(value, "claim", keys.claim);
    let text = required_text(value, "value", keys.value);
    let is_scope = claim.as_deref().is_some_and(|claim| matches!(claim, "scope" | "scp"));
    // It also goes out in a header.
    if let Some(text) = text.as_ref().filter(|text| is_scope && !text.bytes().all(is_scope_byte)) {
        value.report(format!("invalid scope `{}`", shorten_text(text)), "write one scope a grant");
    }
    let level = required_text(value, "level", keys.level)?;
    let message = match level.parse() {
        Ok(PermissionLevel::Owner) => "a token cannot have the level `owner`".to_owned(),
        Ok(level) => {
            return Some(ClaimGrant { claim: claim?, value: text?, level, roles: keys.roles });
        }
        Err(_) => format!("unknown level `{}`", shorten_text(&level)),
    };
    value.report(message, "use guest, user or admin");
    None
}

fn role_name(value: ConfigValue<'_>, role: String) -> String {
    if !RoleRecord::is_valid_name(&role) {
        let message = format!("invalid role name `{}`", shorten_text(&role));
        value.report(message, "use 1 to 64 letters, digits, `_`, `.` and `-`");
    }
    role
}

#[cfg(test)]
mod tests;
