//! What is said of the built-in tools.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{SafetyWord, Size};
use crate::field::Field;

/// The built-in tools: what they may reach, and what each may do less than it is shipped with.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Builtins {
    /// Folders that the file tools use; a relative path begins in the first. Default: the folders of
    /// `policy.permissions.filesystem.allowed_paths`, else `work` in the data directory.
    pub(crate) roots: Field<Vec<Field<Folder>>>,
    /// Where `web_search` searches. Default: DuckDuckGo.
    pub(crate) search: Field<Search>,
    /// The Wikipedia of `fetch_wikipedia`. Default: `https://en.wikipedia.org`.
    pub(crate) wikipedia: Field<String>,
    /// Where `toolkeep model install` downloads from, with the same paths as the public hub. Default:
    /// `https://huggingface.co`.
    pub(crate) model_mirror: Field<String>,
    /// By name of a tool: what is taken from it. What it is, takes and gives cannot be changed.
    pub(crate) tools: Field<BTreeMap<String, Field<Narrowing>>>,
}

/// A folder for the file tools.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["path"]))]
pub(crate) struct Folder {
    /// The folder.
    pub(crate) path: Field<String>,
    /// Whether it may be written to.
    pub(crate) write: Field<bool>,
    /// Files and folders in it that are not there for tools, relative to it.
    pub(crate) protect: Field<Vec<Field<String>>>,
}

/// A search engine: exactly one of these.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct Search {
    /// Address of a SearXNG that gives JSON, such as `http://127.0.0.1:8888`.
    pub(crate) searxng: Field<String>,
    /// Another address of DuckDuckGo's HTML page.
    pub(crate) duckduckgo: Field<String>,
}

/// What is taken from a tool. Nothing here gives it more.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Narrowing {
    /// `false`: it is not offered.
    pub(crate) enabled: Field<bool>,
    /// A higher one than it has.
    pub(crate) safety: Field<SafetyWord>,
    /// A higher one than it has: `guest`, `user`, `admin` or `owner`.
    pub(crate) required_permission: Field<String>,
    /// `true`: each call needs an approval.
    pub(crate) destructive: Field<bool>,
    /// `false`: programs may not call it.
    pub(crate) chain: Field<bool>,
    /// A shorter time for one call than it has.
    pub(crate) timeout: Field<String>,
    /// Less text in its arguments than it takes, such as `1MiB`.
    pub(crate) arguments: Field<Size>,
    /// By name of a parameter that is a number: a lower maximum than it has.
    pub(crate) maximum: Field<BTreeMap<String, Field<u64>>>,
}
