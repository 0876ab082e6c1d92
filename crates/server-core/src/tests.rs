//! Tests of several modules together.

mod catalog_model;
mod random_changes;
