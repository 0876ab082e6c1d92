//! Rules of one layer.

use std::collections::BTreeMap;

use policy::{At, Layer, Pattern, Permissions, Rule, Word};
use tool::Safety;

use super::super::words::safety;
use super::rule::{RuleKeys, rule};
use super::{RULES, at, few, word};
use crate::node::{Kind, shorten};
use crate::parsers::{list, list_of, map, text, truth};
use crate::section::{flattened, section, subsection};
use crate::value::{ConfigValue, ValueParser};

/// Characters of a category: the most that a tool file gives one.
const CATEGORY: usize = 64;
/// Characters of a role, an organisation, a persona or a task type.
const NAME: usize = 64;

section! {
    /// Rules that hold for every key, or for some.
    #[derive(Default)]
    pub(super) struct LayerKeys as "LayerKeys" {
        /// The most dangerous a tool may be.
        safety_limit: Option<Safety> = safety();
        /// A tool must be in one of these categories; `[]`: none is.
        categories: Option<Vec<Word>> = categories();
        /// A tool must fit one of these patterns; `[]`: none does. A pattern is a tool's name, in which `*`
        /// stands for any characters, `source:NAME` for all tools of a source, or `group:NAME` for a group:
        /// read, write, code, data, web, math, all, or one of `groups`.
        allow: Option<Vec<Pattern>> = patterns();
        /// A tool must fit none of these patterns. Wins over `allow`.
        deny: Vec<Pattern> = patterns();
        /// Whether tools with effects are taken away.
        read_only: bool = truth();
        /// Whether tools that reach the network are taken away.
        no_web: bool = truth();
        /// Rules that look at more than names.
        rules: Vec<Rule> = list(subsection::<RuleKeys>().map(rule)).map(bounded);
    }
}

section! {
    /// Rules for some keys. Each only takes away.
    struct NamedLayer as "Layer" {
        /// What every layer may say.
        layer as "..": LayerKeys = flattened::<LayerKeys>();
        /// Whether tools that reach the network may be used by their category.
        web_access: bool = truth();
        /// Categories of which tools may be used. Where this, `allowed_tools`, `forbidden_tools` or
        /// `web_access` stands, nothing else may be.
        allowed_categories: Vec<Word> = categories();
        /// Tools that may be used whatever their category.
        allowed_tools: Vec<Pattern> = patterns();
        /// Tools that may not be used. Wins.
        forbidden_tools: Vec<Pattern> = patterns();
    }
}

impl LayerKeys {
    pub(super) fn layer(self, permissions: Option<Permissions>, at: At) -> Layer {
        let Self { safety_limit, categories, allow, deny, read_only, no_web, rules } = self;
        Layer { safety_limit, categories, allow, deny, read_only, no_web, permissions, rules, at }
    }
}

/// Layers by the names they are for.
pub(super) fn layers() -> impl ValueParser<Output = BTreeMap<String, Layer>> {
    map(subsection::<NamedLayer>().map(layer)).map(few).map(layer_names)
}

fn layer(value: ConfigValue<'_>, keys: NamedLayer) -> Layer {
    let NamedLayer { layer, web_access, allowed_categories, allowed_tools, forbidden_tools } = keys;
    // Spec 3's `ToolPermissions`, where any part of it stands.
    let flat = ["web_access", "allowed_categories", "allowed_tools", "forbidden_tools"];
    let permissions = flat.iter().any(|key| value.has(key)).then_some(Permissions {
        web_access,
        allowed_categories,
        allowed_tools,
        forbidden_tools,
    });
    layer.layer(permissions, at(value))
}

fn layer_names(value: ConfigValue<'_>, layers: BTreeMap<String, Layer>) -> BTreeMap<String, Layer> {
    let fits = |c: char| c.is_alphanumeric() || "_.-".contains(c);
    for name in layers.keys() {
        if !(1..=NAME).contains(&name.chars().count()) || !name.chars().all(fits) {
            let fix = format!("use letters, digits, `_`, `.` and `-`, at most {NAME}");
            let layer = value.member(name).unwrap_or(value);
            layer.fault(format!("`{}` is no name", shorten(name)), &fix);
        }
    }
    layers
}

/// No more rules than are allowed in one list.
pub(super) fn bounded<T>(value: ConfigValue<'_>, rules: Vec<T>) -> Vec<T> {
    if let Kind::List(items) = &value.node.kind
        && items.len() > RULES
    {
        let message = format!("these are {} rules; {RULES} are allowed", items.len());
        value.fault(message, "`*` stands for many names at once");
    }
    rules
}

pub(super) fn patterns() -> impl ValueParser<Output = Vec<Pattern>> {
    list_of(RULES, text().then(pattern)).map(bounded)
}

fn categories() -> impl ValueParser<Output = Vec<Word>> {
    list_of(RULES, text().convert_text(category).map(word)).map(bounded)
}

pub(super) fn pattern(value: ConfigValue<'_>, text: String) -> Option<Pattern> {
    let fault = |error: String| {
        let (message, fix) = error.split_once(": use ").unwrap_or((&error, ""));
        value.fault(message, &format!("use {fix}"));
    };
    Some(Pattern::new(text).map_err(fault).ok()?.at(at(value)))
}

/// As tool files write them, in lower case.
pub(super) fn category(value: ConfigValue<'_>, text: &str) -> Option<String> {
    let word = text.trim().to_lowercase();
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    if (1..=CATEGORY).contains(&word.chars().count()) && word.chars().all(fits) {
        return Some(word);
    }
    let fix = format!("use letters, digits, `_` and `-`, at most {CATEGORY}");
    value.fault(format!("`{}` is no category", shorten(text)), &fix);
    None
}
