//! What a built-in tool is, and how one is declared.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use tool::{
    Args, Boxed, CallerType, Code, Context, Effects, ExecuteError, Executor, Granted, Json, Level,
    Outcome, Safety, Scope, Step, Tool, ToolName, Traits,
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

/// What a built-in reaches for.
pub(crate) struct Reach {
    pub(crate) scope: Scope,
    pub(crate) effects: Effects,
    /// Whether it may also be called in a chain.
    pub(crate) chained: bool,
}

impl Reach {
    /// For users, not for guests. What changes something is watched.
    fn traits(self) -> Traits {
        let changes = self.effects.any();
        let callers = if self.chained {
            vec![CallerType::Direct, CallerType::Chain]
        } else {
            vec![CallerType::Direct]
        };
        // Tools that are about files are found among them, whatever they are filed under.
        let files = self.scope == Scope::Filesystem;
        let categories = if files { vec!["file".to_owned()] } else { Vec::new() };
        Traits {
            level: Level::User,
            categories,
            scopes: vec![self.scope],
            safety: if changes { Safety::Cautious } else { Safety::Safe },
            effects: self.effects,
            idempotent: !changes,
            callers,
            ..Traits::default()
        }
    }
}

/// Of what only computes.
fn computing() -> Traits {
    Traits {
        effects: Effects::read_only(),
        idempotent: true,
        callers: vec![CallerType::Direct, CallerType::Chain],
        ..Traits::default()
    }
}

/// Computes an answer from arguments.
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
        self.bound(computing(), Arc::new(Aside(Arc::new(compute))))
    }

    /// Binds the declaration to what computes it: read-only, idempotent and safe, for everyone, alone
    /// or in a chain, because that is what computing without effect is.
    pub(crate) fn pure(self, compute: impl Compute + 'static) -> Builtin {
        self.run_by(Pure(compute))
    }

    /// Binds the declaration to what reaches for something outside, on a thread for what takes long.
    pub(crate) fn reaching(self, reach: Reach, compute: impl Compute + 'static) -> Builtin {
        let executor = Arc::new(Aside(Arc::new(compute)));
        self.bound(reach.traits(), executor)
    }

    /// The same with an executor of its own.
    pub(crate) fn reached_by(self, reach: Reach, executor: impl Executor + 'static) -> Builtin {
        self.bound(reach.traits(), Arc::new(executor))
    }

    /// Binds the declaration to an executor that reads and changes nothing.
    pub(crate) fn run_by(self, executor: impl Executor + 'static) -> Builtin {
        self.bound(computing(), Arc::new(executor))
    }

    fn bound(self, traits: Traits, executor: Arc<dyn Executor>) -> Builtin {
        let mut traits = traits;
        traits.categories.insert(0, self.category.to_owned());
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
