//! A program with tools of its own: what docs/guide/embed.md shows.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use catalog::{ConflictPolicy, ToolRegistry};
use formats::{ProviderFormat, ToolCallResult, render_tool_schemas};
use gateway::result_formats::{ModelToolCall, ToolRunner};
use gateway::{Gateway, GatewayComponents};
use identity::{KeyId, KeyRing, NewKey, Principal};
use ledger::{FileLedger, OsDisk};
use serde_json::json;
use tool::{
    BoxFuture, CallContext, Clock, ExecuteError, ExecutionState, Executor, Json, MonotonicTime,
    Outcome, RecordedCall, SafetyLevel, Secret, SideEffects, SourceName, Tool, ToolName, WallTime,
};

/// Runs `look.up`.
#[derive(Debug)]
struct LookUp;

impl Executor for LookUp {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(async move {
            let word = call.call().arguments.as_json().get("word");
            let meaning = json!({"word": word, "meaning": "a board"});
            Ok(ExecutionState::Completed(Outcome::from_value(Json::encode(&meaning))))
        })
    }
}

fn registry() -> Result<ToolRegistry, Box<dyn Error>> {
    let mut registry = ToolRegistry::new(SourceName::new("mine")?);
    let schema =
        json!({"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]});
    let mut look_up =
        Tool::new(ToolName::new("look.up")?, "Looks a word up.", Json::encode(&schema));
    look_up.traits.effects = SideEffects::read_only();
    registry.register_tool(Arc::new(look_up), Arc::new(LookUp), ConflictPolicy::KeepFirst)?;
    let mut wipe = Tool::new(
        ToolName::new("wipe")?,
        "Forgets all words.",
        Json::encode(&json!({"type": "object"})),
    );
    wipe.traits.safety = SafetyLevel::Dangerous;
    registry.register_tool(Arc::new(wipe), Arc::new(LookUp), ConflictPolicy::KeepFirst)?;
    Ok(registry)
}

/// The `tools` of a request in each format.
pub(super) fn run() -> Result<Vec<(ProviderFormat, String)>, Box<dyn Error>> {
    let registry = registry()?;
    let mut all = Vec::new();
    for format in ProviderFormat::ALL {
        let cautious = registry.filter_tools(Some(SafetyLevel::Cautious), None);
        let schemas = render_tool_schemas(*format, cautious.map(|entry| &*entry.tool));
        all.push((*format, schemas.tools.as_str().to_owned()));
    }
    Ok(all)
}

/// The system's clock.
#[derive(Debug)]
struct SystemClock;

#[expect(clippy::disallowed_methods, reason = "this is a program, whose clock is the system's")]
impl Clock for SystemClock {
    fn wall_now(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic_now(&self) -> MonotonicTime {
        MonotonicTime(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
    }
}

fn gateway(registry: &ToolRegistry, folder: &Path) -> Result<Arc<Gateway>, Box<dyn Error>> {
    let clock = Arc::new(SystemClock);
    let options = ledger::LedgerOptions::default();
    let (ledger, _) = FileLedger::open_directory(folder, Arc::new(OsDisk), clock.clone(), options)?;
    let secret = Secret::new("a secret of this installation");
    let parts = GatewayComponents::new(registry.to_catalog(1), Arc::new(ledger), clock, secret);
    Ok(Arc::new(Gateway::new(parts)))
}

fn principal() -> Result<Principal, Box<dyn Error>> {
    let now = SystemClock.wall_now();
    let (secret, record) =
        NewKey::for_user(KeyId::new("assistant")?, "assistant").issue_key([7; 32], now)?;
    Ok(KeyRing::new([record]).verify_key(Some(secret.expose()), now)?)
}

/// What a model asks for, and the messages that answer it.
pub(super) async fn answered(folder: &Path) -> Result<String, Box<dyn Error>> {
    let registry = registry()?;
    let format = ProviderFormat::OpenaiChat;
    let schemas = render_tool_schemas(format, registry.tools().iter().map(|entry| &*entry.tool));
    let message = json!({"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function",
        "function": {"name": "look_up", "arguments": "{\"word\": \"shelf\"}"}}]});
    let runner = ToolRunner::new(gateway(&registry, folder)?, principal()?);
    let mut all = Vec::new();
    for call in formats::parse_calls(format, &Json::encode(&message))? {
        let (name, args) = schemas.resolve_call(&call);
        let id = call.id.clone().unwrap_or_default();
        let result = runner.execute_call(ModelToolCall { id, name, arguments: args }).await;
        let text = result.error.as_ref().unwrap_or(&result.content);
        let outcome =
            Outcome { is_error: !result.success, ..Outcome::from_value(Json::encode(text)) };
        all.push(ToolCallResult { id: call.id, name: call.name, outcome });
    }
    let messages = formats::render_results(format, &all);
    Ok(messages.as_str().to_owned())
}
