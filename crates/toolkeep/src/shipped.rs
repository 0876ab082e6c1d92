//! The built-in tools of all crates, whether or not they can be offered here.

use std::sync::Arc;

use tool::Tool;

/// Their names, in the order of the crates.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    builtins::names()
        .chain(builtins_math::names())
        .chain(builtins_symbolic::names())
        .chain(builtins_llm::names())
        .chain(programs::names())
}

/// The declaration of the built-in tool `name`, where there is one.
pub(crate) fn tool(name: &str) -> Option<Arc<Tool>> {
    builtins::tool(name)
        .or_else(|| builtins_math::tool(name))
        .or_else(|| builtins_symbolic::tool(name))
        .or_else(|| builtins_llm::tool(name))
        .or_else(|| programs::tool(name))
}
