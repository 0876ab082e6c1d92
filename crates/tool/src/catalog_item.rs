//! Defines the catalog items that a source offers: tools, prompts, resources and methods of MCP.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Json, ToolName, ToolTraits};

/// A SHA-256 digest. Serialised as text in human-readable formats such as JSON, and as 32 bytes in
/// others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Passes the digest as text to a function.
    pub fn with_str<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        read(std::str::from_utf8(&self.as_ascii()).unwrap_or_default())
    }

    /// Returns the bytes of its text form without formatting or allocation.
    fn as_ascii(&self) -> [u8; 71] {
        // Without a table and without a jump: the compiler writes many digits at once.
        let hex = |half: u8| half + if half < 10 { b'0' } else { b'a' - 10 };
        let mut text = *b"sha256:0000000000000000000000000000000000000000000000000000000000000000";
        let (_, digits) = text.split_at_mut(7);
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[hex(byte >> 4), hex(byte & 15)]);
        }
        text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_str(|text| f.write_str(text))
    }
}
impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.with_str(|text| serializer.serialize_str(text))
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}
impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(DigestVisitor::Text)
        } else {
            deserializer.deserialize_bytes(DigestVisitor::Bytes)
        }
    }
}

/// Deserialises a digest from the expected form; the other form is accepted too.
enum DigestVisitor {
    Text,
    Bytes,
}

impl Visitor<'_> for DigestVisitor {
    type Value = Digest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "`sha256:` and 64 hexadecimal digits",
            Self::Bytes => "32 bytes",
        })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Digest, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Digest, E> {
        let bytes = bytes.try_into();
        bytes.map(Digest).map_err(|_| E::custom("a digest that does not have 32 bytes"))
    }
}
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl FromStr for Digest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64);
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let pair = hex.and_then(|hex| hex.get(index * 2..index * 2 + 2));
            *byte = pair
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .ok_or_else(|| format!("`{text}` is not `sha256:` and 64 hexadecimal digits"))?;
        }
        Ok(Self(bytes))
    }
}

/// Definition of a tool, in one form for all kinds of sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Name as given by its source.
    pub name: ToolName,
    /// A title for people.
    pub title: Option<String>,
    /// Description for the model.
    pub description: String,
    /// JSON Schema 2020-12 of its arguments; an object.
    pub input_schema: Json,
    /// JSON Schema of its structured result, if it has one.
    pub output_schema: Option<Json>,
    /// Traits on which policy decides.
    pub traits: ToolTraits,
    /// Complete definition as received: it is hashed for pins and passed on unchanged.
    pub raw_definition: Json,
}

impl Tool {
    /// Creates a tool of an embedding program from its name, description and the JSON Schema of its
    /// arguments. Its traits are the defaults; set them before it is registered.
    pub fn new(name: ToolName, description: impl Into<String>, input_schema: Json) -> Self {
        let description = description.into();
        let received = Json::object_from([
            ("name", &Json::encode(name.as_str())),
            ("description", &Json::encode(&description)),
            ("inputSchema", &input_schema),
        ]);
        Self {
            name,
            title: None,
            description,
            input_schema,
            output_schema: None,
            traits: ToolTraits::default(),
            raw_definition: received,
        }
    }
}

/// A prompt of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Name of the prompt.
    pub name: ToolName,
    /// The definition as received.
    pub raw_definition: Json,
}

/// A resource, or a template of resources, of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its URI, or its URI template.
    pub uri: String,
    /// True if `uri` is a template.
    pub is_template: bool,
    /// The definition as received.
    pub raw_definition: Json,
}

/// A skill of an MCP server: instructions for agents, in files that are resources (SEP-2640).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The URI of its `SKILL.md`.
    pub uri: String,
    /// All its files; `None` if their content is generated, so that it has no digests.
    pub files: Option<Vec<SkillFile>>,
    /// The entry as received, with all digests.
    pub raw_definition: Json,
}

/// One file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    /// The URI of the file.
    pub uri: String,
    /// The SHA-256 digest of its content.
    pub digest: Digest,
    /// The size of its content, in bytes.
    pub size: u64,
}

impl Skill {
    /// Returns the URI of its directory, without a trailing slash.
    pub fn directory(&self) -> &str {
        self.uri.strip_suffix("/SKILL.md").unwrap_or(&self.uri)
    }
}

/// An event type of an MCP server, to which clients subscribe (SEP-3415).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    /// Its name in the catalog: `SOURCE.NAME`.
    pub name: ToolName,
    /// How its server delivers the events.
    pub delivery: EventDelivery,
    /// The definition as received.
    pub raw_definition: Json,
}

/// The ways in which a server delivers events of one type to a gateway. Webhooks are none: the server
/// would call an address of its client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventDelivery {
    /// True if `events/poll` returns them.
    pub has_poll: bool,
    /// True if `events/stream` sends them.
    pub has_push: bool,
}

/// An MCP method that a source offers besides its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpMethod {
    /// Name under which it is offered, which appears in policies and records.
    pub name: &'static str,
    /// MCP's name of the method.
    pub method: &'static str,
}

/// All MCP methods that are offered.
pub const MCP_METHODS: [McpMethod; 8] = [
    McpMethod { name: "mcp.prompts.get", method: "prompts/get" },
    McpMethod { name: "mcp.resources.read", method: "resources/read" },
    McpMethod { name: "mcp.resources.directory.read", method: "resources/directory/read" },
    McpMethod { name: "mcp.resources.subscribe", method: "resources/subscribe" },
    McpMethod { name: "mcp.completion.complete", method: "completion/complete" },
    McpMethod { name: "mcp.logging.setLevel", method: "logging/setLevel" },
    McpMethod { name: "mcp.events.poll", method: "events/poll" },
    McpMethod { name: "mcp.events.stream", method: "events/stream" },
];

/// An item of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogItem {
    /// A tool that can be called.
    Tool(Arc<Tool>),
    /// A prompt of an MCP server.
    Prompt(Prompt),
    /// A resource or a template.
    Resource(Resource),
    /// A skill of an MCP server.
    Skill(Skill),
    /// An event type of an MCP server.
    Event(EventType),
    /// An MCP method that the source answers besides tool calls, such as `prompts/get`. Its `name`
    /// is one of [`MCP_METHODS`]; it is called like a tool, and never listed as one.
    Method(Arc<Tool>),
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn digests_read_back() {
        let digest = Digest(std::array::from_fn(|i| u8::try_from(i * 7 % 256).unwrap()));
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!(digest.to_string().starts_with("sha256:00070e15"));
        assert_eq!(serde_json::to_string(&digest).unwrap(), format!("\"{digest}\""));
        for bad in ["", "sha256:00", "sha256:zz", &format!("sha256:{}é", "0".repeat(62))] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
