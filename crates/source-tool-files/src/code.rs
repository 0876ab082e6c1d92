//! Tools of spec 3's kinds `python` and `cpp`: the file names the code, and a code host runs it.

use std::sync::Arc;

use tool::{
    Boxed, Code as ErrorCode, Context, Effect, Effects, ExecuteError, Executor, Granted, Json,
    Listing, Offer, Problem, Scope, Step, Tool, Traits,
};

use super::fields::{Fault, Fields, Result};
use super::implementation::Implementation;

/// Entry point of a tool of spec 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Function {
    /// A function of a Python module below the file's folder.
    Python {
        /// Dotted name of the module.
        module: String,
        /// Name of the function.
        function: String,
    },
    /// A program that reads one JSON object and writes one.
    Program {
        /// Name of the program, or its path below the file's folder.
        binary: String,
        /// Command that the program executes.
        command: String,
    },
}

/// One tool whose code the host runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    /// Name of the tool in the file.
    pub tool: String,
    /// Entry point that the tool names.
    pub function: Function,
    /// JSON Schema of the arguments.
    pub input: Json,
    /// Scopes that the tool needs.
    pub scopes: Vec<Scope>,
    /// Whether the tool declares that it writes files.
    pub writes: bool,
}

/// Code that the host runs now.
#[derive(Debug)]
pub struct Hosted {
    /// Revision of the code, from 1.
    pub revision: u64,
    /// Digest of the code, for pins.
    pub content: Json,
    /// Executor of each requested tool in order, or the problem that prevents it.
    pub tools: Vec<std::result::Result<Arc<dyn Executor>, Problem>>,
    /// Further problems, such as a change of the code that was not applied.
    pub problems: Vec<Problem>,
}

/// Port that runs the code of one tool file.
pub trait Host: Send + Sync + std::fmt::Debug {
    /// Loads `code`, and nothing else from then on.
    fn host(&self, code: Vec<Code>) -> Boxed<'_, Hosted>;

    /// Resolves when the code differs from the one of revision `seen`.
    fn changed(&self, seen: u64) -> Boxed<'_, u64>;

    /// Shuts the host down.
    fn close(&self);
}

/// Parses `module` and `function`, or `binary` and `command`.
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
    // The code runs on this machine, whatever it does.
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

/// Tools of a listing that need executors: index of the offer, location and code.
pub(super) type Wanted = Vec<(usize, String, Code)>;

/// Replaces placeholder executors with those of the host, and removes tools that the host cannot
/// run.
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

/// Placeholder executor, which is replaced before a listing is complete.
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
