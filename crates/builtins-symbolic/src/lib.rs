//! The built-in tool that solves equations in symbols.
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

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use builtins::{Builtin, Cages, Extra, Job, Registry, Workers};
use tool::{Boxed, Context, ExecuteError, Executor, Granted, Step, Tool};

pub use solve::solve;

/// What a worker is asked to do, and the longest it may take.
pub const JOB: Job = Job::new(b'E', Duration::from_secs(10));

/// What a worker must be able to do beside its own jobs: to be handed to `builtins::work`.
pub const EXTRA: Extra = (JOB, solve);

static DECLARED: LazyLock<Registry> = LazyLock::new(declared);

#[expect(clippy::expect_used, reason = "the file is a constant, and every test reads it")]
fn declared() -> Registry {
    let text = include_str!(concat!(env!("OUT_DIR"), "/tool_registry.json"));
    Registry::read(text).expect("tool_registry.yaml is sound")
}

/// The tools, in the order they are listed. They run in workers of `cages`.
pub fn all(cages: &Arc<Cages>) -> Vec<Builtin> {
    let workers = Arc::new(Workers::new(Arc::clone(cages)));
    let made = |declared: &builtins::Declared| declared.run_by(Solving(Arc::clone(&workers)));
    DECLARED.get("symbolic_solve").map(made).into_iter().collect()
}

/// What the tool `name` declares, where it is one of these.
pub fn tool(name: &str) -> Option<Arc<Tool>> {
    Some(Arc::clone(DECLARED.get(name)?.tool()))
}

/// The names of all tools here, in the order they are listed.
pub fn names() -> impl Iterator<Item = &'static str> {
    DECLARED.names()
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
