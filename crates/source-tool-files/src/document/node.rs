//! Node of a parsed tool file with its line: from JSON text, whose bytes it shares, or from a YAML
//! tree.

use bytes::Bytes;
use tool::{Json, JsonError, JsonLimits, Problem};

use super::yaml_parser::{self, YamlNode};

/// Node of a tool file, with its line.
pub(super) struct DocumentNode {
    pub(super) line: usize,
    content: NodeContent,
}

enum NodeContent {
    Json { text: Json, file: Bytes },
    Yaml(YamlNode),
}

pub(super) enum NodeChildren {
    List(Vec<DocumentNode>),
    Mapping(Vec<(String, DocumentNode)>),
    Scalar,
}

impl DocumentNode {
    pub(super) fn kind(&self) -> &'static str {
        match &self.content {
            NodeContent::Json { text, .. } | NodeContent::Yaml(YamlNode::Json(text)) => text.kind(),
            NodeContent::Yaml(YamlNode::List(_)) => "array",
            NodeContent::Yaml(YamlNode::Mapping(_)) => "object",
        }
    }

    pub(super) fn into_children(self) -> NodeChildren {
        match self.content {
            NodeContent::Json { text, file } => {
                let mut lines = LineCounter { file: &file, offset: 0, line: 1 };
                let mut node = |text: Json| Self {
                    line: lines.line_of(&text),
                    content: NodeContent::Json { text, file: file.clone() },
                };
                match text.kind() {
                    "array" => NodeChildren::List(text.elements().into_iter().map(node).collect()),
                    "object" => NodeChildren::Mapping(
                        text.members().into_iter().map(|(key, text)| (key, node(text))).collect(),
                    ),
                    _ => NodeChildren::Scalar,
                }
            }
            NodeContent::Yaml(YamlNode::List(items)) => {
                let node =
                    |(line, text)| Self { line, content: NodeContent::Yaml(YamlNode::Json(text)) };
                NodeChildren::List(items.into_iter().map(node).collect())
            }
            NodeContent::Yaml(YamlNode::Mapping(members)) => {
                let node =
                    |(key, line, yaml)| (key, Self { line, content: NodeContent::Yaml(yaml) });
                NodeChildren::Mapping(members.into_iter().map(node).collect())
            }
            NodeContent::Yaml(YamlNode::Json(_)) => NodeChildren::Scalar,
        }
    }

    pub(super) fn into_json(self) -> Json {
        match self.content {
            NodeContent::Json { text, .. } => text,
            NodeContent::Yaml(yaml) => yaml.into_json(),
        }
    }
}

/// Line counter for parts that share the bytes of `file` and arrive in order.
struct LineCounter<'a> {
    file: &'a Bytes,
    offset: usize,
    line: usize,
}

impl LineCounter<'_> {
    fn line_of(&mut self, part: &Json) -> usize {
        let start = part.bytes().as_ptr().addr().saturating_sub(self.file.as_ptr().addr());
        let skipped = self.file.get(self.offset..start).unwrap_or_default();
        self.line += skipped.split(|byte| *byte == b'\n').count() - 1;
        self.offset = start.max(self.offset);
        self.line
    }
}

pub(super) fn parse_json(text: &Bytes, file_name: &str) -> Result<DocumentNode, Box<Problem>> {
    let parsed = Json::parse(text.clone(), JsonLimits::DOCUMENT);
    let checked = parsed.map_err(|error| {
        let (file_name, caret) = match &error {
            JsonError::Malformed { line, column, .. } => {
                (format!("{file_name}:{line}:{column}"), render_excerpt(text, *line, *column))
            }
            JsonError::TooLong { .. } | JsonError::WrongKind { .. } => {
                (file_name.to_owned(), String::new())
            }
        };
        Box::new(Problem::new(file_name, format!("{error}{caret}")).with_help("correct the JSON"))
    })?;
    Ok(DocumentNode { line: 1, content: NodeContent::Json { text: checked, file: text.clone() } })
}

/// Renders the line, cut around the column, with a caret below.
fn render_excerpt(text: &[u8], line: usize, column: usize) -> String {
    let line_bytes =
        text.split(|byte| *byte == b'\n').nth(line.saturating_sub(1)).unwrap_or_default();
    let start = column.saturating_sub(40);
    let excerpt = String::from_utf8_lossy(line_bytes.get(start..).unwrap_or_default());
    let shown: String =
        excerpt.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let indent = column.saturating_sub(start).saturating_sub(1);
    format!("\n  {shown}\n  {}^", " ".repeat(indent))
}

/// Parses a YAML text.
pub(super) fn parse_yaml(text: &Bytes, file_name: &str) -> Result<DocumentNode, Box<Problem>> {
    yaml_parser::parse_document(text, file_name)
        .map(|(line, yaml)| DocumentNode { line, content: NodeContent::Yaml(yaml) })
}
