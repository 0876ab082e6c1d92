//! Edits of the configuration file: an entry is inserted as text, and everything else stays as it is,
//! comments included. The new text is validated by the configuration loader before it is written.
//! Documents of published MCP servers become such entries.

mod ai_catalog;
mod server_document;
mod source_addition;
mod yaml_insertion;

pub use ai_catalog::{AiCatalog, CardLocation};
pub use server_document::{
    ImportError, ImportErrorKind, InputAnswers, MAX_DOCUMENT_BYTES, ServerDocument, ServerInput,
    ServerPlan, ServerVariant, is_server_name,
};
pub use source_addition::{ConfigEdit, EditError, EditErrorKind, SourceAddition};
