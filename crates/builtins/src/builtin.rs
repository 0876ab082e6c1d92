//! What a built-in tool is, and how one is declared.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use tool::{
    Args, Boxed, CallerType, Code, Context, Effects, ExecuteError, Executor, Granted, Json,
    Outcome, Step, Tool, ToolName, Traits,
};

/// A tool and what runs it.
#[derive(Debug, Clone)]
pub struct Builtin {
    /// The definition.
    pub tool: Arc<Tool>,
    /// What runs it.
    pub executor: Arc<dyn Executor>,
    /// What spec 2's tool files call it in `implementation.handler`.
    pub handler: &'static str,
}

/// What a built-in says of itself.
pub(crate) struct Declaration {
    pub(crate) name: &'static str,
    pub(crate) handler: &'static str,
    pub(crate) category: &'static str,
    pub(crate) description: &'static str,
    pub(crate) input: Value,
    pub(crate) output: Value,
}

/// Computes an answer from arguments, at once and without effect.
pub(crate) trait Compute: Send + Sync + fmt::Debug {
    /// The answer, or what is wrong with the arguments, for the model.
    fn compute(&self, args: &Args) -> Result<Json, String>;
}

#[derive(Debug)]
struct Pure<T>(T);

impl<T: Compute> Executor for Pure<T> {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let outcome = outcome(self.0.compute(&call.call().args));
        Box::pin(std::future::ready(Ok(Step::Done(outcome))))
    }
}

/// The same on a thread for what takes long, so that no other call waits for it.
#[derive(Debug)]
struct Aside<T>(Arc<T>);

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
}

fn outcome(computed: Result<Json, String>) -> Outcome {
    match computed {
        Ok(value) => Outcome::value(value),
        Err(message) => Outcome::failed(&message),
    }
}

impl Declaration {
    /// Binds the declaration to what computes it, where that may take longer than a millisecond. All
    /// else as with [`pure`](Self::pure).
    pub(crate) fn aside(self, compute: impl Compute + 'static) -> Builtin {
        self.bound(Arc::new(Aside(Arc::new(compute))))
    }

    /// Binds the declaration to what computes it: read-only, idempotent and safe, for everyone, alone
    /// or in a chain, because that is what computing without effect is.
    pub(crate) fn pure(self, compute: impl Compute + 'static) -> Builtin {
        self.bound(Arc::new(Pure(compute)))
    }

    fn bound(self, executor: Arc<dyn Executor>) -> Builtin {
        let traits = Traits {
            categories: vec![self.category.to_owned()],
            effects: Effects::read_only(),
            idempotent: true,
            callers: vec![CallerType::Direct, CallerType::Chain],
            ..Traits::default()
        };
        let received = json!({
            "name": self.name,
            "description": self.description,
            "type": "function",
            "parameters": self.input,
            "output": self.output,
            "implementation": { "type": "builtin", "handler": self.handler },
        });
        let tool = Tool {
            name: fixed_name(self.name),
            title: None,
            description: self.description.to_owned(),
            input: Json::of(&self.input),
            output: Some(Json::of(&self.output)),
            traits,
            received: Json::of(&received),
        };
        Builtin { tool: Arc::new(tool), executor, handler: self.handler }
    }
}

#[expect(clippy::expect_used, reason = "the names are constants, and a test makes every built-in")]
fn fixed_name(name: &'static str) -> ToolName {
    ToolName::new(name).expect("a built-in has a valid name")
}
