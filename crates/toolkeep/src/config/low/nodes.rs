//! What is said of nodes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TrustWord;
use crate::config::field::Field;

/// Tools on other machines. A node registers its tools by itself, with a key of its own; where it is
/// called is said here.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Nodes {
    /// Where each node is called, by its id: `http://HOST:PORT`. The port is 50051 where none is named.
    pub(in crate::config) addresses: Field<BTreeMap<String, Field<String>>>,
    /// Ids of nodes beyond this machine that may be called without TLS.
    pub(in crate::config) insecure_ok: Field<Vec<Field<String>>>,
    /// How far nodes are trusted not to change their tools. Default: `full`.
    pub(in crate::config) trust: Field<TrustWord>,
}
