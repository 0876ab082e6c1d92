//! Filters of the tool list: words of a search, and traits.

use catalog::CatalogEntry;
use gateway::CatalogView;
use serde::Deserialize;
use std::collections::BTreeSet;
use tool::{PermissionLevel, SafetyLevel, SideEffect, SideEffects};
use url::form_urlencoded;

use crate::html::{Element, element, text_element};
use crate::page_layout::submit_button;

/// Maximum length of a search in bytes.
const MAX_SEARCH_BYTES: usize = 200;

/// The query of the tool list. An empty value is no filter, as a form sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolFilters {
    /// Words that name, title or description contain.
    q: String,
    pub(crate) source: String,
    level: String,
    safety: String,
    effect: String,
    category: String,
    pub(crate) cursor: Option<String>,
}

impl ToolFilters {
    /// Returns the problem of a filter that is too long.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.q.len() <= MAX_SEARCH_BYTES {
            return Ok(());
        }
        Err(format!("a search has at most {MAX_SEARCH_BYTES} bytes"))
    }

    /// Returns a predicate for tools that all filters select.
    pub(crate) fn predicate(&self) -> impl Fn(&CatalogEntry) -> bool {
        let words: Vec<String> = self.q.split_whitespace().map(str::to_lowercase).collect();
        move |entry: &CatalogEntry| {
            let traits = &entry.tool.traits;
            let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
            is(&self.source, entry.tool_key.source.as_str())
                && is(&self.level, traits.min_level.as_str())
                && is(&self.safety, traits.safety.as_str())
                && (self.effect.is_empty()
                    || traits.effects.effect_names().contains(&&*self.effect))
                && (self.category.is_empty() || traits.categories.contains(&self.category))
                && (words.is_empty() || contains_words(entry, &words))
        }
    }

    /// Returns the path of the page after this cursor.
    pub(crate) fn next_path(&self, cursor: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in self.fields() {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        query.append_pair("cursor", cursor);
        format!("/ui/tools?{}", query.finish())
    }

    fn fields(&self) -> [(&'static str, &str); 6] {
        [
            ("q", &self.q),
            ("source", &self.source),
            ("level", &self.level),
            ("safety", &self.safety),
            ("effect", &self.effect),
            ("category", &self.category),
        ]
    }

    /// Renders the form, with the values that tools of this view have.
    pub(crate) fn form(&self, view: &CatalogView) -> Element {
        let mut sources: Vec<String> =
            view.count_by_source().keys().map(ToString::to_string).collect();
        sources.sort_unstable();
        let categories: BTreeSet<&str> = view
            .list_tools()
            .flat_map(|entry| entry.tool.traits.categories.iter().map(String::as_str))
            .collect();
        let effects = SideEffect::ALL.iter().map(|effect| effect.as_str());
        let effects = effects.chain([SideEffects::UNKNOWN_NAME]);
        let search = element("input")
            .attr("type", "search")
            .attr("id", "q")
            .attr("name", "q")
            .attr("maxlength", "200")
            .attr("value", self.q.clone())
            .attr("data-search", "")
            .attr("data-instant", "");
        let field =
            element("p").child(text_element("label", "Search").attr("for", "q")).child(search);
        let levels = PermissionLevel::ALL.iter().map(|level| level.as_str());
        let safety = SafetyLevel::ALL.iter().map(|level| level.as_str());
        element("form")
            .class("filters")
            .attr("role", "search")
            .attr("action", "/ui/tools")
            .child(field)
            .child(select("source", "Source", sources.iter().map(String::as_str), &self.source))
            .child(select("level", "Level", levels, &self.level))
            .child(select("safety", "Safety", safety, &self.safety))
            .child(select("effect", "Side effect", effects, &self.effect))
            .child(select("category", "Category", categories.into_iter(), &self.category))
            .child(element("p").child(submit_button("Filter")))
    }
}

/// Renders a choice of one value, or of all.
pub(crate) fn select<'a>(
    name: &'static str,
    label: &str,
    values: impl Iterator<Item = &'a str>,
    chosen: &str,
) -> Element {
    let option = |value: &str| {
        let option = text_element("option", value).attr("value", value.to_owned());
        option.flag("selected", value == chosen)
    };
    let all = text_element("option", "All").attr("value", "");
    let choice = element("select").attr("name", name).attr("id", name).child(all);
    let label = text_element("label", label).attr("for", name);
    element("p").child(label).child(choice.children(values.map(option)))
}

fn contains_words(entry: &CatalogEntry, words: &[String]) -> bool {
    let title = entry.tool.title.as_deref().unwrap_or_default();
    let text = format!("{}\n{title}\n{}", entry.name, entry.tool.description).to_lowercase();
    words.iter().all(|word| text.contains(word))
}
