//! Tools that tell about the system.

pub(crate) mod current_datetime;
