//! Built-in tools for mathematics and plots.
//!
//! Separate from `builtins` because of its dependencies, which only the binary needs. The tools
//! access nothing outside: each is a function of its arguments and, for random numbers, of a seed.

#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]

mod bayesian_optimization;
mod calculate;
mod descriptive_statistics;
mod gaussian_process;
mod histogram_bins;
mod image_content;
mod latex_render;
mod local_minimizers;
mod matrix_tools;
mod mcmc;
mod monte_carlo;
mod monte_carlo_native;
mod ode_solver;
mod optimize;
mod plot;
mod random_streams;
mod tool_arguments;
mod tool_execution;

use builtin_manifests::ToolFamily;
use std::sync::Arc;

use tool::Clock;
use tool::artifact::ArtifactStore;
use tool_manifest::BuiltinTool;

use tool_execution::{SharedResources, ToolComputation};

/// Names and implementations of all tools.
const TOOLS: &[(&str, ToolComputation)] = &[
    ("calculate", calculate::run_calculate),
    ("statistics", descriptive_statistics::run_statistics),
    ("monte_carlo", monte_carlo::run_monte_carlo),
    ("matrix_solve", matrix_tools::matrix_solve),
    ("matrix_eigenvalues", matrix_tools::matrix_eigenvalues),
    ("matrix_svd", matrix_tools::matrix_svd),
    ("matrix_op", matrix_tools::matrix_operation),
    ("monte_carlo_native", monte_carlo_native::run_monte_carlo_native),
    ("solve_ode", ode_solver::solve_ode),
    ("optimize", optimize::run_optimize),
    ("mcmc", mcmc::run_mcmc),
    ("bayesopt", bayesian_optimization::run_bayesopt),
    ("plot_braille", plot::plot_braille),
    ("plot_function", plot::plot_function),
    ("histogram", plot::plot_histogram),
    ("plot_sixel", plot::plot_sixel),
    ("render_math", latex_render::render_formula),
];

/// Creates the tools, in listing order. `clock` limits their time. Images are also stored as
/// `artifacts`, if there is a store.
pub fn math_tools(
    clock: &Arc<dyn Clock>,
    artifacts: Option<Arc<dyn ArtifactStore>>,
) -> Vec<BuiltinTool> {
    let shared = SharedResources::new(Arc::clone(clock), artifacts);
    let made = |(name, computation): &(&str, ToolComputation)| {
        Some(
            ToolFamily::Math
                .registry()
                .find_tool(name)?
                .with_executor(shared.build_executor(*computation)),
        )
    };
    TOOLS.iter().filter_map(made).collect()
}

#[cfg(test)]
mod tests;
