//! Tools that make and change data.

pub(crate) mod generate_uuid;
