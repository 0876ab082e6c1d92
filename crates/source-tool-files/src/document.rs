//! Parser from the text of a tool file to its entries, each with its line and its JSON text.
//!
//! The file is a list of tools, or a mapping with `tools:` (a list, a mapping from name to tool, or
//! spec 2's settings with `registry:`).

mod node;
mod yaml;

use bytes::Bytes;
use tool::{Json, Problem};

use super::MAX_TOOLS;
use super::permissions::Permissions;
use node::{Node, Open};

/// Parsed tool file with its entries.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Entries of the file, at most [`MAX_TOOLS`].
    pub(super) entries: Vec<Entry>,
    /// Total number of entries in the file.
    pub(super) count: usize,
    pub(super) settings: Settings,
}

/// Settings of a file for all its tools.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) version: Version,
    /// Whether the tools stand in spec 2's settings, which require the complete form.
    pub(super) requires_spec_2: bool,
    /// Default time limit: spec 2's `default_timeout_ms`.
    pub(super) timeout: Option<Json>,
    /// Scope permissions of spec 3.
    pub(super) permissions: Permissions,
}

/// Format version, which decides the permitted tool kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Version {
    /// Spec 2 without extensions.
    #[default]
    One,
    /// Spec 2 with `http` tools.
    Two,
}

impl Version {
    fn read(version: &Json) -> std::result::Result<Self, String> {
        match version.as_str().trim_matches('"') {
            "1" | "1.0" => Ok(Self::One),
            "2" | "2.0" => Ok(Self::Two),
            _ => Err("`version` is neither 1 nor 2".to_owned()),
        }
    }
}

/// One tool that is not parsed yet.
#[derive(Debug)]
pub(super) struct Entry {
    /// Line number, from 1.
    pub(super) line: usize,
    /// Key of the entry, if the file is a mapping.
    pub(super) key: Option<String>,
    /// JSON text of the entry.
    pub(super) text: Json,
}

const SHAPES: &str = "a tool file is a list of tools, or a mapping with `tools:`";

type Result<T> = std::result::Result<T, Box<Problem>>;

impl Document {
    /// Parses `text`; `place` is the file's name in errors.
    pub(super) fn read(text: &Bytes, is_json: bool, place: &str) -> Result<Self> {
        let root = if is_json { node::json(text, place)? } else { node::yaml(text, place)? };
        let wrong = |line: usize, message: String| {
            Box::new(Problem::new(format!("{place}:{line}"), message).fix(SHAPES))
        };
        let (line, kind) = (root.line, root.kind());
        let (mut version, mut permissions) = (Version::One, Permissions::default());
        let tools = match root.open() {
            Open::List(tools) => return Ok(Self::of(tools.into_iter().map(|tool| (None, tool)))),
            Open::Mapping(mut members) => {
                if let Some(at) = members.iter().position(|(key, _)| key == "version") {
                    let (_, node) = members.swap_remove(at);
                    let line = node.line;
                    version = Version::read(&node.text()).map_err(|told| wrong(line, told))?;
                }
                if let Some(at) = members.iter().position(|(key, _)| key == "permissions") {
                    let (_, node) = members.swap_remove(at);
                    let at = format!("{place}:{}", node.line);
                    let told = |told| Problem::new(at, told).fix("write it as spec 3 has it");
                    permissions =
                        Permissions::read(&node.text()).map_err(|error| Box::new(told(error)))?;
                }
                let found = members.into_iter().find(|(key, _)| key == "tools");
                found.ok_or_else(|| wrong(line, "there is no `tools`".into()))?.1
            }
            Open::Other => return Err(wrong(line, format!("found {kind}"))),
        };
        let (line, kind) = (tools.line, tools.kind());
        let mut document = match tools.open() {
            Open::List(tools) => Self::of(tools.into_iter().map(|tool| (None, tool))),
            Open::Mapping(members) => Self::of_members(members),
            Open::Other => return Err(wrong(line, format!("`tools` is {kind}"))),
        };
        document.settings.version = version;
        document.settings.permissions = permissions;
        Ok(document)
    }

    /// Builds the document from a mapping of names to tools, or from spec 2's settings around a
    /// list.
    fn of_members(mut members: Vec<(String, Node)>) -> Self {
        let registry =
            members.iter().position(|(key, node)| key == "registry" && node.kind() == "array");
        let Some(index) = registry else {
            return Self::of(members.into_iter().map(|(key, tool)| (Some(key), tool)));
        };
        let Open::List(tools) = members.swap_remove(index).1.open() else { return Self::default() };
        let mut setting = |name: &str| {
            let index = members.iter().position(|(key, _)| key == name)?;
            Some(members.swap_remove(index).1.text())
        };
        if setting("enabled").is_some_and(|enabled| enabled.as_str() == "false") {
            return Self::default();
        }
        let timeout = setting("default_timeout_ms");
        let settings = Settings { timeout, requires_spec_2: true, ..Settings::default() };
        Self { settings, ..Self::of(tools.into_iter().map(|tool| (None, tool))) }
    }

    fn of(tools: impl ExactSizeIterator<Item = (Option<String>, Node)>) -> Self {
        let count = tools.len();
        let entry = |(key, node): (_, Node)| Entry { line: node.line, key, text: node.text() };
        let entries = tools.take(MAX_TOOLS).map(entry).collect();
        Self { entries, count, settings: Settings::default() }
    }
}

#[cfg(test)]
mod tests;
