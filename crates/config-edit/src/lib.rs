//! Edits of the configuration file: an entry is inserted as text, and everything else stays as it is,
//! comments included. The new text is validated by the configuration loader before it is written.

mod source_addition;
mod yaml_insertion;

pub use source_addition::{ConfigEdit, EditError, EditErrorKind, SourceAddition};
