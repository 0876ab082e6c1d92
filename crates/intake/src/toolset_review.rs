//! Review of toolsets: the items that their patterns select now, compared with the accepted ones.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use catalog::definition_digest::definition_digest;
use catalog::{Catalog, SourceCatalog, SourceState};
use policy::{
    ItemPattern, Policy, ToolFacts, ToolPattern, ToolsetDefinition, ToolsetEntry, ToolsetItemKind,
};
use serde::Serialize;
use tool::confusable_text::confusable_skeletons;
use tool::{Caller, Digest, Json, SourceName, StoreError, ToolName};

use crate::SourceSupervisor;
use crate::toolset_error::{MAX_ITEMS, ToolsetError};
use crate::toolset_registry::{
    AcceptedItem, AcceptedItems, ToolsetChange, ToolsetRecord, ToolsetRegistry,
};

/// States of an item of a toolset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolsetItemState {
    /// The definition was accepted, and is offered.
    Accepted,
    /// The patterns select it, and nobody accepted it yet.
    Added,
    /// It has another definition than the accepted one.
    Changed,
    /// It was accepted, and is no longer selected or listed.
    Removed,
}

/// An item of a toolset under review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetItem {
    /// Kind of the item.
    pub kind: ToolsetItemKind,
    /// Source of the item.
    pub source: SourceName,
    /// Name of its pin; for a tool its own name.
    pub pin_name: ToolName,
    /// Name or URI at its source; the pin name of a removed item.
    pub own_name: String,
    /// Pattern that selects it.
    pub pattern: String,
    /// State of the item.
    pub state: ToolsetItemState,
    /// Digest of the definition as listed now.
    pub current: Option<Digest>,
    /// Digest of the accepted definition.
    pub accepted: Option<Digest>,
    /// Definition as listed now.
    pub raw_definition: Option<Json>,
}

/// The items of a toolset, and a digest by which an owner names what it reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetReview {
    /// Items by kind, source and name.
    pub items: Vec<ToolsetItem>,
    /// Digest of all selected definitions.
    pub revision: Digest,
}

impl ToolsetReview {
    /// Returns the number of items that wait for the owner.
    pub fn pending_count(&self) -> usize {
        self.items.iter().filter(|item| item.state != ToolsetItemState::Accepted).count()
    }
}

/// Selects the items of a definition from a catalog.
fn matching_items(
    definition: &ToolsetDefinition,
    catalog: &Catalog,
    policy: &Policy,
) -> Vec<ToolsetItem> {
    let tools = by_precedence(&definition.tools).filter_map(|entry| {
        let pattern = ToolPattern::new(entry.pattern.as_str()).ok()?;
        Some((entry, policy.compile_matcher(&[pattern])))
    });
    let tools: Vec<_> = tools.collect();
    let mut items = Vec::new();
    for entry in catalog.list_tools() {
        let facts = ToolFacts::from_tool(&entry.tool_key, &entry.tool);
        let Some((chosen, _)) = tools.iter().find(|(_, matcher)| matcher.matches_tool(facts))
        else {
            continue;
        };
        items.push(ToolsetItem {
            kind: ToolsetItemKind::Tool,
            source: entry.tool_key.source.clone(),
            pin_name: entry.tool_key.name.clone(),
            own_name: entry.tool_key.name.to_string(),
            pattern: chosen.pattern.clone(),
            state: ToolsetItemState::Added,
            current: Some(entry.definition_digest),
            accepted: None,
            raw_definition: Some(entry.tool.raw_definition.clone()),
        });
    }
    for source in catalog.list_sources() {
        matching_companions(definition, source, &mut items);
    }
    items
}

/// The entries with other names and texts first: they name one item.
fn by_precedence(entries: &[ToolsetEntry]) -> impl Iterator<Item = &ToolsetEntry> {
    let first = entries.iter().filter(|entry| entry.has_overrides());
    first.chain(entries.iter().filter(|entry| !entry.has_overrides()))
}

fn matching_companions(
    definition: &ToolsetDefinition,
    source: &SourceCatalog,
    items: &mut Vec<ToolsetItem>,
) {
    for companion in source.companion_items.iter().filter(|it| source.has_usable(it)) {
        let Some((kind, own_name)) = companion.kind_and_name() else { continue };
        let kind = match kind {
            "prompt" => ToolsetItemKind::Prompt,
            "skill" => ToolsetItemKind::Skill,
            _ => ToolsetItemKind::Resource,
        };
        let mut entries = by_precedence(definition.entries_of(kind));
        let chosen = entries.find(|entry| {
            let pattern = ItemPattern::new(entry.pattern.as_str());
            pattern.is_ok_and(|it| it.matches_item(source.source.as_str(), &own_name))
        });
        let Some(chosen) = chosen else { continue };
        items.push(ToolsetItem {
            kind,
            source: source.source.clone(),
            pin_name: companion.pin_name.clone(),
            own_name: own_name.into_owned(),
            pattern: chosen.pattern.clone(),
            state: ToolsetItemState::Added,
            current: Some(companion.definition_digest),
            accepted: None,
            raw_definition: Some(companion.raw_definition.clone()),
        });
    }
}

