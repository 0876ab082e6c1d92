//! Tests of the web console.

mod forms;
mod operator_pages;
mod page_sizes;
mod pages;
mod sessions;
mod sign_in_links;
mod try_tool;
