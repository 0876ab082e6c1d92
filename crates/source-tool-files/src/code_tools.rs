//! Tools of the research registry's kinds `python` and `cpp`: the file names the code, and a code
//! host runs it.

use std::sync::Arc;

use tool::{
    AccessScope, BoxFuture, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, Json,
    Offer, Problem, RecordedCall, SideEffect, SideEffects, SourceListing, Tool, ToolTraits,
};

use super::field_reader::{EntryError, EntryFields, EntryResult};
use super::implementation::FileToolImplementation;

/// Entry point of a research-registry tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeEntryPoint {
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
pub struct CodeTool {
    /// Name of the tool in the file.
    pub tool_name: String,
    /// Entry point that the tool names.
    pub entry_point: CodeEntryPoint,
    /// JSON Schema of the arguments.
    pub input_schema: Json,
    /// Scopes that the tool needs.
    pub scopes: Vec<AccessScope>,
    /// Whether the tool declares that it writes files.
    pub writes_files: bool,
}

/// Code that the host runs now.
#[derive(Debug)]
pub struct HostedCode {
    /// Revision of the code, from 1.
    pub revision: u64,
    /// Digest of the code, for pins.
    pub content_digest: Json,
    /// Executor of each requested tool in order, or the problem that prevents it.
    pub executors: Vec<std::result::Result<Arc<dyn Executor>, Problem>>,
    /// Further problems, such as a change of the code that was not applied.
    pub problems: Vec<Problem>,
}

/// Port that runs the code of one tool file.
pub trait CodeHost: Send + Sync + std::fmt::Debug {
    /// Loads `code`, and nothing else from then on.
    fn load_code(&self, code: Vec<CodeTool>) -> BoxFuture<'_, HostedCode>;

    /// Resolves when the code differs from the one of revision `seen`.
    fn wait_for_change(&self, seen: u64) -> BoxFuture<'_, u64>;

    /// Shuts the host down.
    fn shut_down(&self);
}

/// Parses `module` and `function`, or `binary` and `command`.
pub(super) fn parse_code_tool(
    (name, kind): (&str, &str),
    fields: &EntryFields,
    host: Option<&Arc<dyn CodeHost>>,
) -> EntryResult<FileToolImplementation> {
    if host.is_none() {
        let message = format!("Tool \"{name}\" of type {kind} needs a plugin");
        return Err(EntryError::new(message).with_help(
            "code is not supported here; use the type \
            `http`",
        ));
    }
    let text = |key: &str| {
        let text = fields.string_field(key)?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| {
            EntryError::new(format!("Tool \"{name}\" of type {kind} must have a \"{key}\""))
        })
    };
    let function = if kind == "python" {
        CodeEntryPoint::Python { module: text("module")?, function: text("function")? }
    } else {
        CodeEntryPoint::Program { binary: text("binary")?, command: text("command")? }
    };
    // The code runs on this machine, whatever it does.
    let traits = ToolTraits { min_level: tool::PermissionLevel::User, ..ToolTraits::default() };
    Ok(FileToolImplementation {
        executor: Arc::new(UnhostedExecutor),
        traits,
        entry_point: Some(function),
        own_schema: None,
        is_reusable: false,
    })
}

impl CodeTool {
    pub(super) fn from_tool(tool: &Tool, function: CodeEntryPoint) -> Self {
        let writes = match &tool.traits.effects {
            SideEffects::Declared(effects) => effects.contains(&SideEffect::ModifiesFiles),
            SideEffects::Unknown => false,
        };
        Self {
            tool_name: tool.name.to_string(),
            entry_point: function,
            input_schema: tool.input_schema.clone(),
            scopes: tool.traits.scopes.clone(),
            writes_files: writes,
        }
    }
}

/// Tool of a listing that needs an executor.
#[derive(Debug)]
pub(super) struct PendingCodeTool {
    /// Index of its offer in the listing.
    pub(super) offer_index: usize,
    /// Place in the file, for problems.
    pub(super) location: String,
    pub(super) code: CodeTool,
}

/// Replaces placeholder executors with those of the host, and removes tools that the host cannot
/// run.
pub(super) async fn attach_executors(
    host: &dyn CodeHost,
    listing: &mut SourceListing,
    pending: Vec<PendingCodeTool>,
) -> u64 {
    let code = pending.iter().map(|tool| tool.code.clone()).collect();
    let HostedCode { revision, content_digest: content, executors: tools, problems } =
        host.load_code(code).await;
    listing.problems.extend(problems);
    let mut removed_offers = Vec::new();
    for (PendingCodeTool { offer_index, location, .. }, result) in pending.into_iter().zip(tools) {
        match (result, listing.offers.get_mut(offer_index)) {
            (Ok(executor), Some(offer)) => set_executor(offer, executor, &content),
            (Err(problem), _) => {
                removed_offers.push(offer_index);
                listing.problems.push(Problem { location, ..problem });
            }
            (Ok(_), None) => {}
        }
    }
    let mut at = 0;
    listing.offers.retain(|_| {
        at += 1;
        !removed_offers.contains(&(at - 1))
    });
    revision
}

fn set_executor(offer: &mut Offer, executor: Arc<dyn Executor>, content_digest: &Json) {
    offer.executor = executor;
    if let tool::CatalogItem::Tool(tool) = &mut offer.item {
        let received =
            Json::object_from([("tool", &tool.raw_definition), ("content", content_digest)]);
        *tool = Arc::new(Tool { raw_definition: received, ..Tool::clone(tool) });
    }
}

/// Placeholder executor, which is replaced before a listing is complete.
#[derive(Debug)]
struct UnhostedExecutor;

impl Executor for UnhostedExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, std::result::Result<ExecutionState, ExecuteError>> {
        let told = format!("the code of `{}` is not executed", call.call().tool_key.name);
        Box::pin(std::future::ready(Err(ExecuteError::not_sent(ErrorCode::UpstreamLost, told))))
    }
}
