//! What a source offers beside its tools, and a model or its user reads as well: instructions, prompts,
//! resources and templates. Each is pinned as a tool is, under a name of its own.

use sha2::{Digest as _, Sha256};
use tool::{Digest, Json, Prompt, Resource, ToolName};

use crate::canonical::digest;

/// One of them, as it was received.
#[derive(Debug, Clone)]
pub struct Beside {
    /// Under which name it is pinned: `mcp.instructions`, `mcp.prompt.NAME`, `mcp.resource.HASH`.
    pub pin: ToolName,
    /// Hash of the definition as received.
    pub definition: Digest,
    /// The definition as received.
    pub received: Json,
    /// Whether it holds characters that nobody sees.
    pub hidden: bool,
    /// With those written out.
    pub(crate) shown: Shown,
}

/// As it is shown.
#[derive(Debug, Clone)]
pub(crate) enum Shown {
    /// They are a part of what the source says of itself.
    Instructions,
    Prompt(Prompt),
    Resource(Resource),
}

/// A name for the pin of what has this name at its source. What is no name of a tool, or too long, is
/// known by its hash; the definition says the rest.
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

    /// The instructions in what a source says of itself, where there are any.
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
