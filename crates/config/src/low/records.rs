//! What is said of the record.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Size;
use crate::field::Field;

/// The record of all calls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Records {
    /// Signed checkpoints, by which changes of the record are found.
    pub(crate) checkpoints: Field<Checkpoints>,
    /// How much of the record is kept. Default: all of it.
    pub(crate) keep: Field<Keep>,
    /// A file of the record is closed when it has so many bytes, such as `64MiB`; 64 KiB to 1 GiB. What
    /// is not kept goes by whole files. Counts after a restart. Default: `64MiB`.
    pub(crate) file: Field<Size>,
}

/// How much of the record is kept. Whole files go, oldest first; a signed tombstone stays in the place of
/// each, by which all that is left can still be checked.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Keep {
    /// Files whose records are all older than this go, such as `90d`; at least `1h`.
    pub(crate) age: Field<String>,
    /// Where all files together have more bytes than this, the oldest go, such as `20GiB`; at least `1MiB`.
    pub(crate) bytes: Field<Size>,
}

/// Signed checkpoints.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Checkpoints {
    /// A file to which they are appended as well, once a minute at most: on another disk, or a mount of
    /// another machine. An end that was cut off the record is found against it alone.
    pub(crate) also: Field<String>,
}
