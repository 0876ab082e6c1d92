//! Parser from the text of a tool file to its entries, each with its line and its JSON text.
//!
//! The file is a list of tools, or a mapping with `tools:` (a list, a mapping from name to tool, or
//! the tool-file registry's settings with `registry:`).

mod node;
mod yaml_parser;

use bytes::Bytes;
use tool::{Json, Problem};

use super::MAX_TOOLS;
use super::scope_permissions::FilePermissions;
use node::{DocumentNode, NodeChildren};

/// Parsed tool file with its entries.
#[derive(Debug, Default)]
pub(super) struct ToolDocument {
    /// Entries of the file, at most [`MAX_TOOLS`].
    pub(super) entries: Vec<ToolEntry>,
    /// Total number of entries in the file.
    pub(super) total_entries: usize,
    pub(super) settings: FileSettings,
}

/// Settings of a file for all its tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileSettings {
    pub(super) format_version: FileFormatVersion,
    /// Whether the tools stand in the tool-file registry's settings, which require the complete
    /// form.
    pub(super) requires_complete_form: bool,
    /// Default time limit: the tool-file registry's `default_timeout_ms`.
    pub(super) default_timeout: Option<Json>,
    /// Scope permissions of the research registry.
    pub(super) permissions: FilePermissions,
}

/// Format version, which decides the permitted tool kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum FileFormatVersion {
    /// The tool-file registry's format without extensions.
    #[default]
    V1,
    /// The tool-file registry's format with `http` tools.
    V2,
}

impl FileFormatVersion {
    fn from_json(version: &Json) -> std::result::Result<Self, String> {
        match version.as_str().trim_matches('"') {
            "1" | "1.0" => Ok(Self::V1),
            "2" | "2.0" => Ok(Self::V2),
            _ => Err("`version` is neither 1 nor 2".to_owned()),
        }
    }
}

/// One tool that is not parsed yet.
#[derive(Debug)]
pub(super) struct ToolEntry {
    /// Line number, from 1.
    pub(super) line: usize,
    /// Key of the entry, if the file is a mapping.
    pub(super) mapping_key: Option<String>,
    /// JSON text of the entry.
    pub(super) json: Json,
}

impl ToolEntry {
    /// Returns the entry with a text of its own, which keeps no larger one in memory.
    pub(super) fn with_own_text(&self) -> Self {
        let json = Json::from_trusted(self.json.as_str().to_owned());
        Self { line: self.line, mapping_key: self.mapping_key.clone(), json }
    }
}

const EXPECTED_SHAPE: &str = "a tool file must be a list of tools, or a mapping with `tools:`";

type DocumentResult<T> = std::result::Result<T, Box<Problem>>;

impl ToolDocument {
    /// Parses `text`; `file_name` is the file's name in errors.
    pub(super) fn parse_document(
        text: &Bytes,
        is_json: bool,
        file_name: &str,
    ) -> DocumentResult<Self> {
        let root = if is_json {
            node::parse_json(text, file_name)?
        } else {
            node::parse_yaml(text, file_name)?
        };
        let document_error = |line: usize, message: String| {
            Box::new(Problem::new(format!("{file_name}:{line}"), message).with_help(EXPECTED_SHAPE))
        };
        let (line, kind) = (root.line, root.kind());
        let (mut version, mut permissions) = (FileFormatVersion::V1, FilePermissions::default());
        let tools = match root.into_children() {
            NodeChildren::List(tools) => {
                return Ok(Self::from_list(tools.into_iter().map(|tool| (None, tool))));
            }
            NodeChildren::Mapping(mut members) => {
                if let Some(at) = members.iter().position(|(key, _)| key == "version") {
                    let (_, node) = members.swap_remove(at);
                    let line = node.line;
                    version = FileFormatVersion::from_json(&node.into_json())
                        .map_err(|told| document_error(line, told))?;
                }
                if let Some(at) = members.iter().position(|(key, _)| key == "permissions") {
                    let (_, node) = members.swap_remove(at);
                    let at = format!("{file_name}:{}", node.line);
                    let told = |told| {
                        Problem::new(at, told).with_help("write it as `tool_registry.yaml` does")
                    };
                    permissions = FilePermissions::from_json(&node.into_json())
                        .map_err(|error| Box::new(told(error)))?;
                }
                let found = members.into_iter().find(|(key, _)| key == "tools");
                found.ok_or_else(|| document_error(line, "the key `tools` is missing".into()))?.1
            }
            NodeChildren::Scalar => return Err(document_error(line, format!("found {kind}"))),
        };
        let (line, kind) = (tools.line, tools.kind());
        let mut document = match tools.into_children() {
            NodeChildren::List(tools) => {
                Self::from_list(tools.into_iter().map(|tool| (None, tool)))
            }
            NodeChildren::Mapping(members) => Self::from_mapping(members),
            NodeChildren::Scalar => return Err(document_error(line, format!("`tools` is {kind}"))),
        };
        document.settings.format_version = version;
        document.settings.permissions = permissions;
        Ok(document)
    }

    /// Builds the document from a mapping of names to tools, or from the tool-file registry's
    /// settings around a list.
    fn from_mapping(mut members: Vec<(String, DocumentNode)>) -> Self {
        let registry =
            members.iter().position(|(key, node)| key == "registry" && node.kind() == "array");
        let Some(index) = registry else {
            return Self::from_list(members.into_iter().map(|(key, tool)| (Some(key), tool)));
        };
        let NodeChildren::List(tools) = members.swap_remove(index).1.into_children() else {
            return Self::default();
        };
        let mut take_setting = |name: &str| {
            let index = members.iter().position(|(key, _)| key == name)?;
            Some(members.swap_remove(index).1.into_json())
        };
        if take_setting("enabled").is_some_and(|enabled| enabled.as_str() == "false") {
            return Self::default();
        }
        let timeout = take_setting("default_timeout_ms");
        let settings = FileSettings {
            default_timeout: timeout,
            requires_complete_form: true,
            ..FileSettings::default()
        };
        Self { settings, ..Self::from_list(tools.into_iter().map(|tool| (None, tool))) }
    }

    fn from_list(tools: impl ExactSizeIterator<Item = (Option<String>, DocumentNode)>) -> Self {
        let count = tools.len();
        let entry = |(key, node): (_, DocumentNode)| ToolEntry {
            line: node.line,
            mapping_key: key,
            json: node.into_json(),
        };
        let entries = tools.take(MAX_TOOLS).map(entry).collect();
        Self { entries, total_entries: count, settings: FileSettings::default() }
    }
}

#[cfg(test)]
mod tests;
