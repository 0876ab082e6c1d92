//! Tools of spec 3's kinds `python` and `cpp`: the file names the code, a port runs it.

use std::sync::Arc;

use tool::{
    Boxed, Code as ErrorCode, Context, Effect, Effects, ExecuteError, Executor, Granted, Json,
    Listing, Offer, Problem, Scope, Step, Tool, Traits,
};

use super::fields::{Fault, Fields, Result};
use super::implementation::Implementation;

/// What runs a tool of spec 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Function {
    /// A function of a Python module below the file's folder.
    Python {
        /// Dotted.
        module: String,
        /// Its name.
        function: String,
    },
    /// A program that takes one JSON object and answers with one.
    Program {
        /// Its name or its path below the file's folder.
        binary: String,
        /// What it is to do, in its own word.
        command: String,
    },
}

/// One tool whose code is to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    /// Its name in the file.
    pub tool: String,
    /// What it names.
    pub function: Function,
    /// The schema of its arguments.
    pub input: Json,
    /// What it reaches for.
    pub scopes: Vec<Scope>,
    /// Whether it says that it writes files.
    pub writes: bool,
}

/// What is run now.
#[derive(Debug)]
pub struct Hosted {
    /// Counts the states of the code, from 1.
    pub revision: u64,
    /// The hash of the code, for pins.
    pub content: Json,
    /// Of each tool that was asked for, in their order: what runs it, or why nothing does.
    pub tools: Vec<std::result::Result<Arc<dyn Executor>, Problem>>,
    /// What else is wrong, such as a change of the code that is not taken.
    pub problems: Vec<Problem>,
}

/// Runs the code of one tool file.
pub trait Host: Send + Sync + std::fmt::Debug {
    /// Has all of `code` run, and nothing else from then on.
    fn host(&self, code: Vec<Code>) -> Boxed<'_, Hosted>;

    /// Resolves when the code is another than that of `seen`.
    fn changed(&self, seen: u64) -> Boxed<'_, u64>;

    /// Ends it.
    fn close(&self);
}

/// Reads `module` and `function`, or `binary` and `command`.
pub(super) fn read(
    (name, kind): (&str, &str),
    fields: &Fields,
    host: Option<&Arc<dyn Host>>,
) -> Result<Implementation> {
    if host.is_none() {
        let told = format!("Tool \"{name}\" of type {kind} needs a plugin");
        return Err(Fault::new(told).fix("this program runs no code; make it `http`"));
    }
    let text = |key: &str| {
        let text = fields.text(key)?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| {
            Fault::new(format!("Tool \"{name}\" of type {kind} must have a \"{key}\""))
        })
    };
    let function = if kind == "python" {
        Function::Python { module: text("module")?, function: text("function")? }
    } else {
        Function::Program { binary: text("binary")?, command: text("command")? }
    };
    // Whatever it does, it is this machine that does it.
    let traits = Traits { level: tool::Level::User, ..Traits::default() };
    Ok(Implementation { executor: Arc::new(Unhosted), traits, code: Some(function), own: None })
}

impl Code {
    pub(super) fn of(tool: &Tool, function: Function) -> Self {
        let writes = match &tool.traits.effects {
            Effects::Declared(effects) => effects.contains(&Effect::ModifiesFiles),
            Effects::Unknown => false,
        };
        Self {
            tool: tool.name.to_string(),
            function,
            input: tool.input.clone(),
            scopes: tool.traits.scopes.clone(),
            writes,
        }
    }
}

/// Tools of a listing that are to be run: which offer, its place, and the code.
pub(super) type Wanted = Vec<(usize, String, Code)>;

/// Puts what runs them in the place of those that nothing runs yet; takes out what cannot be run.
pub(super) async fn hosted(host: &dyn Host, listing: &mut Listing, wanted: Wanted) -> u64 {
    let code = wanted.iter().map(|(_, _, code)| code.clone()).collect();
    let Hosted { revision, content, tools, problems } = host.host(code).await;
    listing.problems.extend(problems);
    let mut out = Vec::new();
    for ((at, place, _), runs) in wanted.into_iter().zip(tools) {
        match (runs, listing.offers.get_mut(at)) {
            (Ok(executor), Some(offer)) => take(offer, executor, &content),
            (Err(problem), _) => {
                out.push(at);
                listing.problems.push(Problem { place, ..problem });
            }
            (Ok(_), None) => {}
        }
    }
    let mut at = 0;
    listing.offers.retain(|_| {
        at += 1;
        !out.contains(&(at - 1))
    });
    revision
}

fn take(offer: &mut Offer, executor: Arc<dyn Executor>, content: &Json) {
    offer.executor = executor;
    if let tool::Item::Tool(tool) = &mut offer.item {
        let received = Json::fields([("tool", &tool.received), ("content", content)]);
        *tool = Arc::new(Tool { received, ..Tool::clone(tool) });
    }
}

/// Stands where code is to come; it never stays in a listing.
#[derive(Debug)]
struct Unhosted;

impl Executor for Unhosted {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, std::result::Result<Step, ExecuteError>> {
        let told = format!("the code of `{}` is not run", call.call().key.name);
        Box::pin(std::future::ready(Err(ExecuteError::before(ErrorCode::UpstreamLost, told))))
    }
}
