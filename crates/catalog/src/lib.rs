//! Merges the source catalogs into one immutable catalog and reports name conflicts as problems.
//!
//! A source catalog holds the offers of one source, compiled once. The catalog merges all of them:
//! immutable, versioned and swapped atomically, so that a call ends on the catalog that it started
//! with. This crate does no I/O and knows neither sources nor policy.

pub mod canonical_json;
pub mod catalog_entry;
mod companion_items;
mod companion_lookup;
pub mod current_snapshot;
pub mod definition_digest;
pub mod input_schema;
mod known_entries;
pub mod merged_catalog;
mod merged_source;
mod name_changes;
mod name_claims;
pub mod pin;
pub mod source_catalog;
pub mod tool_registry;
mod toolset;
mod uri_template;

pub use catalog_entry::CatalogEntry;
pub use companion_items::CompanionItem;
pub use companion_lookup::{PinnedItem, own_item_name};
pub use current_snapshot::{CatalogSnapshot, CurrentSnapshot};
pub use input_schema::{ArgumentError, InputSchema};
pub use merged_catalog::{Catalog, ToolPosition, split_qualified_name};
pub use merged_source::MergedSource;
pub use name_changes::NameChanges;
pub use pin::{Pin, PinState};
pub use source_catalog::{BlockedTool, SourceCatalog, SourceDefinition, SourceState};
pub use tool_registry::{ConflictPolicy, ToolRegistry};
pub use toolset::{SelectedItem, SourceSelection, Toolset};
