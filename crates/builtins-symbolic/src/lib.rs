//! The built-in tool that solves equations symbolically.
//!
//! A crate of its own for what it is made of: a computer algebra system, a minute to compile. That has no
//! deadline, so it runs in the worker that `builtins` keeps in a cage, and is ended when its time is over.
//! Nothing is answered that was not put into the equations again, by arithmetic of our own.

mod lower;
mod read;
mod root;
mod show;
mod solve;
mod value;

use builtin_manifests::Family;
use std::sync::Arc;
use std::time::Duration;

use builtins::{Cages, Extra, Job, Workers};
use tool::{Boxed, Context, ExecuteError, Executor, Granted, Step};
use tool_manifest::Builtin;

pub use solve::solve;

/// What a worker is asked to do, and the longest it may take.
pub const JOB: Job = Job::new(b'E', Duration::from_secs(10));

/// What a worker must be able to do beside its own jobs: to be handed to `builtins::work`.
pub const EXTRA: Extra = (JOB, solve);

/// The tools, in the order they are listed. They run in workers of `cages`.
pub fn all(cages: &Arc<Cages>) -> Vec<Builtin> {
    let workers = Arc::new(Workers::new(Arc::clone(cages)));
    let made = |declared: &tool_manifest::Declared| declared.run_by(Solving(Arc::clone(&workers)));
    Family::Symbolic.registry().get("symbolic_solve").map(made).into_iter().collect()
}

#[derive(Debug)]
struct Solving(Arc<Workers>);

impl Executor for Solving {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let args = call.call().args.raw();
        Box::pin(self.0.run(JOB, args, ctx))
    }
}

#[cfg(test)]
mod tests;
