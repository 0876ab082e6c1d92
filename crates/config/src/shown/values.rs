//! How values of other crates' types are shown.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use egress::{HttpStack, Origin};
use http::HeaderName;
use ledger::Keep;
use node_addresses::{Addresses, Sharing};
use option_types::{Bounds, Grant, PackageLimits};
use sandbox::Tier;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tool::Secret;
use tool_manifest::Narrowing;
use url::Url;

use super::HIDDEN;
use crate::high::{IssuerConfig, Tools};

/// A value as the file writes it, without secrets.
pub(crate) trait Show {
    fn show(&self) -> Value;
}

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
pub(super) fn without_query(text: &str) -> String {
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

impl Show for Sharing {
    fn show(&self) -> Value {
        json!(self.0)
    }
}

impl Show for Addresses {
    fn show(&self) -> Value {
        let Self { nodes, insecure_ok, pattern } = self;
        json!({"addresses": nodes, "insecure_ok": insecure_ok, "pattern": pattern})
    }
}

impl Show for Bounds {
    fn show(&self) -> Value {
        let Self { calls, per_key, per_source, per_key_and_source } = self;
        json!({
            "calls": calls,
            "calls_per_key": per_key,
            "calls_per_source": per_source,
            "calls_per_key_and_source": per_key_and_source,
        })
    }
}

impl Show for Keep {
    fn show(&self) -> Value {
        let hours = |age: Duration| format!("{}h", age.as_secs() / 3_600);
        json!({"age": self.age.map(hours), "bytes": self.bytes})
    }
}

impl Show for PackageLimits {
    fn show(&self) -> Value {
        let Self { total, per_organisation } = self;
        json!({"bytes": total, "bytes_per_organisation": per_organisation})
    }
}

impl Show for Grant {
    fn show(&self) -> Value {
        let Self { read, write, network, programs, memory } = self;
        json!({
            "read": read.show(),
            "write": write.show(),
            "network": network,
            "programs": programs.show(),
            "memory": memory.map(|mib| format!("{mib}MiB")),
        })
    }
}

impl Show for Narrowing {
    fn show(&self) -> Value {
        let Self { off, safety, level, destructive, chain, timeout, arguments, maximum } = self;
        json!({
            "enabled": off.then_some(false),
            "safety": safety,
            "required_permission": level,
            "destructive": destructive,
            "chain": chain,
            "timeout": timeout.show(),
            "arguments": arguments,
            "maximum": maximum,
        })
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

impl Serialize for Tools {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_bool(true),
            Self::Named(names) => names.serialize(serializer),
        }
    }
}
