//! What a built-in tool is, and what runs one.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tool::{
    Args, Boxed, Code, Context, ExecuteError, Executor, Granted, Json, Outcome, Scope, Step, Tool,
};

/// A tool and what runs it.
#[derive(Debug, Clone)]
pub struct Builtin {
    /// The definition.
    pub tool: Arc<Tool>,
    /// What runs it.
    pub executor: Arc<dyn Executor>,
    /// What spec 2's tool files call it in `implementation.handler`.
    pub handler: Arc<str>,
}

impl Builtin {
    /// Where it reaches for files, its relative paths begin in this folder.
    pub fn begin_in(&mut self, folder: &str) {
        if self.tool.traits.scopes.contains(&Scope::Filesystem) {
            Arc::make_mut(&mut self.tool).traits.base_folders = Some(vec![folder.to_owned()]);
        }
    }
}

/// Computes an answer from arguments.
pub trait Compute: Send + Sync + fmt::Debug {
    /// The answer, or what is wrong with the arguments, for the model.
    fn compute(&self, args: &Args) -> Result<Json, String>;

    /// See [`Executor::check_args`].
    fn check_args(&self, _args: &Args) -> Result<(), String> {
        Ok(())
    }
}

/// Computes at once.
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

/// The same on a thread for what takes long, so that no other call waits for it.
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
            let computed = tokio::task::spawn_blocking(move || compute.compute(&args)).await;
            let fault = |_| ExecuteError::during(Code::Internal, "a fault in the built-in tool");
            Ok(Step::Done(outcome(computed.map_err(fault)?)))
        })
    }

    fn check_args(&self, args: &Args) -> Result<(), String> {
        self.0.check_args(args)
    }
}

/// What a tool computed, as its outcome.
pub fn outcome(computed: Result<Json, String>) -> Outcome {
    match computed {
        Ok(value) => Outcome::value(value),
        Err(message) => Outcome::failed(&message),
    }
}

/// What a tool answers, or why it fails, as the end of its call.
pub fn ended(answer: Result<Value, String>) -> Step {
    Step::Done(match answer {
        Ok(found) => Outcome::value(Json::of(&found)),
        Err(why) => Outcome::failed(&why),
    })
}
