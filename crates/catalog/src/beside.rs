//! Companion items of a source: instructions, prompts, resources and templates, each pinned like a
//! tool under a name of its own.

use sha2::{Digest as _, Sha256};
use tool::{Digest, Json, Prompt, Resource, ToolName};

use crate::canonical::digest;

/// A companion item as received.
#[derive(Debug, Clone)]
pub struct Beside {
    /// Name under which it is pinned: `mcp.instructions`, `mcp.prompt.NAME`, `mcp.resource.HASH`.
    pub pin: ToolName,
    /// Hash of the definition as received.
    pub definition: Digest,
    /// The definition as received.
    pub received: Json,
    /// True if it contains invisible characters.
    pub hidden: bool,
    /// Content with invisible characters escaped.
    pub(crate) shown: Shown,
}

/// Content of a companion item.
#[derive(Debug, Clone)]
pub(crate) enum Shown {
    /// Instructions, which are part of the source's initialize result.
    Instructions,
    Prompt(Prompt),
    Resource(Resource),
}

/// Returns the pin name of an item. A name that is too long or not a valid tool name is replaced by
/// its hash.
fn named(kind: &str, own: &str) -> Option<ToolName> {
    let plain = ToolName::new(format!("mcp.{kind}.{own}"));
    plain.or_else(|_| ToolName::new(format!("mcp.{kind}.{}", short(own)))).ok()
}

fn short(own: &str) -> String {
    let hash = Digest(Sha256::digest(own).into()).to_string();
    hash.chars().skip(7).take(32).collect()
}

impl Beside {
    fn new(pin: ToolName, received: Json, shown: impl FnOnce(Json) -> Shown) -> Self {
        let visible = received.definition_made_visible();
        let (definition, hidden) = (digest(&received), visible.is_some());
        let shown = shown(visible.unwrap_or_else(|| received.clone()));
        Self { pin, definition, received, hidden, shown }
    }

    /// Extracts the instructions from the source's initialize result, if it has any.
    pub(crate) fn instructions(about: &Json) -> Option<Self> {
        let text = about.get("instructions").filter(|text| text.kind() == "string")?;
        let received = Json::fields([("instructions", &text)]);
        let pin = ToolName::new("mcp.instructions").ok()?;
        Some(Self::new(pin, received, |_| Shown::Instructions))
    }

    pub(crate) fn prompt(prompt: Prompt) -> Option<Self> {
        let pin = named("prompt", prompt.name.as_str())?;
        let name = prompt.name;
        Some(Self::new(pin, prompt.received, |received| Shown::Prompt(Prompt { name, received })))
    }

    pub(crate) fn resource(resource: Resource) -> Option<Self> {
        let kind = if resource.template { "template" } else { "resource" };
        let pin = named(kind, &resource.uri)?;
        let Resource { uri, template, received } = resource;
        let shown = |received| Shown::Resource(Resource { uri, template, received });
        Some(Self::new(pin, received, shown))
    }
}