/// Compares what the patterns select now with what was accepted.
fn review(record: &ToolsetRecord, catalog: &Catalog, policy: &Policy) -> ToolsetReview {
    let mut items = matching_items(&record.definition, catalog, policy);
    for item in &mut items {
        let known = record.accepted.get(&item.source).and_then(|all| all.get(&item.pin_name));
        let known = known.filter(|known| known.kind == item.kind && known.pattern == item.pattern);
        item.accepted = known.map(|known| known.digest);
        item.state = match item.accepted {
            None => ToolsetItemState::Added,
            accepted if accepted == item.current => ToolsetItemState::Accepted,
            Some(_) => ToolsetItemState::Changed,
        };
    }
    let offered: HashSet<_> =
        items.iter().map(|it| (it.kind, it.source.clone(), it.pin_name.clone())).collect();
    for (source, accepted) in &record.accepted {
        for (pin_name, known) in accepted {
            if offered.contains(&(known.kind, source.clone(), pin_name.clone())) {
                continue;
            }
            items.push(ToolsetItem {
                kind: known.kind,
                source: source.clone(),
                pin_name: pin_name.clone(),
                own_name: pin_name.to_string(),
                pattern: known.pattern.clone(),
                state: ToolsetItemState::Removed,
                current: None,
                accepted: Some(known.digest),
                raw_definition: None,
            });
        }
    }
    items.sort_by(|a, b| (a.kind, &a.source, &a.own_name).cmp(&(b.kind, &b.source, &b.own_name)));
    let rows: Vec<_> = items
        .iter()
        .map(|it| (it.kind, &it.source, &it.pin_name, &it.pattern, it.current))
        .collect();
    let revision = definition_digest(&Json::encode(&(&record.definition, rows)));
    ToolsetReview { items, revision }
}

/// Returns the items to accept. Those of a source that does not answer now stay as they were.
fn items_to_accept(
    record: &ToolsetRecord,
    review: &ToolsetReview,
    catalog: &Catalog,
) -> Result<AcceptedItems, ToolsetError> {
    let is_listed = |source: &SourceName| {
        let found = catalog.find_source(source.as_str());
        found.is_some_and(|it| matches!(it.state, SourceState::Current | SourceState::Stale))
    };
    let unlisted = record.accepted.iter().filter(|(source, _)| !is_listed(source));
    let mut accepted: AcceptedItems =
        unlisted.map(|(source, items)| (source.clone(), items.clone())).collect();
    for item in &review.items {
        let Some(digest) = item.current else { continue };
        let known = AcceptedItem { kind: item.kind, pattern: item.pattern.clone(), digest };
        accepted.entry(item.source.clone()).or_default().insert(item.pin_name.clone(), known);
    }
    let count = accepted.values().map(BTreeMap::len).sum();
    if count > MAX_ITEMS {
        return Err(ToolsetError::TooManyItems(count));
    }
    check_names(&record.definition, &review.items)?;
    Ok(accepted)
}

/// Checks that no given name is that of another selected item.
fn check_names(definition: &ToolsetDefinition, items: &[ToolsetItem]) -> Result<(), ToolsetError> {
    for kind in [ToolsetItemKind::Tool, ToolsetItemKind::Prompt] {
        for entry in definition.entries_of(kind) {
            let Some(name) = &entry.name else { continue };
            let looks: Vec<_> = confusable_skeletons(name).collect();
            let of_kind = items.iter().filter(|it| it.kind == kind && it.current.is_some());
            let mut own = 0;
            for item in of_kind {
                let is_own = item.pattern == entry.pattern;
                own += usize::from(is_own);
                let has_name = !is_own
                    && confusable_skeletons(&item.own_name).any(|look| looks.contains(&look));
                if has_name || own > 1 {
                    return Err(ToolsetError::NameTaken {
                        name: name.clone(),
                        pattern: entry.pattern.clone(),
                        other: format!("{}.{}", item.source, item.own_name),
                    });
                }
            }
        }
    }
    Ok(())
}

impl SourceSupervisor {
    /// Returns the toolsets, which are stored beside the pins.
    pub fn toolset_registry(&self) -> Option<&ToolsetRegistry> {
        self.pin_registry().map(|pins| pins.toolsets())
    }

