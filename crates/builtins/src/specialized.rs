//! Tools of the category `specialized`.

pub(crate) mod echo;
