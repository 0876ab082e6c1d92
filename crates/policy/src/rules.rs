//! The operator's rules.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tool::{Digest, Json, Safety};

use crate::Pattern;

/// What the operator allows. Absent means: no rule. An empty list means: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The most dangerous a tool may be.
    #[serde(default)]
    pub safety_limit: Option<Safety>,
    /// A tool must be in one of these.
    #[serde(default)]
    pub categories: Option<Vec<String>>,
    /// A tool must fit one of these.
    #[serde(default)]
    pub allow: Option<Vec<Pattern>>,
    /// A tool must fit none of these. Wins over everything.
    #[serde(default)]
    pub deny: Vec<Pattern>,
}

impl Rules {
    /// SHA-256 over the rules as serde writes them: the same rules, the same value.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(b"toolkeep policy 1\n");
        hash.update(Json::of(self).bytes());
        Digest(hash.finalize().into())
    }
}
