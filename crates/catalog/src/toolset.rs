//! Toolsets: named selections of the items of a catalog, each a catalog of its own.
//!
//! A selection contains the items whose definitions its owner accepted, and nothing else. Its names
//! follow from the accepted items alone, so that no change of a source gives a name to another tool.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tool::confusable_text::confusable_skeletons;
use tool::{Digest, SourceName, ToolKey, ToolName};

use crate::catalog_entry::{CatalogEntry, override_texts};
use crate::companion_items::{CompanionContent, CompanionItem};
use crate::companion_lookup::{PinnedItem, own_item_name};
use crate::merged_catalog::Catalog;
use crate::merged_source::MergedSource;
use crate::source_catalog::{BlockedTool, SourceCatalog};

/// Methods that a selection has for its prompts.
const PROMPT_METHODS: [&str; 2] = ["mcp.prompts.get", "mcp.completion.complete"];
/// Methods that a selection has for its resources and skills.
const RESOURCE_METHODS: [&str; 4] = [
    "mcp.resources.read",
    "mcp.resources.subscribe",
    "mcp.resources.directory.read",
    "mcp.completion.complete",
];
/// Method that every selection has.
const LOG_METHOD: &str = "mcp.logging.setLevel";

/// An item of a toolset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedItem {
    /// Digest of the definition that the owner accepted; another one is held back.
    pub digest: Digest,
    /// Name under which it is offered, if not its own.
    pub name: Option<ToolName>,
    /// Title instead of its own.
    pub title: Option<String>,
    /// Description instead of its own.
    pub description: Option<String>,
}

/// The items of one source in a toolset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceSelection {
    /// Tools by their own names.
    pub tools: BTreeMap<ToolName, SelectedItem>,
    /// Prompts, resources and skills by the names of their pins.
    pub companions: BTreeMap<ToolName, SelectedItem>,
}

/// A named selection of items, and the roles that may use it.
pub struct Toolset {
    /// Name of the toolset.
    pub name: SourceName,
    /// Title for people.
    pub title: String,
    /// Description for clients.
    pub description: String,
    /// Roles that may use it.
    pub roles: BTreeSet<String>,
    sources: BTreeMap<SourceName, SourceSelection>,
    /// The newest selection, whose unchanged parts the next one reuses.
    latest: Mutex<Option<Selection>>,
}

/// The selection of one catalog.
struct Selection {
    catalog: Arc<Catalog>,
    /// Selected sources, with the sources that they were selected from.
    sources: Vec<(Arc<MergedSource>, Arc<SourceCatalog>)>,
}

impl Toolset {
    /// Creates a toolset of these items. A tool whose own name another one has, or a name that looks
    /// like it, is offered under its qualified name.
    pub fn new(
        name: SourceName,
        (title, description): (String, String),
        roles: BTreeSet<String>,
        mut sources: BTreeMap<SourceName, SourceSelection>,
    ) -> Self {
        resolve_names(&mut sources);
        Self { name, title, description, roles, sources, latest: Mutex::default() }
    }

    /// Returns its items by source.
    pub fn sources(&self) -> &BTreeMap<SourceName, SourceSelection> {
        &self.sources
    }

    /// Selects the items from a catalog. Unchanged sources share memory with the selection before.
    pub fn select_from(&self, catalog: &Catalog) -> Arc<Catalog> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let before = latest.as_ref();
        let known = |merged: &Arc<MergedSource>| {
            let mut sources = before.into_iter().flat_map(|before| &before.sources);
            sources.find(|(from, _)| Arc::ptr_eq(from, merged)).map(|(_, own)| Arc::clone(own))
        };
        let sources: Vec<_> = catalog
            .merged_sources()
            .iter()
            .flatten()
            .filter_map(|merged| {
                let selection = self.sources.get(&merged.source_catalog().source)?;
                let own = known(merged).unwrap_or_else(|| Arc::new(selection.select(merged)));
                Some((Arc::clone(merged), own))
            })
            .collect();
        if let Some(before) = before.filter(|before| before.is_same(catalog.version, &sources)) {
            return Arc::clone(&before.catalog);
        }
        let first = || Arc::new(catalog.start_selection());
        let base = before.map_or_else(first, |before| Arc::clone(&before.catalog));
        let own = sources.iter().map(|(_, own)| Arc::clone(own)).collect();
        let selected = Arc::new(base.with_sources(catalog.version, own));
        *latest = Some(Selection { catalog: Arc::clone(&selected), sources });
        selected
    }
}

impl Selection {
    fn is_same(&self, version: u64, sources: &[(Arc<MergedSource>, Arc<SourceCatalog>)]) -> bool {
        let same = |((one, _), (two, _)): (&(Arc<MergedSource>, _), &(Arc<MergedSource>, _))| {
            Arc::ptr_eq(one, two)
        };
        self.catalog.version == version
            && self.sources.len() == sources.len()
            && self.sources.iter().zip(sources).all(same)
    }
}

/// Gives qualified names to tools whose own names are taken. The given names count first, then own
/// names in the order of the sources.
fn resolve_names(sources: &mut BTreeMap<SourceName, SourceSelection>) {
    let given = sources.values().flat_map(|source| source.tools.values());
    let given = given.filter_map(|item| item.name.as_ref());
    let mut taken: BTreeMap<String, Option<SourceName>> = given
        .flat_map(|name| confusable_skeletons(name.as_str()))
        .map(|look| (look, None))
        .collect();
    for (source, selection) in sources {
        for (own, item) in selection.tools.iter_mut().filter(|(_, item)| item.name.is_none()) {
            let is_taken = confusable_skeletons(own.as_str())
                .any(|look| taken.get(&look).is_some_and(|by| by.as_ref() != Some(source)));
            if is_taken {
                item.name = ToolName::new(format!("{source}.{own}")).ok();
                continue;
            }
            let looks = confusable_skeletons(own.as_str());
            taken.extend(looks.map(|look| (look, Some(source.clone()))));
        }
    }
}

