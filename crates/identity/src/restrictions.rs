//! Restrictions of a caller: by delegation, and by its own request. They never grant anything.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Restrictions of a delegated key. Stored delegations are parsed strictly: a record with an
/// unknown field is invalid rather than too broad.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyDelegation {
    /// Id of the delegating key.
    #[serde(rename = "by")]
    pub delegated_by: String,
    /// Patterns and groups of the allowed tools; `None` is no limit, an empty list allows none.
    #[serde(rename = "allow")]
    pub allowed_tools: Option<Vec<String>>,
    /// Patterns and groups of the denied tools.
    #[serde(rename = "deny")]
    pub denied_tools: Vec<String>,
    /// True if tools with effects are denied.
    #[serde(rename = "read_only")]
    pub is_read_only: bool,
    /// True if tools that use the network are denied.
    #[serde(rename = "no_web")]
    pub denies_network: bool,
    /// True if the key was created with its own subject, roles and persona, rather than delegated.
    /// It is still bound to its creator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "created")]
    pub is_created_key: bool,
}

/// Restrictions that a caller sets for one request. Pending calls and programs store them; like a
/// delegation, they are parsed strictly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestRestrictions {
    /// True if tools with effects are denied.
    #[serde(rename = "read_only")]
    pub is_read_only: bool,
    /// True if tools that use the network are denied.
    #[serde(rename = "no_web")]
    pub denies_network: bool,
    /// Task type, for the policy's task layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// Toolsets, outside of which nothing exists for the caller; empty for no limit. Two different
    /// toolsets have nothing in common.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub toolsets: BTreeSet<String>,
}

impl RequestRestrictions {
    /// Restricts a request to one toolset.
    pub fn to_toolset(name: impl Into<String>) -> Self {
        Self { toolsets: BTreeSet::from([name.into()]), ..Self::default() }
    }

    /// Returns the union: a flag or toolset of either counts, and an existing task type stays.
    #[must_use]
    pub fn union(&self, further: &Self) -> Self {
        Self {
            is_read_only: self.is_read_only || further.is_read_only,
            denies_network: self.denies_network || further.denies_network,
            task_type: self.task_type.clone().or_else(|| further.task_type.clone()),
            toolsets: self.toolsets.union(&further.toolsets).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tool::WallTime;

    use super::{KeyDelegation, RequestRestrictions};
    use crate::{KeyId, KeyRing, NewKey, Principal};

    fn ann() -> Principal {
        let new = NewKey::for_user(KeyId::new("k").unwrap(), "ann");
        let (secret, record) = new.issue_key([1; 32], WallTime(1)).unwrap();
        KeyRing::new([record]).verify_key(Some(secret.expose()), WallTime(2)).unwrap()
    }

    fn narrowing(read_only: bool, no_web: bool, task_type: Option<&str>) -> RequestRestrictions {
        RequestRestrictions {
            is_read_only: read_only,
            denies_network: no_web,
            task_type: task_type.map(str::to_owned),
            toolsets: BTreeSet::new(),
        }
    }

    #[test]
    fn what_a_caller_took_from_itself_stays_taken() {
        let chat = ann().with_restrictions(&narrowing(true, false, Some("chat")));
        assert_eq!(chat.rights_class().restrictions(), &narrowing(true, false, Some("chat")));
        let more = chat.with_restrictions(&narrowing(false, true, Some("coding")));
        assert_eq!(more.rights_class().restrictions(), &narrowing(true, true, Some("chat")));
        let same = more.with_restrictions(&RequestRestrictions::default());
        assert_eq!(same, more);
    }

    #[test]
    fn a_narrowed_caller_is_the_same_caller_of_another_class() {
        let (ann, narrowed) = (ann(), ann().with_restrictions(&narrowing(true, false, None)));
        assert_eq!(ann.caller(), narrowed.caller());
        assert_ne!(ann.rights_class(), narrowed.rights_class());
        assert!(ann.rights_class().delegations().is_empty());
        // Lowering keeps what was taken.
        let lowered = narrowed.with_max_level(tool::PermissionLevel::Guest);
        assert!(lowered.rights_class().restrictions().is_read_only);
    }

    #[test]
    fn stored_restrictions_keep_their_names_and_allow_a_task_type_of_null() {
        let text = |it: &RequestRestrictions| serde_json::to_string(it).unwrap();
        let parse = |text: &str| serde_json::from_str::<RequestRestrictions>(text);
        assert_eq!(
            text(&narrowing(true, false, Some("chat"))),
            r#"{"read_only":true,"no_web":false,"task_type":"chat"}"#
        );
        assert_eq!(text(&narrowing(false, true, None)), r#"{"read_only":false,"no_web":true}"#);
        // Programs stored `null` before.
        let stored = parse(r#"{"read_only":false,"no_web":true,"task_type":null}"#).unwrap();
        assert_eq!(stored, narrowing(false, true, None));
        assert!(parse(r#"{"read_only":false,"no_web":true,"no_shell":true}"#).is_err());
        assert!(parse(r#"{"no_web":true}"#).is_err());
        let toolset = RequestRestrictions::to_toolset("support");
        let stored = r#"{"read_only":false,"no_web":false,"toolsets":["support"]}"#;
        assert_eq!((text(&toolset).as_str(), parse(stored).unwrap()), (stored, toolset));
    }

    #[test]
    fn a_record_with_a_delegation_that_is_not_understood_does_not_hold() {
        let (secret, mut record) = NewKey::for_user(KeyId::new("k").unwrap(), "ann")
            .issue_key([1; 32], WallTime(1))
            .unwrap();
        record.delegations =
            vec![KeyDelegation { delegated_by: "p".to_owned(), ..KeyDelegation::default() }];
        let good = serde_json::to_string(&record).unwrap();
        let bad = good.replace(r#""no_web":false"#, r#""no_web":false,"no_shell":true"#);
        let by = NewKey::for_user(KeyId::new("p").unwrap(), "ann")
            .issue_key([2; 32], WallTime(1))
            .unwrap()
            .1;
        let by = serde_json::to_string(&by).unwrap();
        let verify = |text: &str| {
            let stored = [("key/k", text.as_bytes()), ("key/p", by.as_bytes())];
            let (ring, _) = KeyRing::parse_rows(stored, crate::PersonaSet::default());
            ring.verify_key(Some(secret.expose()), WallTime(2))
        };
        assert_eq!(verify(&good).unwrap().rights_class().delegations(), record.delegations);
        assert!(good != bad && verify(&bad).is_err());
    }
}
