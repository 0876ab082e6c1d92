//! Whose tokens are believed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use identity::{Algorithm, Grant, Issuer, Role};
use tool::{Level, Org};

use super::address::{is_safe, safe_address, secret_address, url};
use crate::node::shorten;
use crate::parsers::{list, map, text, truth};
use crate::section::{section, subsection};
use crate::value::{ConfigValue, ValueParser as _};

/// Issuers of one installation.
const ISSUERS: usize = 32;
/// Grants of one issuer.
const GRANTS: usize = 1_000;
/// The longest claim or value, in bytes.
const TEXT: usize = 2_048;
/// The life of a token in milliseconds, where nothing is said.
const LIFE: u64 = 3_600_000;
/// The longest that may be configured.
const LONGEST: Duration = Duration::from_hours(7 * 24);
/// How tokens are signed, where nothing is said.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

section! {
    /// Whose tokens are believed. `/mcp` is then a protected resource of OAuth: it tells clients where to ask
    /// for a token.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TokensConfig as "Tokens": Show {
        /// The address of `/mcp` as clients see it, such as `https://tools.example/mcp`. Tokens must be for it,
        /// letter by letter.
        pub resource: String = text().then(resource),
            required "write the address of `/mcp` as clients see it: `https://HOST/mcp`";
        /// The issuers.
        pub issuers: Vec<IssuerConfig> = list(subsection::<IssuerKeys>().then(issuer));
    }
}

/// One issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerConfig {
    /// What it is believed in.
    pub issuer: Issuer,
    /// The address of its keys; `None` where its metadata say.
    pub jwks: Option<String>,
}

section! {
    /// One issuer, and what its tokens may do.
    struct IssuerKeys as "Issuer" {
        /// Its name here: 1 to 32 lower-case letters, digits, `_` and `-`. Its users are on record as
        /// `NAME:USER`.
        name: Option<String> = text().map(name);
        /// The `iss` of its tokens, letter by letter; its metadata are looked for there.
        issuer: Option<String> = text().then(issuer_address);
        /// The address of its keys. Default: what its metadata say.
        jwks: Option<String> = text().then(safe_address);
        /// How its tokens may be signed: any of EdDSA, ES256, ES384, ES512, RS256, RS384, RS512, PS256, PS384
        /// and PS512. Default: RS256, ES256 and EdDSA.
        algorithms: BTreeSet<Algorithm> = list(text().convert_text(algorithm)).map(algorithms), default ALGORITHMS.into();
        /// The organisation of its users. Default: `default`.
        org: Option<Org> = text().convert_text(org);
        /// The claim that says which organisation, for an issuer of several.
        org_claim: Option<String> = text();
        /// The organisations by the values of that claim; any other value is refused.
        orgs: Option<BTreeMap<String, Org>> = map(text().convert_text(org));
        /// The claim that names the user. Default: `sub`.
        subject: String = text(), default "sub".to_owned();
        /// Whether its tokens are people's rather than agents'. Default: agents', which never approve.
        person: bool = truth();
        /// The longest life of a token, such as `1h`, which is the default.
        max_lifetime: u64 = text().convert_text(life), default LIFE;
        /// What its tokens may do. A token that fits none of these may do nothing.
        grants: Vec<Grant> = list(subsection::<GrantKeys>().then(grant));
    }
}

section! {
    /// What a token may do whose claim has a value.
    struct GrantKeys as "Grant2" {
        /// The claim, such as `scope`, or the way to it, such as `realm_access.roles`.
        claim: Option<String> = text();
        /// Its value, or one of its list, or a word of a scope.
        value: Option<String> = text();
        /// The level it gives: guest, user or admin.
        level: Option<String> = text();
        /// The roles it gives.
        roles: Vec<String> = list(text().map(role));
    }
}

/// How many issuers there are, and that none is there twice.
pub(crate) fn tokens(value: ConfigValue<'_>, tokens: TokensConfig) -> TokensConfig {
    let count = value.count("issuers");
    if !(1..=ISSUERS).contains(&count) {
        let message = format!("there are {count} issuers; 1 to {ISSUERS} are allowed");
        value.fault(message, "write `issuers: [{ name: …, issuer: …, grants: … }]`");
    }
    let all = value.member("issuers").into_iter().flat_map(ConfigValue::list_items);
    let mut seen = Vec::new();
    for issuer in all {
        let text = |key| issuer.member(key).and_then(ConfigValue::text);
        let (name, address) = (text("name"), text("issuer"));
        let same = |(a, b): &(Option<&str>, Option<&str>)| {
            name.is_some() && *a == name || address.is_some() && *b == address
        };
        if seen.iter().any(same) {
            let message = "there is an issuer of this name or this address already";
            issuer.fault(message, "give each its own");
        }
        seen.push((name, address));
    }
    tokens
}

fn resource(value: ConfigValue<'_>, text: String) -> Option<String> {
    let url = url(value, &text)?;
    let plain = url.query().is_none() && url.fragment().is_none() && url.path() == "/mcp";
    if plain && is_safe(&url) && url.as_str() == text {
        return Some(text);
    }
    let message = format!("`{}` is no address of `/mcp` that tokens can be for", shorten(&text));
    value.fault(message, "write the address of `/mcp` as clients see it: `https://HOST/mcp`");
    None
}

