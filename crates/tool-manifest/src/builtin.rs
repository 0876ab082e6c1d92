//! A built-in tool: its definition and its executor.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tool::{
    Args, Boxed, Context, ExecuteError, Executor, Granted, Json, Outcome, Scope, Step, Tool,
};

use crate::blocking::run_blocking;

/// A built-in tool with its executor.
#[derive(Debug, Clone)]
pub struct Builtin {
    /// Definition of the tool.
    pub tool: Arc<Tool>,
    /// Executor that runs the tool.
    pub executor: Arc<dyn Executor>,
    /// Name of the tool in `implementation.handler` of spec 2's tool files.
    pub handler: Arc<str>,
}

impl Builtin {
    /// Sets the folder in which relative paths begin, if the tool accesses files.
    pub fn begin_in(&mut self, folder: &str) {
        if self.tool.traits.scopes.contains(&Scope::Filesystem) {
            Arc::make_mut(&mut self.tool).traits.base_folders = Some(vec![folder.to_owned()]);
        }
    }
}

/// A function of a tool: computes a result from its arguments.
pub trait Compute: Send + Sync + fmt::Debug {
    /// Computes the result, or returns an error message for the model.
    fn compute(&self, args: &Args) -> Result<Json, String>;

    /// See [`Executor::check_args`].
    fn check_args(&self, _args: &Args) -> Result<(), String> {
        Ok(())
    }
}

/// Runs a function on the calling task.
#[derive(Debug)]
pub struct Pure<T>(pub(crate) T);

impl<T: Compute> Executor for Pure<T> {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let outcome = outcome(self.0.compute(&call.call().args));
        Box::pin(std::future::ready(Ok(Step::Done(outcome))))
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        self.0.check_args(args)
    }
}

/// Runs a function on a blocking thread, so that it delays no other call.
#[derive(Debug)]
pub struct Aside<T>(pub(crate) Arc<T>);

impl<T: Compute + 'static> Executor for Aside<T> {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let (compute, args) = (Arc::clone(&self.0), call.call().args.clone());
        Box::pin(async move {
            let computed = run_blocking(CancellationToken::new(), move || compute.compute(&args));
            Ok(Step::Done(outcome(computed.await?)))
        })
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        self.0.check_args(args)
    }
}

/// Converts a computed result to the outcome of the call.
pub fn outcome(computed: Result<Json, String>) -> Outcome {
    match computed {
        Ok(value) => Outcome::value(value),
        Err(message) => Outcome::failed(&message),
    }
}

/// Converts a JSON result or an error message to the completed call.
pub fn ended(answer: Result<Value, String>) -> Step {
    Step::Done(match answer {
        Ok(found) => Outcome::value(Json::of(&found)),
        Err(why) => Outcome::failed(&why),
    })
}
