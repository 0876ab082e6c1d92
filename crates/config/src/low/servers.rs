//! Settings of one server of a file with `mcpServers`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Names, Size, TrustWord, Which};
use crate::field::Field;

/// What holds for one server of the file beside or instead of what holds for all of them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerSettings {
    /// Whether its tools take long: a call then has 120 seconds instead of 30.
    pub(crate) slow: Field<bool>,
    /// How far it is trusted not to change its tools.
    pub(crate) trust: Field<TrustWord>,
    /// Whether it is trusted in what the annotations of its tools say.
    pub(crate) trust_annotations: Field<bool>,
    /// Tools that are not offered.
    pub(crate) disabled_tools: Field<Names>,
    /// Tools that change nothing, by your word: `true` for all, or their names.
    pub(crate) read_only: Field<Which>,
    /// Tools that destroy what cannot be had back, by your word: `true` for all, their names, `false` for
    /// none.
    pub(crate) destructive: Field<Which>,
    /// Tools that may run twice with the effect of once, by your word: `true` for all, or their
    /// names.
    pub(crate) idempotent: Field<Which>,
    /// Tools that programs may call too: `true` for all, or their names.
    pub(crate) chain: Field<Which>,
    /// Time for one call, such as `30s`, `500ms` or `2m`.
    pub(crate) timeout: Field<String>,
    /// Time for one start, from `1ms` to `1h`.
    pub(crate) startup_timeout: Field<String>,
    /// The largest message that it may send, such as `64MiB`.
    pub(crate) max_message: Field<Size>,
}