impl SourceSelection {
    /// Selects the items from a source. An accepted tool with another definition is held back, and
    /// keeps its name.
    fn select(&self, merged: &MergedSource) -> SourceCatalog {
        let whole = merged.source_catalog();
        let mut own = SourceCatalog::new_starting(whole.source.clone(), whole.kind, whole.trust)
            .with_durability(whole.durability)
            .with_defer_mode(whole.defer_mode);
        (own.state, own.stale_since) = (whole.state, whole.stale_since);
        own.revision = whole.revision;
        own.trusted_annotations = whole.trusted_annotations;
        own.extensions.clone_from(&whole.extensions);
        let about = whole.initialize_result.as_ref();
        own.initialize_result = about.map(|about| about.without_member("instructions"));
        own.is_selection = true;
        self.select_tools(merged, &mut own);
        self.select_companions(whole, &mut own);
        let methods =
            whole.methods.iter().filter(|it| own.has_items_for(it.tool_key.name.as_str()));
        own.methods = methods.cloned().collect();
        own
    }

    fn select_tools(&self, merged: &MergedSource, own: &mut SourceCatalog) {
        for entry in merged.tools() {
            let Some(item) = self.tools.get(&entry.tool_key.name) else { continue };
            let offered = Arc::new(item.offer_tool(entry));
            if item.digest == entry.definition_digest {
                own.tools.push(offered);
            } else {
                own.blocked.push(BlockedTool { entry: offered, is_method: false });
            }
        }
        let blocked = merged.source_catalog().blocked.iter().filter(|held| !held.is_method);
        for held in blocked {
            let Some(item) = self.tools.get(&held.entry.tool_key.name) else { continue };
            let entry = Arc::new(item.offer_tool(&held.entry));
            own.blocked.push(BlockedTool { entry, is_method: false });
        }
    }

    /// Selects prompts, resources and skills that are usable in the whole source.
    fn select_companions(&self, whole: &SourceCatalog, own: &mut SourceCatalog) {
        for companion in &whole.companion_items {
            let Some(item) = self.companions.get(&companion.pin_name) else {
                // What a pin blocks stays blocked, also for templates that are selected.
                let is_instructions = matches!(companion.content, CompanionContent::Instructions);
                if !is_instructions && !whole.has_usable(companion) {
                    own.companion_items.push(Arc::clone(companion));
                }
                continue;
            };
            own.companion_items.push(Arc::clone(companion));
            if item.digest != companion.definition_digest || !whole.has_usable(companion) {
                continue;
            }
            match &companion.content {
                CompanionContent::Prompt(prompt) => {
                    let mut prompt = prompt.clone();
                    let texts = (item.title.as_deref(), item.description.as_deref());
                    prompt.raw_definition = override_texts(prompt.raw_definition, texts.0, texts.1);
                    prompt.name = item.name.clone().unwrap_or(prompt.name);
                    own.prompts.push(prompt);
                }
                CompanionContent::Resource(resource) => own.resources.push(resource.clone()),
                CompanionContent::Skill(skill) => own.skills.push(skill.clone()),
                CompanionContent::Event(_) | CompanionContent::Instructions => {}
            }
        }
        own.order_resources();
    }
}

impl SelectedItem {
    /// Returns the tool as the toolset offers it.
    fn offer_tool(&self, entry: &CatalogEntry) -> CatalogEntry {
        let key: &ToolKey = &entry.tool_key;
        let name = self.name.clone().unwrap_or_else(|| key.name.clone());
        entry.with_name(name).with_overrides(self.title.as_deref(), self.description.as_deref())
    }
}

impl SourceCatalog {
    /// Returns true if the companion item is listed.
    pub fn has_usable(&self, companion: &CompanionItem) -> bool {
        match &companion.content {
            CompanionContent::Prompt(prompt) => {
                let own = own_item_name(&prompt.raw_definition);
                matches!(self.find_prompt(&own), Some(PinnedItem::Listed(_)))
            }
            CompanionContent::Resource(resource) if resource.is_template => {
                matches!(self.find_template(&resource.uri), Some(PinnedItem::Listed(_)))
            }
            CompanionContent::Resource(resource) => {
                matches!(self.find_resource(&resource.uri), Some(PinnedItem::Listed(_)))
            }
            CompanionContent::Skill(skill) => {
                matches!(self.find_skill(&skill.uri), Some(PinnedItem::Listed(_)))
            }
            CompanionContent::Event(event) => {
                let own = own_item_name(&event.raw_definition);
                matches!(self.find_event(&own), Some(PinnedItem::Listed(_)))
            }
            CompanionContent::Instructions => false,
        }
    }

    /// Returns true if a selection has items that this method serves.
    fn has_items_for(&self, method: &str) -> bool {
        let (has_prompts, has_resources) =
            (!self.prompts.is_empty(), !self.resources.is_empty() || !self.skills.is_empty());
        method == LOG_METHOD
            || has_prompts && PROMPT_METHODS.contains(&method)
            || has_resources && RESOURCE_METHODS.contains(&method)
    }
}

impl PartialEq for Toolset {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.title, &self.description)
            == (&other.name, &other.title, &other.description)
            && (&self.roles, &self.sources) == (&other.roles, &other.sources)
    }
}

impl fmt::Debug for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolset").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
