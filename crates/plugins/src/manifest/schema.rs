//! The published JSON Schema of manifests. Every manifest that it rejects is rejected here too.

/// JSON Schema 2020-12 of `manifest.json`.
pub const SCHEMA: &str = include_str!("schema.json");
