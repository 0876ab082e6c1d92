//! The built-in tools: folders, services on the network, and restrictions of single tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use builtin_manifests::ToolFamily;
use egress::ServiceAddress;
use serde_json::{Value, json};
use tool::{PermissionLevel, SafetyLevel};
use tool_manifest::ToolRestriction;

use super::shared_keywords::safety_level;
use crate::config_display::RedactedJson;
use crate::config_value::{ConfigValue, ValueParser};
use crate::section::{SchemaDefinitions, section, subsection};
use crate::value_parsers::{
    boolean, bounded_list, byte_size, call_timeout, integer, list, mapping, path, text,
};
use crate::yaml_tree::{YamlKey, shorten_text};

section! {
    /// The built-in tools: the folders and services that they use, and restrictions of single tools.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BuiltinsConfig as "Builtins": Default, RedactedJson {
        /// Folders of the file tools, at most 64. A relative path of a call begins in the first. Default: the folders of
        /// `policy.permissions.filesystem.allowed_paths`, else `work` in the data directory.
        pub file_roots as "roots": Vec<FileRootConfig> =
            bounded_list(64, subsection::<FileRootConfig>()),
            display (!file_roots.is_empty()).then(|| file_roots.to_redacted_json()).into();
        /// The search engine of `web_search`. Default: DuckDuckGo.
        pub search_engine as "search": Option<SearchEngineConfig> =
            subsection::<SearchKeys>().and_then(search_engine);
        /// URL of the Wikipedia that `fetch_wikipedia` reads. Default: `https://en.wikipedia.org`.
        pub wikipedia_url as "wikipedia": Option<String> = text().and_then(service_url);
        /// URL that `toolkeep model install` downloads from, with the paths of the public hub. Default:
        /// `https://huggingface.co`.
        pub model_mirror: Option<String> = text().and_then(service_url);
        /// Restrictions of single tools, by name. A tool's description, parameters and results cannot be changed.
        pub tools: BTreeMap<String, ToolRestriction> = ToolRestrictionsParser;
    }
}

section! {
    /// A folder of the file tools.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FileRootConfig as "Folder": RedactedJson {
        /// The path of the folder.
        pub path: PathBuf = path(), required "write the folder";
        /// Whether tools may write in it. Default: `false`.
        pub is_writable as "write": bool = boolean();
        /// Files and folders in it that tools can neither see nor write, relative to it.
        pub protected_paths as "protect": Vec<String> = list(text().and_then(relative_path));
    }
}

section! {
    /// A search engine: exactly one of these.
    struct SearchKeys as "Search" with { "minProperties": 1, "maxProperties": 1 } {
        /// URL of a SearXNG with JSON results enabled, such as `http://127.0.0.1:8888`.
        searxng: Option<String> = text().and_then(service_url);
        /// URL of DuckDuckGo's HTML page, where it is not the public one.
        duckduckgo: Option<String> = text().and_then(service_url);
    }
}

/// A search engine, by its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchEngineConfig {
    /// A SearXNG server, by its URL.
    SearXng(String),
    /// DuckDuckGo's HTML page, by its URL.
    DuckDuckGo(String),
}

impl RedactedJson for SearchEngineConfig {
    fn to_redacted_json(&self) -> Value {
        match self {
            Self::SearXng(url) => json!({ "searxng": url }),
            Self::DuckDuckGo(url) => json!({ "duckduckgo": url }),
        }
    }
}

