//! Node of a tool file: from JSON text, whose bytes it shares, or from a YAML tree. Both know their
//! lines.

use bytes::Bytes;
use tool::{Json, JsonError, Limits, Problem};

use super::yaml::{self, Yaml};

/// Node of a tool file, with its line.
pub(super) struct Node {
    pub(super) line: usize,
    tree: Tree,
}

enum Tree {
    Json { text: Json, file: Bytes },
    Yaml(Yaml),
}

pub(super) enum Open {
    List(Vec<Node>),
    Mapping(Vec<(String, Node)>),
    Other,
}

impl Node {
    pub(super) fn kind(&self) -> &'static str {
        match &self.tree {
            Tree::Json { text, .. } | Tree::Yaml(Yaml::Text(text)) => text.kind(),
            Tree::Yaml(Yaml::List(_)) => "array",
            Tree::Yaml(Yaml::Mapping(_)) => "object",
        }
    }

    pub(super) fn open(self) -> Open {
        match self.tree {
            Tree::Json { text, file } => {
                let mut lines = Lines { file: &file, at: 0, line: 1 };
                let mut node = |text: Json| Self {
                    line: lines.of(&text),
                    tree: Tree::Json { text, file: file.clone() },
                };
                match text.kind() {
                    "array" => Open::List(text.elements().into_iter().map(node).collect()),
                    "object" => Open::Mapping(
                        text.members().into_iter().map(|(key, text)| (key, node(text))).collect(),
                    ),
                    _ => Open::Other,
                }
            }
            Tree::Yaml(Yaml::List(items)) => {
                let node = |(line, text)| Self { line, tree: Tree::Yaml(Yaml::Text(text)) };
                Open::List(items.into_iter().map(node).collect())
            }
            Tree::Yaml(Yaml::Mapping(members)) => {
                let node = |(key, line, yaml)| (key, Self { line, tree: Tree::Yaml(yaml) });
                Open::Mapping(members.into_iter().map(node).collect())
            }
            Tree::Yaml(Yaml::Text(_)) => Open::Other,
        }
    }

    pub(super) fn text(self) -> Json {
        match self.tree {
            Tree::Json { text, .. } => text,
            Tree::Yaml(yaml) => yaml.text(),
        }
    }
}

/// Line counter for parts that share the bytes of `file` and arrive in order.
struct Lines<'a> {
    file: &'a Bytes,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn of(&mut self, part: &Json) -> usize {
        let start = part.bytes().as_ptr().addr().saturating_sub(self.file.as_ptr().addr());
        let passed = self.file.get(self.at..start).unwrap_or_default();
        self.line += passed.split(|byte| *byte == b'\n').count() - 1;
        self.at = start.max(self.at);
        self.line
    }
}

pub(super) fn json(text: &Bytes, place: &str) -> Result<Node, Box<Problem>> {
    let checked = Json::check(text.clone(), Limits::DOCUMENT);
    let checked = checked.map_err(|error| {
        let (place, caret) = match &error {
            JsonError::Malformed { line, column, .. } => {
                (format!("{place}:{line}:{column}"), caret(text, *line, *column))
            }
            JsonError::TooLong { .. } | JsonError::Kind { .. } => (place.to_owned(), String::new()),
        };
        Box::new(Problem::new(place, format!("{error}{caret}")).fix("mend the JSON"))
    })?;
    Ok(Node { line: 1, tree: Tree::Json { text: checked, file: text.clone() } })
}

/// Renders the line, cut around the column, with a caret below.
fn caret(text: &[u8], line: usize, column: usize) -> String {
    let found = text.split(|byte| *byte == b'\n').nth(line.saturating_sub(1)).unwrap_or_default();
    let start = column.saturating_sub(40);
    let shown = String::from_utf8_lossy(found.get(start..).unwrap_or_default());
    let shown: String =
        shown.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let before = column.saturating_sub(start).saturating_sub(1);
    format!("\n  {shown}\n  {}^", " ".repeat(before))
}

/// Parses a YAML text.
pub(super) fn yaml(text: &Bytes, place: &str) -> Result<Node, Box<Problem>> {
    yaml::read(text, place).map(|(line, yaml)| Node { line, tree: Tree::Yaml(yaml) })
}
