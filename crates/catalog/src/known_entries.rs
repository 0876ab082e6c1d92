//! Compiled entries of a source's last listing, which the next one reuses.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use tool::{Executor, Json, Org, Tool};

use crate::catalog_entry::CatalogEntry;
use crate::source_catalog::SourceCatalog;

/// Entries of a source catalog by name.
pub(crate) struct KnownEntries<'a> {
    source_catalog: &'a SourceCatalog,
    org: &'a Org,
    /// Made for the first tool that is not where it was.
    by_name: OnceCell<HashMap<&'a str, &'a Arc<CatalogEntry>>>,
}

impl<'a> KnownEntries<'a> {
    pub(crate) fn new(source_catalog: &'a SourceCatalog, org: &'a Org) -> Self {
        Self { source_catalog, org, by_name: OnceCell::new() }
    }

    /// Returns the entry of a tool: that of the last listing if definition and executor are the
    /// same, or else a new one. `index` is the tool's index if it is where it was.
    ///
    /// # Errors
    /// A message about the invalid schema.
    pub(crate) fn reuse_or_compile(
        &self,
        index: usize,
        tool: Arc<Tool>,
        executor: Arc<dyn Executor>,
    ) -> Result<Arc<CatalogEntry>, String> {
        if let Some(known) = self.find_entry(index, &tool) {
            return Ok(if known.has_executor(&executor) {
                Arc::clone(known)
            } else {
                Arc::new(known.with_executor(executor))
            });
        }
        let source = self.source_catalog.source.clone();
        let tool = with_own_text(tool);
        let entry = CatalogEntry::new(self.org.clone(), source, tool, executor)?;
        Ok(Arc::new(entry.with_durability(self.source_catalog.durability)))
    }

    fn find_entry(&self, index: usize, tool: &Arc<Tool>) -> Option<&'a Arc<CatalogEntry>> {
        let has_name = |entry: &&Arc<CatalogEntry>| entry.tool_key.name == tool.name;
        let there = self.source_catalog.tools.get(index).filter(has_name);
        let known = there.or_else(|| self.by_name().get(tool.name.as_str()).copied())?;
        let is_same = known.is_of_definition(tool)
            && known.tool_key.org == *self.org
            && known.durability == self.source_catalog.durability;
        is_same.then_some(known)
    }

    fn by_name(&self) -> &HashMap<&'a str, &'a Arc<CatalogEntry>> {
        self.by_name.get_or_init(|| {
            let held = self.source_catalog.blocked.iter().map(|held| &held.entry);
            let all = self.source_catalog.tools.iter().chain(&self.source_catalog.methods);
            all.chain(held).map(|entry| (entry.tool_key.name.as_str(), entry)).collect()
        })
    }
}

/// Returns a tool whose texts keep no larger one, such as a whole listing, in memory: the listings
/// that follow reuse its entry. A source that shares the tool has seen to that itself.
fn with_own_text(mut tool: Arc<Tool>) -> Arc<Tool> {
    let Some(own) = Arc::get_mut(&mut tool) else { return tool };
    let raw = copy_text(&own.raw_definition);
    own.input_schema = part_of(&raw, &own.input_schema);
    own.output_schema = own.output_schema.as_ref().map(|schema| part_of(&raw, schema));
    own.raw_definition = raw;
    tool
}

/// Returns a schema as a slice of the definition that has it, or as a copy.
fn part_of(definition: &Json, schema: &Json) -> Json {
    let mut members = SCHEMA_MEMBERS.iter().filter_map(|name| definition.get(name));
    members.find(|member| member == schema).unwrap_or_else(|| copy_text(schema))
}

fn copy_text(json: &Json) -> Json {
    Json::from_trusted(json.as_str().to_owned())
}

/// Members of definitions that hold schemas.
const SCHEMA_MEMBERS: [&str; 4] = ["inputSchema", "outputSchema", "parameters", "input_schema"];
