//! Renders values of other crates' types as JSON, with secrets redacted.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use egress::{HttpStack, Origin};
use http::HeaderName;
use node_addresses::SharedNames;
use option_types::ListingMode;
use sandbox::SandboxLevel;
use serde_json::{Value, json};
use tool::{PermissionLevel, SafetyLevel, Secret, SourceTrust};
use url::Url;

use super::REDACTED;
use crate::sections::IssuerConfig;

/// A value that can be rendered in the form of the file, with secrets redacted.
pub(crate) trait RedactedJson {
    fn to_redacted_json(&self) -> Value;
}

macro_rules! render_as_serialized {
    ($($type:ty),*) => {
        $(impl RedactedJson for $type {
            fn to_redacted_json(&self) -> Value {
                json!(self)
            }
        })*
    };
}

render_as_serialized!(
    bool,
    u16,
    u64,
    usize,
    String,
    BTreeSet<String>,
    PermissionLevel,
    SafetyLevel,
    SourceTrust
);

impl RedactedJson for Secret {
    fn to_redacted_json(&self) -> Value {
        REDACTED.into()
    }
}

impl RedactedJson for PathBuf {
    fn to_redacted_json(&self) -> Value {
        self.display().to_string().into()
    }
}

impl RedactedJson for Duration {
    /// Renders whole seconds, otherwise milliseconds.
    fn to_redacted_json(&self) -> Value {
        if self.subsec_millis() == 0 {
            return format!("{}s", self.as_secs()).into();
        }
        format!("{}ms", self.as_millis()).into()
    }
}

impl RedactedJson for Url {
    /// Redacts the query, which may hold a secret.
    fn to_redacted_json(&self) -> Value {
        let mut redacted = self.clone();
        if redacted.query().is_some() {
            redacted.set_query(Some(REDACTED));
        }
        String::from(redacted).into()
    }
}

/// Redacts the query of an address that is stored as a string.
pub(crate) fn redact_query(text: &str) -> String {
    match text.split_once('?') {
        Some((address, _)) => format!("{address}?{REDACTED}"),
        None => text.to_owned(),
    }
}

impl RedactedJson for Origin {
    fn to_redacted_json(&self) -> Value {
        self.to_string().into()
    }
}

impl RedactedJson for HeaderName {
    fn to_redacted_json(&self) -> Value {
        self.as_str().into()
    }
}

impl RedactedJson for HttpStack {
    fn to_redacted_json(&self) -> Value {
        self.as_str().into()
    }
}

impl RedactedJson for SandboxLevel {
    fn to_redacted_json(&self) -> Value {
        self.as_str().into()
    }
}

impl RedactedJson for ListingMode {
    fn to_redacted_json(&self) -> Value {
        self.as_str().into()
    }
}

impl<T: RedactedJson> RedactedJson for Option<T> {
    fn to_redacted_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, RedactedJson::to_redacted_json)
    }
}

impl<T: RedactedJson> RedactedJson for Vec<T> {
    fn to_redacted_json(&self) -> Value {
        self.iter().map(RedactedJson::to_redacted_json).collect()
    }
}

impl<K: AsRef<str>, T: RedactedJson> RedactedJson for Vec<(K, T)> {
    fn to_redacted_json(&self) -> Value {
        let sorted: BTreeMap<&str, _> =
            self.iter().map(|(key, value)| (key.as_ref(), value.to_redacted_json())).collect();
        json!(sorted)
    }
}

impl<T: RedactedJson> RedactedJson for BTreeMap<String, T> {
    fn to_redacted_json(&self) -> Value {
        self.iter().map(|(key, value)| (key.clone(), value.to_redacted_json())).collect()
    }
}

impl RedactedJson for HashSet<String> {
    fn to_redacted_json(&self) -> Value {
        json!(self.iter().collect::<BTreeSet<_>>())
    }
}

impl RedactedJson for IssuerConfig {
    fn to_redacted_json(&self) -> Value {
        let issuer = &self.issuer;
        let grant = |grant: &identity::ClaimGrant| json!({"claim": grant.claim, "value": grant.value, "level": grant.level, "roles": grant.roles});
        let algorithms: Vec<_> =
            issuer.algorithms.iter().map(|algorithm| algorithm.as_str()).collect();
        let org_claim = issuer.org_claim.as_ref();
        json!({
            "name": issuer.name,
            "issuer": issuer.iss,
            "jwks": self.jwks_url.as_deref().map(redact_query),
            "algorithms": algorithms,
            "org": issuer.org.to_string(),
            "org_claim": org_claim.map(|selector| &selector.claim),
            "orgs": org_claim.map(|selector| {
                let names = selector.orgs.iter().map(|(value, org)| (value, org.to_string()));
                names.collect::<BTreeMap<_, _>>()
            }),
            "subject": issuer.subject_claim,
            "person": issuer.is_person,
            "max_lifetime": format!("{}m", issuer.max_lifetime_ms / 60_000),
            "sign_in": self.sign_in.to_redacted_json(),
            "grants": issuer.grants.iter().map(grant).collect::<Vec<_>>(),
        })
    }
}

impl RedactedJson for SharedNames {
    fn to_redacted_json(&self) -> Value {
        json!(self.0)
    }
}
