//! Tests of the web console.

mod forms;
mod pages;
mod sessions;
mod try_tool;
