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

use builtin_manifests::Family;
use std::sync::Arc;

use tool::Clock;
use tool::artefact::Artefacts;
use tool_manifest::Builtin;

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

/// The tools, in the order they are listed. `clock` bounds their time; pictures are kept as `artefacts`
/// too, where there are any.
pub fn all(clock: &Arc<dyn Clock>, artefacts: Option<Arc<dyn Artefacts>>) -> Vec<Builtin> {
    let shop = Shop::new(Arc::clone(clock), artefacts);
    let made = |(name, work): &(&str, Work)| {
        Some(Family::Math.registry().get(name)?.run_by(shop.executor(*work)))
    };
    TOOLS.iter().filter_map(made).collect()
}

#[cfg(test)]
mod tests;
