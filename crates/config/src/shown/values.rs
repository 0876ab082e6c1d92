//! How values of other crates' types are shown.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use egress::{HttpStack, Origin};
use http::HeaderName;
use node_addresses::Sharing;
use sandbox::Tier;
use serde_json::{Value, json};
use tool::{Level, Safety, Secret, Trust};
use url::Url;

use super::HIDDEN;
use crate::sections::IssuerConfig;

/// A value as the file writes it, without secrets.
pub(crate) trait Show {
    fn show(&self) -> Value;
}

macro_rules! shown_as_written {
    ($($type:ty),*) => {
        $(impl Show for $type {
            fn show(&self) -> Value {
                json!(self)
            }
        })*
    };
}

shown_as_written!(bool, u16, u64, usize, String, BTreeSet<String>, Level, Safety, Trust);

impl Show for Secret {
    fn show(&self) -> Value {
        HIDDEN.into()
    }
}

impl Show for PathBuf {
    fn show(&self) -> Value {
        self.display().to_string().into()
    }
}

impl Show for Duration {
    /// In milliseconds where it is no whole number of seconds.
    fn show(&self) -> Value {
        if self.subsec_millis() == 0 {
            return format!("{}s", self.as_secs()).into();
        }
        format!("{}ms", self.as_millis()).into()
    }
}

impl Show for Url {
    /// Without its query: a secret may stand there.
    fn show(&self) -> Value {
        let mut shown = self.clone();
        if shown.query().is_some() {
            shown.set_query(Some(HIDDEN));
        }
        String::from(shown).into()
    }
}

/// The same of an address that is kept as it is written.
pub(crate) fn without_query(text: &str) -> String {
    match text.split_once('?') {
        Some((address, _)) => format!("{address}?{HIDDEN}"),
        None => text.to_owned(),
    }
}

impl Show for Origin {
    fn show(&self) -> Value {
        self.to_string().into()
    }
}

impl Show for HeaderName {
    fn show(&self) -> Value {
        self.as_str().into()
    }
}

impl Show for HttpStack {
    fn show(&self) -> Value {
        self.as_str().into()
    }
}

impl Show for Tier {
    fn show(&self) -> Value {
        self.as_str().into()
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self) -> Value {
        self.as_ref().map_or(Value::Null, Show::show)
    }
}

impl<T: Show> Show for Vec<T> {
    fn show(&self) -> Value {
        self.iter().map(Show::show).collect()
    }
}

impl<K: AsRef<str>, T: Show> Show for Vec<(K, T)> {
    fn show(&self) -> Value {
        let sorted: BTreeMap<&str, _> =
            self.iter().map(|(key, value)| (key.as_ref(), value.show())).collect();
        json!(sorted)
    }
}

impl<T: Show> Show for BTreeMap<String, T> {
    fn show(&self) -> Value {
        self.iter().map(|(key, value)| (key.clone(), value.show())).collect()
    }
}

impl Show for HashSet<String> {
    fn show(&self) -> Value {
        json!(self.iter().collect::<BTreeSet<_>>())
    }
}

impl Show for IssuerConfig {
    fn show(&self) -> Value {
        let issuer = &self.issuer;
        let grant = |grant: &identity::Grant| json!({"claim": grant.claim, "value": grant.value, "level": grant.level, "roles": grant.roles});
        let algorithms: Vec<_> = issuer.algorithms.iter().map(|it| it.as_str()).collect();
        let orgs = issuer.orgs.as_ref();
        json!({
            "name": issuer.name,
            "issuer": issuer.issuer,
            "jwks": self.jwks.as_deref().map(without_query),
            "algorithms": algorithms,
            "org": issuer.org.to_string(),
            "org_claim": orgs.map(|(claim, _)| claim),
            "orgs": orgs.map(|(_, orgs)| {
                let named = orgs.iter().map(|(value, org)| (value, org.to_string()));
                named.collect::<BTreeMap<_, _>>()
            }),
            "subject": issuer.subject,
            "person": issuer.person,
            "max_lifetime": format!("{}m", issuer.longest / 60_000),
            "grants": issuer.grants.iter().map(grant).collect::<Vec<_>>(),
        })
    }
}

impl Show for Sharing {
    fn show(&self) -> Value {
        json!(self.0)
    }
}
