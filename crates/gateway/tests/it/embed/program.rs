//! A program with tools of its own: what docs/guide/embed.md shows.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use catalog::{OnConflict, Registry};
use formats::{Answered, Format, tools_to_schema};
use gateway::facade::{Asked, Runner};
use gateway::{Gateway, Parts};
use identity::{KeyId, KeyRing, NewKey, Principal};
use ledger::{FileLedger, RealDisk};
use serde_json::json;
use tool::{
    Boxed, Clock, Context, Effects, ExecuteError, Executor, Granted, Json, Mono, Outcome, Safety,
    Secret, SourceName, Step, Tool, ToolName, Wall,
};

/// Runs `look.up`.
#[derive(Debug)]
struct LookUp;

impl Executor for LookUp {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(async move {
            let word = call.call().args.raw().get("word");
            let meaning = json!({"word": word, "meaning": "a board"});
            Ok(Step::Done(Outcome::value(Json::of(&meaning))))
        })
    }
}

fn registry() -> Result<Registry, Box<dyn Error>> {
    let mut registry = Registry::new(SourceName::new("mine")?);
    let schema =
        json!({"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]});
    let mut look_up = Tool::new(ToolName::new("look.up")?, "Looks a word up.", Json::of(&schema));
    look_up.traits.effects = Effects::read_only();
    registry.register(Arc::new(look_up), Arc::new(LookUp), OnConflict::Refuse)?;
    let mut wipe = Tool::new(
        ToolName::new("wipe")?,
        "Forgets all words.",
        Json::of(&json!({"type": "object"})),
    );
    wipe.traits.safety = Safety::Dangerous;
    registry.register(Arc::new(wipe), Arc::new(LookUp), OnConflict::Refuse)?;
    Ok(registry)
}

/// The `tools` of a request in each format.
pub(super) fn run() -> Result<Vec<(Format, String)>, Box<dyn Error>> {
    let registry = registry()?;
    let mut all = Vec::new();
    for format in Format::ALL {
        let cautious = registry.filter(Some(Safety::Cautious), None);
        let schemas = tools_to_schema(*format, cautious.map(|entry| &*entry.tool));
        all.push((*format, schemas.tools.as_str().to_owned()));
    }
    Ok(all)
}

/// The system's clock.
#[derive(Debug)]
struct SystemClock;

#[expect(clippy::disallowed_methods, reason = "this is a program, whose clock is the system's")]
impl Clock for SystemClock {
    fn wall(&self) -> Wall {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Wall(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn mono(&self) -> Mono {
        Mono(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
    }
}

fn gateway(registry: &Registry, folder: &Path) -> Result<Arc<Gateway>, Box<dyn Error>> {
    let clock = Arc::new(SystemClock);
    let options = ledger::Options::default();
    let (ledger, _) = FileLedger::open(folder, Arc::new(RealDisk), clock.clone(), options)?;
    let secret = Secret::new("a secret of this installation");
    let parts = Parts::new(registry.catalog(1), Arc::new(ledger), clock, secret);
    Ok(Arc::new(Gateway::new(parts)))
}

fn principal() -> Result<Principal, Box<dyn Error>> {
    let now = SystemClock.wall();
    let (secret, record) =
        NewKey::user(KeyId::new("assistant")?, "assistant").issue([7; 32], now)?;
    Ok(KeyRing::new([record]).verify(Some(secret.open()), now)?)
}

/// What a model asks for, and the messages that answer it.
pub(super) async fn answered(folder: &Path) -> Result<String, Box<dyn Error>> {
    let registry = registry()?;
    let format = Format::OpenaiChat;
    let schemas = tools_to_schema(format, registry.tools().iter().map(|entry| &*entry.tool));
    let message = json!({"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function",
        "function": {"name": "look_up", "arguments": "{\"word\": \"shelf\"}"}}]});
    let runner = Runner::new(gateway(&registry, folder)?, principal()?);
    let mut all = Vec::new();
    for call in formats::read_calls(format, &Json::of(&message))? {
        let (name, args) = schemas.requested(&call);
        let id = call.id.clone().unwrap_or_default();
        let result = runner.execute(Asked { id, name, args }).await;
        let text = result.error.as_ref().unwrap_or(&result.content);
        let outcome = Outcome { is_error: !result.success, ..Outcome::value(Json::of(text)) };
        all.push(Answered { id: call.id, name: call.name, outcome });
    }
    let messages = formats::write_results(format, &all);
    Ok(messages.as_str().to_owned())
}
