//! Requests and replies about toolsets.

use std::collections::BTreeSet;

use catalog::pin::DefinitionChange;
use intake::ToolsetItemState;
use policy::ToolsetEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Digest, Json};

/// The toolsets that the caller may use; all, for those who may change them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolsetListReply {
    /// The toolsets, by name.
    pub toolsets: Vec<ToolsetReply>,
}

/// A toolset as its callers know it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolsetReply {
    /// Name of the toolset.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// Description for clients.
    pub description: String,
    /// Path of its MCP endpoint.
    pub path: String,
    /// Number of its tools that the caller may call; null if the caller may not use it.
    pub tools: Option<usize>,
    /// Its definition and owner; absent for callers who may only use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<ToolsetOwnerReply>,
}

/// The definition of a toolset and its state, for its owners.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolsetOwnerReply {
    /// Whether it is in the configuration file, so that it is changed there.
    pub configured: bool,
    /// Roles that may use it; `*` is every caller.
    pub roles: BTreeSet<String>,
    /// Patterns of its tools.
    pub tools: Vec<ToolsetEntryBody>,
    /// Patterns of its prompts.
    pub prompts: Vec<ToolsetEntryBody>,
    /// Patterns of its resources and templates.
    pub resources: Vec<ToolsetEntryBody>,
    /// Patterns of its skills.
    pub skills: Vec<ToolsetEntryBody>,
    /// Number of items that wait to be accepted.
    pub waiting: usize,
    /// Who accepted last.
    pub accepted_by: Option<String>,
    /// When that was, RFC 3339.
    pub accepted_at: Option<String>,
}

/// A toolset with its items.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolsetDetailReply {
    /// The toolset.
    #[serde(flatten)]
    pub toolset: ToolsetReply,
    /// Its items, by kind, source and name; absent for callers who may only use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ToolsetItemReply>>,
    /// Names the reviewed state of all items, to accept it; absent for callers who may only use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub revision: Option<Digest>,
}

/// An item that a toolset selects.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolsetItemReply {
    /// Kind: `tool`, `prompt`, `resource` or `skill`.
    pub kind: &'static str,
    /// Source of the item.
    pub source: String,
    /// Name or URI at the source.
    pub item: String,
    /// Pattern that selects it.
    pub pattern: String,
    /// State: `accepted`; `added` or `changed` (waits to be accepted); `removed` (no longer selected
    /// or listed).
    #[schemars(with = "String")]
    pub state: ToolsetItemState,
    /// Hash of the listed definition.
    #[schemars(with = "Option<String>")]
    pub definition: Option<Digest>,
    /// Hash of the accepted definition.
    #[schemars(with = "Option<String>")]
    pub accepted: Option<Digest>,
    /// Listed definition of an item that waits, with invisible characters escaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub received: Option<Json>,
    /// Differences from the accepted definition, field by field; empty if its text is not stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub changes: Vec<DefinitionChange>,
    /// Number of further differences.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_changes: usize,
}

/// A pattern, or an item with another name or text.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ToolsetEntryBody {
    /// A pattern.
    Pattern(String),
    /// An item with another name or text.
    Item(ToolsetItemBody),
}

/// An item that a toolset offers under another name or with other texts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolsetItemBody {
    /// The item as `SOURCE.NAME`.
    pub pattern: String,
    /// Name under which it is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Title instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The definition of a toolset.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PutToolsetBody {
    /// Title for people.
    pub title: String,
    /// Description, which MCP clients receive as instructions.
    pub description: String,
    /// Roles that may use it; `*` is every caller. Nobody may use one without roles.
    pub roles: BTreeSet<String>,
    /// Tools: patterns as in the policy, such as `docs.*`, or items with other names or texts.
    pub tools: Vec<ToolsetEntryBody>,
    /// Prompts: patterns of `SOURCE.NAME`, or items with other names or texts.
    pub prompts: Vec<ToolsetEntryBody>,
    /// Resources and templates: patterns of `SOURCE.URI`.
    pub resources: Vec<ToolsetEntryBody>,
    /// Skills: patterns of `SOURCE.URI`.
    pub skills: Vec<ToolsetEntryBody>,
}

/// The acceptance of the items of a toolset.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptToolsetBody {
    /// `revision` of the reviewed toolset.
    pub revision: String,
}

impl From<ToolsetEntryBody> for ToolsetEntry {
    fn from(entry: ToolsetEntryBody) -> Self {
        match entry {
            ToolsetEntryBody::Pattern(pattern) => Self::from_pattern(pattern),
            ToolsetEntryBody::Item(ToolsetItemBody { pattern, name, title, description }) => {
                Self { pattern, name, title, description }
            }
        }
    }
}

impl From<&ToolsetEntry> for ToolsetEntryBody {
    fn from(entry: &ToolsetEntry) -> Self {
        if !entry.has_overrides() {
            return Self::Pattern(entry.pattern.clone());
        }
        let ToolsetEntry { pattern, name, title, description } = entry.clone();
        Self::Item(ToolsetItemBody { pattern, name, title, description })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
