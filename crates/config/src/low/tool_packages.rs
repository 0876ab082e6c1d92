//! The catalogue of tool packages.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Size;
use crate::field::Field;

/// The tool packages under `/catalogue`. Limits count after a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ToolPackages {
    /// Most bytes that all unpacked packages take in the data directory, such as `20GiB`; at least
    /// `1MiB`. Default: `4GiB`.
    pub(crate) bytes: Field<Size>,
    /// Most bytes that the unpacked packages of one organisation take; at least `1MiB`. Default: `4GiB`.
    pub(crate) bytes_per_organisation: Field<Size>,
}
