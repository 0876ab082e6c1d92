//! Whose tokens are believed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use identity::{Algorithm, Grant, Issuer, Role};
use tool::{Level, Org};
use url::Url;

use super::Resolver;
use super::authorization::is_safe;
use crate::Place;
use crate::field::Field;
use crate::high::{IssuerConfig, TokensConfig};
use crate::low;
use crate::node::shorten;

/// Issuers of one installation.
const ISSUERS: usize = 32;
/// Grants of one issuer.
const GRANTS: usize = 1_000;
/// The longest claim or value, in bytes.
const TEXT: usize = 256;
/// The life of a token, where nothing is said.
const LIFE: Duration = Duration::from_hours(1);
/// The longest that may be configured.
const LONGEST: Duration = Duration::from_hours(7 * 24);
/// How tokens are signed, where nothing is said.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

impl Resolver<'_> {
    pub(super) fn tokens(&self, low: &low::File) -> Option<TokensConfig> {
        let (low, place) = low.tokens.given()?;
        let resource = self.resource(low, place)?;
        let all = low.issuers.get().map(Vec::as_slice).unwrap_or_default();
        if all.is_empty() || all.len() > ISSUERS {
            let message = format!("there are {} issuers; 1 to {ISSUERS} are allowed", all.len());
            self.sink.tell(place, message, "write `issuers: [{ name: …, issuer: …, grants: … }]`");
        }
        let mut issuers: Vec<IssuerConfig> = Vec::new();
        for (low, place) in all.iter().filter_map(Field::given) {
            let Some(one) = self.issuer(low, place) else { continue };
            let same = |other: &IssuerConfig| {
                other.issuer.name == one.issuer.name || other.issuer.issuer == one.issuer.issuer
            };
            if issuers.iter().any(same) {
                let message = "there is an issuer of this name or this address already";
                self.sink.tell(place, message, "give each its own");
            }
            issuers.push(one);
        }
        Some(TokensConfig { resource, issuers })
    }

    fn resource(&self, low: &low::Tokens, place: Place) -> Option<String> {
        let fix = "write the address of `/mcp` as clients see it: `https://HOST/mcp`";
        let Some((text, place)) = low.resource.given() else {
            self.sink.tell(place, "the key `resource` is missing", fix);
            return None;
        };
        let url = self.url(text, place)?;
        let plain = url.query().is_none() && url.fragment().is_none() && url.path() == "/mcp";
        if !plain || !is_safe(&url) || url.as_str() != text {
            let message =
                format!("`{}` is no address of `/mcp` that tokens can be for", shorten(text));
            self.sink.tell(place, message, fix);
            return None;
        }
        Some(text.clone())
    }

    fn issuer(&self, low: &low::Issuer, place: Place) -> Option<IssuerConfig> {
        let name = self.needed(&low.name, place, "name")?;
        let letter =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
        if !(1..=32).contains(&name.len()) || !name.bytes().all(letter) {
            let message = format!("`{}` is no name of an issuer", shorten(&name));
            let fix = "use 1 to 32 lower-case letters, digits, `_` and `-`";
            self.sink.tell(place, message, fix);
        }
        let issuer = self.needed(&low.iss, place, "issuer")?;
        self.place_of(&low.iss, |url| is_safe(url) && without_extras(url));
        let jwks = self.place_of(&low.jwks, is_safe);
        let issuer = Issuer {
            name,
            issuer,
            algorithms: self.algorithms(&low.algorithms),
            org: self.org(&low.org).unwrap_or_default(),
            orgs: self.orgs(low, place),
            subject: low.subject.get().cloned().unwrap_or_else(|| "sub".to_owned()),
            person: low.person.get() == Some(&true),
            grants: self.grants(low, place),
            longest: self.life(&low.max_lifetime),
        };
        Some(IssuerConfig { issuer, jwks })
    }

    fn needed(&self, field: &Field<String>, place: Place, key: &str) -> Option<String> {
        let text = field.get().filter(|text| (1..=TEXT * 8).contains(&text.len()));
        if text.is_none() && !matches!(field, Field::Faulty) {
            let message = format!("the key `{key}` is missing or empty");
            self.sink.tell(place, message, "see docs/guide/identity.md");
        }
        text.cloned()
    }

    fn algorithms(&self, field: &Field<Vec<Field<String>>>) -> BTreeSet<Algorithm> {
        let Some((all, place)) = field.given() else { return ALGORITHMS.into() };
        let read = |(word, place): (&String, Place)| {
            let told = |message| self.sink.tell(place, message, "");
            word.parse().map_err(told).ok()
        };
        let found: BTreeSet<_> = all.iter().filter_map(Field::given).filter_map(read).collect();
        if found.is_empty() && field.is_sound() {
            self.sink.tell(place, "with no algorithm no token can hold", "such as `[ES256]`");
        }
        found
    }

    fn org(&self, field: &Field<String>) -> Option<Org> {
        let (text, place) = field.given()?;
        let told = |error: tool::NameError| self.sink.tell(place, error.to_string(), "");
        text.parse().map_err(told).ok()
    }

    fn orgs(&self, low: &low::Issuer, place: Place) -> Option<(String, BTreeMap<String, Org>)> {
        let (claim, orgs) = match (low.org_claim.get(), low.orgs.get()) {
            (None, None) => return None,
            (Some(claim), Some(orgs)) => (claim.clone(), orgs),
            _ => {
                let fix = "write both, or only `org`";
                self.sink.tell(place, "`org_claim` and `orgs` belong together", fix);
                return None;
            }
        };
        if !low.org.is_absent() {
            let message =
                "an issuer has one organisation or several, and here are `org` and `orgs`";
            self.sink.tell(place, message, "remove one of them");
        }
        let known = orgs.iter().filter_map(|(value, org)| Some((value.clone(), self.org(org)?)));
        Some((claim, known.collect()))
    }

    fn life(&self, field: &Field<String>) -> u64 {
        let given = field.given().map(|(text, place)| {
            hours(text).filter(|life| *life > Duration::ZERO && *life <= LONGEST).unwrap_or_else(
                || {
                    let message = format!("`{}` is no life of a token", shorten(text));
                    self.sink.tell(place, message, "write up to 168 hours, as `30m` or `1h`");
                    LIFE
                },
            )
        });
        u64::try_from(given.unwrap_or(LIFE).as_millis()).unwrap_or(0)
    }

    fn grants(&self, low: &low::Issuer, place: Place) -> Vec<Grant> {
        let all = low.grants.get().map(Vec::as_slice).unwrap_or_default();
        if all.is_empty() || all.len() > GRANTS {
            let message = format!("there are {} grants; 1 to {GRANTS} are allowed", all.len());
            let fix = "write `grants: [{ claim: scope, value: tools, level: user }]`: without one its \
                       tokens may do nothing";
            self.sink.tell(place, message, fix);
        }
        all.iter()
            .filter_map(Field::given)
            .filter_map(|(low, place)| self.grant(low, place))
            .collect()
    }

    fn grant(&self, low: &low::Grant, place: Place) -> Option<Grant> {
        let claim = self.needed(&low.claim, place, "claim")?;
        let value = self.needed(&low.value, place, "value")?;
        let words = matches!(claim.as_str(), "scope" | "scp");
        // RFC 6749, 3.3: it also goes out in a header.
        let scope = |b: u8| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        if words && !value.bytes().all(scope) {
            let message = format!("`{}` is no scope", shorten(&value));
            self.sink.tell(place, message, "write each scope on its own");
        }
        let word = self.needed(&low.level, place, "level")?;
        let level = match word.parse() {
            Ok(Level::Owner) => {
                self.sink.tell(place, "no token makes an owner", "use guest, user or admin");
                return None;
            }
            Ok(level) => level,
            Err(_) => {
                let message = format!("`{}` is no level", shorten(&word));
                self.sink.tell(place, message, "use guest, user or admin");
                return None;
            }
        };
        let roles = low.roles.get().into_iter().flatten().filter_map(Field::given);
        let fits = |(role, place): (&String, Place)| {
            if !Role::fits(role) {
                let message = format!("`{}` is no name of a role", shorten(role));
                self.sink.tell(place, message, "use 1 to 64 letters, digits, `_`, `.` and `-`");
            }
            role.clone()
        };
        Some(Grant { claim, value, level, roles: roles.map(fits).collect() })
    }
}

/// Whole minutes or hours.
fn hours(text: &str) -> Option<Duration> {
    let (number, minutes) = match (text.strip_suffix('m'), text.strip_suffix('h')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 60),
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    Some(Duration::from_secs(number.checked_mul(minutes * 60)?))
}

/// RFC 8414, 2.
fn without_extras(url: &Url) -> bool {
    url.query().is_none() && url.fragment().is_none()
}

#[cfg(test)]
mod tests;