fn issuer(value: ConfigValue<'_>, keys: IssuerKeys) -> Option<IssuerConfig> {
    let orgs = organisations(value, keys.org_claim, keys.orgs);
    let count = value.count("grants");
    if !(1..=GRANTS).contains(&count) {
        let message = format!("there are {count} grants; 1 to {GRANTS} are allowed");
        let fix = "write `grants: [{ claim: scope, value: tools, level: user }]`: without one its \
                   tokens may do nothing";
        value.fault(message, fix);
    }
    let (name, address) = (needed(value, "name", keys.name), needed(value, "issuer", keys.issuer));
    let issuer = Issuer {
        name: name?,
        issuer: address?,
        algorithms: keys.algorithms,
        org: keys.org.unwrap_or_default(),
        orgs,
        subject: keys.subject,
        person: keys.person,
        grants: keys.grants,
        longest: keys.max_lifetime,
    };
    Some(IssuerConfig { issuer, jwks: keys.jwks })
}

/// A text that must be there and hold something.
fn needed(value: ConfigValue<'_>, key: &str, text: Option<String>) -> Option<String> {
    match text {
        Some(text) if (1..=TEXT).contains(&text.len()) => Some(text),
        None if value.has(key) => None,
        _ => {
            let message = format!("the key `{key}` is missing or empty");
            value.fault(message, "see docs/guide/identity.md");
            None
        }
    }
}

fn name(value: ConfigValue<'_>, name: String) -> String {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if !name.is_empty() && (name.len() > 32 || !name.bytes().all(letter)) {
        let message = format!("`{}` is no name of an issuer", shorten(&name));
        value.fault(message, "use 1 to 32 lower-case letters, digits, `_` and `-`");
    }
    name
}

fn issuer_address(value: ConfigValue<'_>, text: String) -> Option<String> {
    if text.is_empty() {
        return Some(text);
    }
    // RFC 8414, 2.
    let fits = |url: &url::Url| is_safe(url) && url.query().is_none() && url.fragment().is_none();
    secret_address(value, text, fits)
}

fn algorithm(value: ConfigValue<'_>, word: &str) -> Option<Algorithm> {
    word.parse().map_err(|message: String| value.fault(message, "")).ok()
}

fn algorithms(value: ConfigValue<'_>, found: Vec<Algorithm>) -> BTreeSet<Algorithm> {
    if value.list_items().next().is_none() {
        value.fault("with no algorithm no token can hold", "such as `[ES256]`");
    }
    found.into_iter().collect()
}

fn org(value: ConfigValue<'_>, text: &str) -> Option<Org> {
    let fault = |error: tool::NameError| value.fault(error.to_string(), "");
    text.parse().map_err(fault).ok()
}

fn organisations(
    value: ConfigValue<'_>,
    claim: Option<String>,
    orgs: Option<BTreeMap<String, Org>>,
) -> Option<(String, BTreeMap<String, Org>)> {
    if value.has("org_claim") != value.has("orgs") {
        value.fault("`org_claim` and `orgs` belong together", "write both, or only `org`");
    } else if value.has("orgs") && value.has("org") {
        let message = "an issuer has one organisation or several, and here are `org` and `orgs`";
        value.fault(message, "remove one of them");
    }
    claim.zip(orgs)
}

/// In milliseconds, of whole minutes or hours.
fn life(value: ConfigValue<'_>, text: &str) -> Option<u64> {
    let (number, minutes) = match (text.strip_suffix('m'), text.strip_suffix('h')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 60),
        _ => ("", 0),
    };
    let longest = LONGEST.as_secs() / 60;
    let minutes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(minutes));
    let minutes = minutes.filter(|minutes| (1..=longest).contains(minutes));
    if minutes.is_none() {
        let message = format!("`{}` is no life of a token", shorten(text));
        value.fault(message, "write up to 168 hours, as `30m` or `1h`");
    }
    Some(minutes? * 60_000)
}

fn grant(value: ConfigValue<'_>, keys: GrantKeys) -> Option<Grant> {
    let claim = needed(value, "claim", keys.claim);
    let text = needed(value, "value", keys.value);
    let words = claim.as_deref().is_some_and(|claim| matches!(claim, "scope" | "scp"));
    // RFC 6749, 3.3: it also goes out in a header.
    let scope = |b: u8| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    if let Some(text) = text.as_ref().filter(|text| words && !text.bytes().all(scope)) {
        value.fault(format!("`{}` is no scope", shorten(text)), "write each scope on its own");
    }
    let word = needed(value, "level", keys.level)?;
    let message = match word.parse() {
        Ok(Level::Owner) => "no token makes an owner".to_owned(),
        Ok(level) => return Some(Grant { claim: claim?, value: text?, level, roles: keys.roles }),
        Err(_) => format!("`{}` is no level", shorten(&word)),
    };
    value.fault(message, "use guest, user or admin");
    None
}

fn role(value: ConfigValue<'_>, role: String) -> String {
    if !Role::fits(&role) {
        let message = format!("`{}` is no name of a role", shorten(&role));
        value.fault(message, "use 1 to 64 letters, digits, `_`, `.` and `-`");
    }
    role
}

#[cfg(test)]
mod tests;