section! {
    /// Restrictions of a built-in tool. None can give it more access than it has.
    for ToolRestriction as "Narrowing": RedactedJson {
        /// `false` disables the tool.
        is_disabled as "enabled": bool = boolean().and_then(|_, enabled| Some(!enabled)),
            display is_disabled.then_some(false).into();
        /// A higher safety level than the tool has.
        safety: Option<SafetyLevel> = safety_level();
        /// A higher permission level than the tool has: `guest`, `user`, `admin` or `owner`.
        min_level as "required_permission": Option<PermissionLevel> =
            text().convert_text(permission_level);
        /// `true` requires an approval for each call.
        destructive: Option<bool> = boolean();
        /// `false` denies calls by programs.
        allows_chain as "chain": Option<bool> = boolean();
        /// A shorter timeout of one call than the tool has, such as `2s`.
        timeout: Option<Duration> = call_timeout();
        /// A lower size limit of its arguments than the tool has, such as `1MiB`.
        max_argument_bytes as "arguments": Option<usize> =
            byte_size(tool::JsonLimits::MAX_ARGUMENT_BYTES);
        /// Lower maximums of its number parameters than the tool has, by the parameter's name.
        max_values as "maximum": BTreeMap<String, u64> = mapping(integer(0..=u64::MAX));
    }
}

/// Parses the restrictions of tools by their names.
struct ToolRestrictionsParser;

impl ValueParser for ToolRestrictionsParser {
    type Output = BTreeMap<String, ToolRestriction>;

    fn parse_value(&self, value: ConfigValue<'_>) -> Option<Self::Output> {
        let restriction = |(key, value): (&YamlKey, ConfigValue<'_>)| {
            (key.text.clone(), parse_restriction(&key.text, value))
        };
        Some(value.require_entries()?.map(restriction).collect())
    }
    fn json_schema(&self, definitions: &mut SchemaDefinitions) -> Value {
        mapping(subsection::<ToolRestriction>()).json_schema(definitions)
    }
}

/// Parses a restriction. An invalid one disables the tool, so that a typo cannot make it less restricted.
fn parse_restriction(name: &str, value: ConfigValue<'_>) -> ToolRestriction {
    let errors_before = value.file.errors.error_count();
    let restriction = value.parse_with(&subsection::<ToolRestriction>());
    let checked = restriction.as_ref().map(|restriction| check_restriction(restriction, name));
    if let Some(Err(message)) = checked {
        value.report(message, "built-in tools can only be restricted; see their reference");
    }
    if value.file.errors.error_count() == errors_before {
        return restriction.unwrap_or_default();
    }
    ToolRestriction { is_disabled: true, ..ToolRestriction::default() }
}

/// Checks a restriction of a tool of any crate with built-in tools.
fn check_restriction(restriction: &ToolRestriction, name: &str) -> Result<(), String> {
    let general = ToolFamily::General.registry();
    match builtin_manifests::find_tool(name) {
        Some(tool) if general.find_tool(name).is_none() => restriction.validate_for_tool(&tool),
        _ => restriction.validate_for(general, name),
    }
}

fn relative_path(value: ConfigValue<'_>, text: String) -> Option<String> {
    if !text.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Some(text);
    }
    let message = format!("`{}` is not a path below the folder", shorten_text(&text));
    value.report(message, "write it relative to `path`, such as `private/keys`");
    None
}

fn search_engine(value: ConfigValue<'_>, keys: SearchKeys) -> Option<SearchEngineConfig> {
    match (keys.searxng, keys.duckduckgo) {
        (Some(url), None) => Some(SearchEngineConfig::SearXng(url)),
        (None, Some(url)) => Some(SearchEngineConfig::DuckDuckGo(url)),
        (Some(_), Some(_)) => {
            value.report("`searxng` and `duckduckgo` exclude each other", "remove one of them");
            None
        }
        (None, None) => None,
    }
}

fn service_url(value: ConfigValue<'_>, url: String) -> Option<String> {
    let report = |reason: String| {
        let message = format!("invalid service URL `{}`: {reason}", shorten_text(&url));
        value.report(message, "write it as `https://HOST` or `https://HOST/PATH`");
    };
    ServiceAddress::parse(&url).map_err(report).ok()?;
    Some(url)
}

fn permission_level(value: ConfigValue<'_>, word: &str) -> Option<PermissionLevel> {
    let report = |error: tool::tool_traits::UnknownValueError| {
        let help = format!("use one of {}", error.allowed);
        value.report(format!("unknown level `{}`", shorten_text(word)), &help);
    };
    word.parse().map_err(report).ok()
}

#[cfg(test)]
mod tests;
