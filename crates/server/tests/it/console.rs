//! Tests of the web console.

mod access_matrix;
mod forms;
mod issuer_sign_in;
mod live_calls;
mod node_pages;
mod operator_pages;
mod page_sizes;
mod pages;
mod plugin_pages;
mod sessions;
mod sign_in_links;
mod source_addition;
mod toolset_pages;
mod try_tool;
