//! The built-in tools: folders, partners on the net, and what is taken from single tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use builtin_manifests::Family;
use egress::ServiceAddress;
use serde_json::{Value, json};
use tool::{Level, Safety};
use tool_manifest::Narrowing;

use super::words::safety;
use crate::node::shorten;
use crate::parsers::{duration, list, list_of, map, number, path, size, text, truth};
use crate::section::{Definitions, section, subsection};
use crate::shown::Show;
use crate::value::{ConfigValue, ValueParser};

section! {
    /// The built-in tools: what they may reach, and what each may do less than it is shipped with.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BuiltinsConfig as "Builtins": Default, Show {
        /// Folders that the file tools use; a relative path begins in the first. Default: the folders of
        /// `policy.permissions.filesystem.allowed_paths`, else `work` in the data directory.
        pub roots: Vec<FolderConfig> = list_of(64, subsection::<FolderConfig>()), shown (!roots.is_empty()).then(|| roots.show()).into();
        /// Where `web_search` searches. Default: DuckDuckGo.
        pub search: Option<SearchConfig> = subsection::<SearchKeys>().then(search);
        /// The Wikipedia of `fetch_wikipedia`. Default: `https://en.wikipedia.org`.
        pub wikipedia: Option<String> = text().then(partner);
        /// Where `toolkeep model install` downloads from, with the same paths as the public hub. Default:
        /// `https://huggingface.co`.
        pub model_mirror: Option<String> = text().then(partner);
        /// By name of a tool: what is taken from it. What it is, takes and gives cannot be changed.
        pub tools: BTreeMap<String, Narrowing> = NarrowedTools;
    }
}

section! {
    /// A folder for the file tools.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FolderConfig as "Folder": Show {
        /// The folder.
        pub path: PathBuf = path(), required "write the folder";
        /// Whether it may be written to.
        pub write: bool = truth();
        /// Files and folders in it that are not there for tools, relative to it.
        pub protect: Vec<String> = list(text().then(below));
    }
}

section! {
    /// A search engine: exactly one of these.
    struct SearchKeys as "Search" with { "minProperties": 1, "maxProperties": 1 } {
        /// Address of a SearXNG that gives JSON, such as `http://127.0.0.1:8888`.
        searxng: Option<String> = text().then(partner);
        /// Another address of DuckDuckGo's HTML page.
        duckduckgo: Option<String> = text().then(partner);
    }
}

/// A search engine, by its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchConfig {
    /// A SearXNG.
    SearXng(String),
    /// DuckDuckGo's HTML page.
    DuckDuckGo(String),
}

impl Show for SearchConfig {
    fn show(&self) -> Value {
        match self {
            Self::SearXng(url) => json!({ "searxng": url }),
            Self::DuckDuckGo(url) => json!({ "duckduckgo": url }),
        }
    }
}

section! {
    /// What is taken from a tool. Nothing here gives it more.
    for Narrowing as "Narrowing": Show {
        /// `false`: it is not offered.
        off as "enabled": bool = truth().then(|_, enabled| Some(!enabled)), shown off.then_some(false).into();
        /// A higher one than it has.
        safety: Option<Safety> = safety();
        /// A higher one than it has: `guest`, `user`, `admin` or `owner`.
        level as "required_permission": Option<Level> = text().convert_text(level);
        /// `true`: each call needs an approval.
        destructive: Option<bool> = truth();
        /// `false`: programs may not call it.
        chain: Option<bool> = truth();
        /// A shorter time for one call than it has.
        timeout: Option<Duration> = duration("is no such time");
        /// Less text in its arguments than it takes, such as `1MiB`.
        arguments: Option<usize> = size(tool::Limits::MOST_ARGUMENTS);
        /// By name of a parameter that is a number: a lower maximum than it has.
        maximum: BTreeMap<String, u64> = map(number(0..=u64::MAX));
    }
}

/// Reads what is taken from tools, by their names.
struct NarrowedTools;

impl ValueParser for NarrowedTools {
    type Output = BTreeMap<String, Narrowing>;

    fn parse(&self, value: ConfigValue<'_>) -> Option<Self::Output> {
        let narrowed = |(key, value): (&crate::node::Key, ConfigValue<'_>)| {
            (key.text.clone(), narrowing(&key.text, value))
        };
        Some(value.entries()?.map(narrowed).collect())
    }
    fn schema(&self, definitions: &mut Definitions) -> Value {
        map(subsection::<Narrowing>()).schema(definitions)
    }
}

/// What is wrong switches the tool off, so that a slip does not open what it should close.
fn narrowing(name: &str, value: ConfigValue<'_>) -> Narrowing {
    let faults = value.file.sink.count();
    let narrowing = value.parse(&subsection::<Narrowing>());
    if let Some(Err(why)) = narrowing.as_ref().map(|narrowing| checked(narrowing, name)) {
        value.fault(why, "built-in tools can only be narrowed; see their reference");
    }
    if value.file.sink.count() == faults {
        return narrowing.unwrap_or_default();
    }
    Narrowing { off: true, ..Narrowing::default() }
}

/// Also of those that another crate than `builtins` has.
fn checked(narrowing: &Narrowing, name: &str) -> Result<(), String> {
    let general = Family::General.registry();
    match builtin_manifests::tool(name) {
        Some(tool) if general.get(name).is_none() => narrowing.check_tool(&tool),
        _ => narrowing.check(general, name),
    }
}

fn below(value: ConfigValue<'_>, text: String) -> Option<String> {
    if !text.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Some(text);
    }
    let message = format!("`{}` is no path below the folder", shorten(&text));
    value.fault(message, "write it relative to `path`, such as `private/keys`");
    None
}

fn search(value: ConfigValue<'_>, keys: SearchKeys) -> Option<SearchConfig> {
    match (keys.searxng, keys.duckduckgo) {
        (Some(url), None) => Some(SearchConfig::SearXng(url)),
        (None, Some(url)) => Some(SearchConfig::DuckDuckGo(url)),
        (Some(_), Some(_)) => {
            value.fault("`searxng` and `duckduckgo` exclude each other", "keep one");
            None
        }
        (None, None) => None,
    }
}

/// The address of a partner.
fn partner(value: ConfigValue<'_>, url: String) -> Option<String> {
    let fault = |why: String| {
        let message = format!("`{}` cannot be asked: {why}", shorten(&url));
        value.fault(message, "write it as `https://HOST` or `https://HOST/PATH`");
    };
    ServiceAddress::parse(&url).map_err(fault).ok()?;
    Some(url)
}

fn level(value: ConfigValue<'_>, word: &str) -> Option<Level> {
    let fault = |error: tool::traits::UnknownWord| {
        let fix = format!("use one of {}", error.allowed);
        value.fault(format!("unknown level `{}`", shorten(word)), &fix);
    };
    word.parse().map_err(fault).ok()
}

#[cfg(test)]
mod tests;
