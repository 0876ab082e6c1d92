//! Restrictions of a caller: by delegation, and by its own request. They never grant anything.

use serde::{Deserialize, Serialize};

/// Restrictions of a delegated key. Stored delegations are parsed strictly: a record with an
/// unknown field is invalid rather than too broad.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delegation {
    /// Id of the delegating key.
    pub by: String,
    /// Patterns and groups of the allowed tools; `None` is no limit, an empty list allows none.
    pub allow: Option<Vec<String>>,
    /// Patterns and groups of the denied tools.
    pub deny: Vec<String>,
    /// True if tools with effects are denied.
    pub read_only: bool,
    /// True if tools that use the network are denied.
    pub no_web: bool,
    /// True if the key was created with its own subject, roles and persona, rather than delegated.
    /// It is still bound to its creator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
}

/// Restrictions that a caller sets for one request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Narrowing {
    /// True if tools with effects are denied.
    pub read_only: bool,
    /// True if tools that use the network are denied.
    pub no_web: bool,
    /// Task type, for the policy's task layer.
    pub task_type: Option<String>,
}

impl Narrowing {
    /// Returns the union: a flag of either counts, and an existing task type stays.
    #[must_use]
    pub fn and(&self, further: &Self) -> Self {
        Self {
            read_only: self.read_only || further.read_only,
            no_web: self.no_web || further.no_web,
            task_type: self.task_type.clone().or_else(|| further.task_type.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tool::Wall;

    use super::{Delegation, Narrowing};
    use crate::{KeyId, KeyRing, NewKey, Principal};

    fn ann() -> Principal {
        let new = NewKey::user(KeyId::new("k").unwrap(), "ann");
        let (secret, record) = new.issue([1; 32], Wall(1)).unwrap();
        KeyRing::new([record]).verify(Some(secret.open()), Wall(2)).unwrap()
    }

    fn narrowing(read_only: bool, no_web: bool, task_type: Option<&str>) -> Narrowing {
        Narrowing { read_only, no_web, task_type: task_type.map(str::to_owned) }
    }

    #[test]
    fn what_a_caller_took_from_itself_stays_taken() {
        let chat = ann().narrowed(&narrowing(true, false, Some("chat")));
        assert_eq!(chat.rights().narrowing(), &narrowing(true, false, Some("chat")));
        let more = chat.narrowed(&narrowing(false, true, Some("coding")));
        assert_eq!(more.rights().narrowing(), &narrowing(true, true, Some("chat")));
        let same = more.narrowed(&Narrowing::default());
        assert_eq!(same, more);
    }

    #[test]
    fn a_narrowed_caller_is_the_same_caller_of_another_class() {
        let (ann, narrowed) = (ann(), ann().narrowed(&narrowing(true, false, None)));
        assert_eq!(ann.caller(), narrowed.caller());
        assert_ne!(ann.rights(), narrowed.rights());
        assert!(ann.rights().delegations().is_empty());
        // Lowering keeps what was taken.
        let lowered = narrowed.lowered(tool::Level::Guest);
        assert!(lowered.rights().narrowing().read_only);
    }

    #[test]
    fn a_record_with_a_delegation_that_is_not_understood_does_not_hold() {
        let (secret, mut record) =
            NewKey::user(KeyId::new("k").unwrap(), "ann").issue([1; 32], Wall(1)).unwrap();
        record.delegations = vec![Delegation { by: "p".to_owned(), ..Delegation::default() }];
        let good = serde_json::to_string(&record).unwrap();
        let bad = good.replace(r#""no_web":false"#, r#""no_web":false,"no_shell":true"#);
        let by = NewKey::user(KeyId::new("p").unwrap(), "ann").issue([2; 32], Wall(1)).unwrap().1;
        let by = serde_json::to_string(&by).unwrap();
        let verify = |text: &str| {
            let stored = [("key/k", text.as_bytes()), ("key/p", by.as_bytes())];
            let (ring, _) = KeyRing::read(stored, crate::Personas::default());
            ring.verify(Some(secret.open()), Wall(2))
        };
        assert_eq!(verify(&good).unwrap().rights().delegations(), record.delegations);
        assert!(good != bad && verify(&bad).is_err());
    }
}
