//! Tools that make and change data.

pub(crate) mod artefacts;
pub(crate) mod generate_uuid;
