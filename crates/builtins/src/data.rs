//! Tools that create, convert and query data.

pub(crate) mod artifact_tools;
pub(crate) mod csv_to_json;
pub(crate) mod generate_uuid;
pub(crate) mod json_query;
pub(crate) mod json_to_csv;
pub(crate) mod sql_query;
