//! Tests of the web console.

mod forms;
mod pages;
mod sessions;
mod sign_in_links;
mod try_tool;
