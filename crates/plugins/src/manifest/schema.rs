//! The published JSON Schema of manifests. It says less than the rules do, never other things.

/// JSON Schema 2020-12 of `manifest.json`.
pub const SCHEMA: &str = include_str!("schema.json");
