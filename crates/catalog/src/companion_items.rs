//! Companion items of a source: instructions, prompts, resources, templates, skills and event
//! types, each pinned like a tool under a name of its own.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};
use tool::{CatalogItem, Digest, EventType, Json, Prompt, Resource, Skill, ToolName};

use crate::companion_lookup::own_item_name;
use crate::definition_digest::definition_digest;

/// A companion item as received.
#[derive(Debug, Clone)]
pub struct CompanionItem {
    /// Name under which it is pinned: `mcp.instructions`, `mcp.prompt.NAME`, `mcp.resource.HASH`,
    /// `mcp.skill.HASH`, `mcp.event.NAME`.
    pub pin_name: ToolName,
    /// Hash of the definition as received.
    pub definition_digest: Digest,
    /// The definition as received.
    pub raw_definition: Json,
    /// True if it contains invisible characters.
    pub has_invisible_chars: bool,
    /// Content with invisible characters escaped.
    pub(crate) content: CompanionContent,
}

/// Content of a companion item.
#[derive(Debug, Clone)]
pub(crate) enum CompanionContent {
    /// Instructions, which are part of the source's initialize result.
    Instructions,
    Prompt(Prompt),
    Resource(Resource),
    Skill(Skill),
    Event(EventType),
}

/// Returns the pin name of an item. A name that is too long or not a valid tool name is replaced by
/// its hash.
fn companion_pin_name(kind: &str, own: &str) -> Option<ToolName> {
    let plain = ToolName::new(format!("mcp.{kind}.{own}"));
    plain.or_else(|_| ToolName::new(format!("mcp.{kind}.{}", short_hash(own)))).ok()
}

fn short_hash(own: &str) -> String {
    let hash = Digest(Sha256::digest(own).into()).to_string();
    hash.chars().skip(7).take(32).collect()
}

impl CompanionItem {
    fn new(pin: ToolName, received: Json, shown: impl FnOnce(Json) -> CompanionContent) -> Self {
        let visible = received.escape_invisible_in_definition();
        let (definition, hidden) = (definition_digest(&received), visible.is_some());
        let shown = shown(visible.unwrap_or_else(|| received.clone()));
        Self {
            pin_name: pin,
            definition_digest: definition,
            raw_definition: received,
            has_invisible_chars: hidden,
            content: shown,
        }
    }

    /// Extracts the instructions from the source's initialize result, if it has any.
    pub(crate) fn from_instructions(initialize_result: &Json) -> Option<Self> {
        let text = initialize_result.get("instructions").filter(|text| text.kind() == "string")?;
        let received = Json::object_from([("instructions", &text)]);
        let pin = ToolName::new("mcp.instructions").ok()?;
        Some(Self::new(pin, received, |_| CompanionContent::Instructions))
    }

    /// Returns the companion item of an offer; `None` for tools and methods.
    pub(crate) fn from_item(item: CatalogItem) -> Option<Self> {
        match item {
            CatalogItem::Prompt(prompt) => Self::from_prompt(prompt),
            CatalogItem::Resource(resource) => Self::from_resource(resource),
            CatalogItem::Skill(skill) => Self::from_skill(skill),
            CatalogItem::Event(event) => Self::from_event(event),
            CatalogItem::Tool(_) | CatalogItem::Method(_) => None,
        }
    }

    /// Returns its kind, and its name or URI at the source; `None` for instructions and event types,
    /// which no toolset contains.
    pub fn kind_and_name(&self) -> Option<(&'static str, Cow<'_, str>)> {
        match &self.content {
            CompanionContent::Prompt(prompt) => {
                Some(("prompt", Cow::Owned(own_item_name(&prompt.raw_definition).into())))
            }
            CompanionContent::Resource(resource) => {
                Some(("resource", Cow::Borrowed(&resource.uri)))
            }
            CompanionContent::Skill(skill) => Some(("skill", Cow::Borrowed(&skill.uri))),
            CompanionContent::Instructions | CompanionContent::Event(_) => None,
        }
    }

    fn from_prompt(prompt: Prompt) -> Option<Self> {
        let pin = companion_pin_name("prompt", prompt.name.as_str())?;
        let name = prompt.name;
        Some(Self::new(pin, prompt.raw_definition, |received| {
            CompanionContent::Prompt(Prompt { name, raw_definition: received })
        }))
    }

    fn from_resource(resource: Resource) -> Option<Self> {
        let kind = if resource.is_template { "template" } else { "resource" };
        let pin = companion_pin_name(kind, &resource.uri)?;
        let Resource { uri, is_template: template, raw_definition: received } = resource;
        let shown = |received| {
            CompanionContent::Resource(Resource {
                uri,
                is_template: template,
                raw_definition: received,
            })
        };
        Some(Self::new(pin, received, shown))
    }

    fn from_event(event: EventType) -> Option<Self> {
        let pin = companion_pin_name("event", event.name.as_str())?;
        let EventType { name, delivery, raw_definition: received } = event;
        let shown =
            |raw_definition| CompanionContent::Event(EventType { name, delivery, raw_definition });
        Some(Self::new(pin, received, shown))
    }

    /// The pin covers the digest of each file, since the entry contains them.
    fn from_skill(skill: Skill) -> Option<Self> {
        let pin = companion_pin_name("skill", &skill.uri)?;
        let Skill { uri, files, raw_definition: received } = skill;
        let shown = |raw_definition| CompanionContent::Skill(Skill { uri, files, raw_definition });
        Some(Self::new(pin, received, shown))
    }
}
