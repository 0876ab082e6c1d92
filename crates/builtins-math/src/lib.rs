//! The built-in tools that compute: mathematics and pictures of it.
//!
//! Apart from `builtins` because of what it is built from: nothing but the binary needs it. No tool here
//! reaches for anything outside; each is a function of its arguments, and of a seed where it draws.

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

mod bayes;
mod bins;
mod calculate;
mod descent;
mod fields;
mod formula;
mod gaussian;
mod integrate;
mod matrix;
mod mcmc;
mod ode;
mod optimize;
mod picture;
mod plot;
mod random;
mod simulate;
mod stats;
mod work;

use std::sync::{Arc, LazyLock};

use builtins::{Builtin, Registry};
use tool::artefact::Artefacts;
use tool::{Clock, Tool};

use work::{Shop, Work};

/// All tools and what computes them.
const TOOLS: &[(&str, Work)] = &[
    ("calculate", calculate::calculate),
    ("statistics", stats::statistics),
    ("monte_carlo", simulate::monte_carlo),
    ("matrix_solve", matrix::solve),
    ("matrix_eigenvalues", matrix::eigenvalues),
    ("matrix_svd", matrix::svd),
    ("matrix_op", matrix::operation),
    ("monte_carlo_native", integrate::native),
    ("solve_ode", ode::solve),
    ("optimize", optimize::optimize),
    ("mcmc", mcmc::mcmc),
    ("bayesopt", bayes::bayesopt),
    ("plot_braille", plot::points),
    ("plot_function", plot::function),
    ("histogram", plot::histogram),
    ("plot_sixel", plot::sixel),
    ("render_math", formula::render),
];

static DECLARED: LazyLock<Registry> = LazyLock::new(declared);

#[expect(clippy::expect_used, reason = "the file is a constant, and every test reads it")]
fn declared() -> Registry {
    let text = include_str!(concat!(env!("OUT_DIR"), "/tool_registry.json"));
    Registry::read(text).expect("tool_registry.yaml is sound")
}

/// The tools, in the order they are listed. `clock` bounds their time; pictures are kept as `artefacts`
/// too, where there are any.
pub fn all(clock: &Arc<dyn Clock>, artefacts: Option<Arc<dyn Artefacts>>) -> Vec<Builtin> {
    let shop = Shop::new(Arc::clone(clock), artefacts);
    let made = |(name, work): &(&str, Work)| Some(DECLARED.get(name)?.run_by(shop.executor(*work)));
    TOOLS.iter().filter_map(made).collect()
}

/// What the tool `name` declares, where it is one of these.
pub fn tool(name: &str) -> Option<Arc<Tool>> {
    Some(Arc::clone(DECLARED.get(name)?.tool()))
}

/// The names of all tools here, in the order they are listed.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests;