    /// Sets the toolsets of the configuration.
    pub fn set_configured_toolsets(&self, definitions: Vec<ToolsetDefinition>) {
        let Some(registry) = self.toolset_registry() else { return };
        registry.set_configured(definitions);
        self.publisher.publish_toolsets();
    }

    /// Returns a toolset with its items; `None` for an unknown one.
    pub fn review_toolset(&self, name: &str) -> Option<(ToolsetRecord, ToolsetReview)> {
        let record = self.toolset_registry()?.find_toolset(name)?;
        let now = self.current_snapshot.load_snapshot();
        let review = review(&record, &now.catalog, &now.policy);
        Some((record, review))
    }

    /// Creates a toolset, or changes one, which accepts nothing. A new one accepts what its patterns
    /// select now if `may_accept`. Returns true if it was created.
    ///
    /// # Errors
    /// [`ToolsetError`].
    pub async fn put_toolset(
        &self,
        definition: ToolsetDefinition,
        (changed_by, may_accept): (&Caller, bool),
    ) -> Result<bool, ToolsetError> {
        definition.validate().map_err(ToolsetError::Definition)?;
        let registry = self.toolset_registry().ok_or(ToolsetError::NoStore)?;
        let name = definition.name.clone();
        let before = registry.find_toolset(name.as_str());
        if before.as_ref().is_some_and(|before| before.is_configured) {
            return Err(ToolsetError::Configured(name));
        }
        let (catalog, policy) = (self.catalog(), self.policy());
        if before.is_none() && catalog.find_source(name.as_str()).is_some() {
            return Err(ToolsetError::SourceName(name));
        }
        let is_new = before.is_none();
        let accepted = before.map(|before| before.accepted).unwrap_or_default();
        let record = ToolsetRecord {
            definition: definition.clone(),
            is_configured: false,
            accepted,
            accepted_by: None,
            accepted_at: None,
        };
        let work = move || {
            let review = review(&record, &catalog, &policy);
            items_to_accept(&record, &review, &catalog)
        };
        let items = run_blocking(work).await?;
        let change = if is_new {
            let items = if may_accept { items } else { BTreeMap::new() };
            ToolsetChange::Create(Box::new(definition), items)
        } else {
            ToolsetChange::Define(Box::new(definition))
        };
        registry.write_change(&name, change, changed_by).await?;
        self.publish_toolsets().await;
        Ok(is_new)
    }

    /// Removes a toolset: keys that are bound to it see nothing.
    ///
    /// # Errors
    /// [`ToolsetError`].
    pub async fn remove_toolset(&self, name: &str, by: &Caller) -> Result<(), ToolsetError> {
        let registry = self.toolset_registry().ok_or(ToolsetError::NoStore)?;
        let missing = || ToolsetError::NotFound(name.to_owned());
        let record = registry.find_toolset(name).ok_or_else(missing)?;
        if record.is_configured {
            return Err(ToolsetError::Configured(record.definition.name));
        }
        registry.write_change(&record.definition.name, ToolsetChange::Remove, by).await?;
        self.publish_toolsets().await;
        Ok(())
    }

    /// Accepts what the patterns of a toolset select now, if it is what the owner reviewed.
    ///
    /// # Errors
    /// [`ToolsetError::Changed`] if it is something else by now; others of [`ToolsetError`].
    pub async fn accept_toolset(
        &self,
        name: &str,
        revision: Digest,
        accepted_by: &Caller,
    ) -> Result<(), ToolsetError> {
        let registry = self.toolset_registry().ok_or(ToolsetError::NoStore)?;
        let missing = || ToolsetError::NotFound(name.to_owned());
        let record = registry.find_toolset(name).ok_or_else(missing)?;
        let name = record.definition.name.clone();
        let (catalog, policy) = (self.catalog(), self.policy());
        let work = move || {
            let review = review(&record, &catalog, &policy);
            if review.revision != revision {
                return Err(ToolsetError::Changed(record.definition.name.clone()));
            }
            items_to_accept(&record, &review, &catalog)
        };
        let items = run_blocking(work).await?;
        registry.write_change(&name, ToolsetChange::Accept(items), accepted_by).await?;
        self.publish_toolsets().await;
        Ok(())
    }

    /// Publishes the toolsets; the catalog has them when this resolves.
    async fn publish_toolsets(&self) {
        let publisher = Arc::clone(&self.publisher);
        // Views of large catalogs are built before: not on a thread that others wait for.
        drop(tokio::task::spawn_blocking(move || publisher.publish_toolsets()).await);
    }
}

/// Runs work over a whole catalog on a blocking thread.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolsetError> + Send + 'static,
) -> Result<T, ToolsetError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()).into()))
}
