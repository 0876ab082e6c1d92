//! What is said of the record.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::Field;

/// The record of all calls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Records {
    /// Signed checkpoints, by which changes of the record are found.
    pub(in crate::config) checkpoints: Field<Checkpoints>,
}

/// Signed checkpoints.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Checkpoints {
    /// A file to which they are appended as well, once a minute at most: on another disk, or a mount of
    /// another machine. An end that was cut off the record is found against it alone.
    pub(in crate::config) also: Field<String>,
}
