//! What is said of plugins.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Size, TrustWord};
use crate::field::Field;

/// Plugins: folders with a `manifest.json`, whose tools run in a process of their own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Plugins {
    /// Folders in which each folder with a `manifest.json` is a plugin. They are watched.
    pub(crate) folders: Field<Vec<Field<String>>>,
    /// How far plugins are trusted not to change their tools: with `first_use` and `review` a changed
    /// folder is not called until someone has looked at it. Default: `full`.
    pub(crate) trust: Field<TrustWord>,
    /// Where settings are kept, a file `PLUGIN.json` each. Default: `tool_settings` in the data directory.
    pub(crate) settings: Field<String>,
    /// The interpreter of Python plugins. Default: the system's `python3`.
    pub(crate) python: Field<String>,
    /// By name of a plugin: what it is given of what its manifest asks for. Default: nothing.
    pub(crate) grants: Field<BTreeMap<String, Field<Grant>>>,
}

/// What a plugin is given, where its manifest asks for it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Grant {
    /// Folders that it may read.
    pub(crate) read: Field<Vec<Field<String>>>,
    /// The one folder that it may write to.
    pub(crate) write: Field<String>,
    /// Hosts that Toolkeep asks for it: `docs.rs`, `*.example.org`, `*` for all public ones, or an origin
    /// such as `http://127.0.0.1:8888`, which alone may be on this machine or in a private network.
    pub(crate) network: Field<Vec<Field<String>>>,
    /// Folders with programs that it may run, beside the system's.
    pub(crate) programs: Field<Vec<Field<String>>>,
    /// Most memory of all its processes, such as `2GiB`. Default: `1GiB`.
    pub(crate) memory: Field<Size>,
}
