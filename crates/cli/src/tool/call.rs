//! Implements `toolkeep tool call`, which calls a tool.

use std::io::Read as _;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::arguments;
use crate::near;
use cli_core::client::{Client, Path};
use cli_core::context::Context;
use cli_core::data::FirstKey;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, clean};

/// Maximum size of the arguments, in bytes: the limit of the server.
const ARGUMENTS: u64 = tool::Limits::MOST_ARGUMENTS as u64;
/// Time for which one request waits for a decision before it is repeated.
const WAIT: &str = "20s";

/// Call a tool.
///
/// An argument is `key=value`, read by the kind that the tool's schema says: `count=3` is a number
/// where a number is wanted and a text where a text is. `key:=JSON` is JSON whatever the schema says.
/// A single JSON object is all arguments, and a single `-` reads it from standard input.
///
/// A tool that could do harm is not run before a person has agreed: the call is held then, and its id
/// told. With `--wait` this waits for the decision, and for what comes of it.
///
/// Exits with 1 where the tool itself reports a failure, and with 3 where the call is held.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool call calculator expression='6*7'
  toolkeep tool call echo '{\"message\": \"hello\"}'
  echo '{\"message\": \"hello\"}' | toolkeep tool call echo -
  toolkeep tool call rm path=old --agent --wait")]
pub(crate) struct Call {
    /// The tool's name or alias.
    #[arg(value_name = "NAME")]
    name: String,
    /// Its arguments; or all of them as one JSON object, or `-`.
    #[arg(value_name = "KEY=VALUE")]
    typed: Vec<String>,
    /// Its arguments as one JSON object.
    #[arg(long = "arguments", alias = "args", value_name = "JSON", conflicts_with = "typed")]
    args: Option<String>,
    /// A time of your own for the call, in milliseconds; it can only shorten the tool's.
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
    /// Wait until a person has decided, where the call is held for an approval.
    #[arg(long)]
    wait: bool,
    /// Call with agent.key instead of owner.key, so that the owner can approve the call.
    #[arg(long)]
    agent: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    tool: &'a str,
    arguments: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    call_id: String,
    #[serde(default)]
    approval: Option<Held>,
}

fn told(tool: &str, answer: &RawValue, ui: &mut Ui) -> Result<Exit, Failure> {
    let read = read(answer)?;
    if let Some(approval) = &read.approval {
        ui.answer(answer, || held(tool, (read.call_id.as_str(), approval)))?;
        return Ok(Exit::Refused);
    }
    ui.answer(answer, || read.result.map(text).unwrap_or_default())?;
    Ok(if read.is_error { Exit::Failed } else { Exit::Done })
}

/// The approval that a call is waiting for.
#[derive(Deserialize)]
struct Held {
    reason: String,
    expires: String,
    approved: bool,
    /// Whether an agent's key made the call; older servers do not report it.
    #[serde(default = "unknown_caller")]
    by_agent: bool,
}

const fn unknown_caller() -> bool {
    true
}

impl Call {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        // Parsed before anything is started: an invalid line costs nothing.
        let whole = self.whole()?;
        let key = if self.agent { FirstKey::Agent } else { FirstKey::Owner };
        let session = context.connect_as(key).await?;
        session.sources(SourceNeed::Tool(&self.name), ui).await;
        let mut called = self.call(&session.client, whole).await;
        if let Err(failure) = called {
            called = Err(near::named(near::TOOL, &session.client, &self.name, failure).await);
        }
        // Printed first: stopping an own server takes as long as its sources do.
        let exit = called.and_then(|answer| told(&self.name, &answer, ui));
        session.end().await?;
        exit
    }

    /// Polls a pending call until it has ended.
    async fn patiently(
        &self,
        client: &Client,
        mut answer: Box<RawValue>,
    ) -> Result<Box<RawValue>, Failure> {
        loop {
            let read = read(&answer)?;
            if read.approval.is_none() || !self.wait {
                return Ok(answer);
            }
            let path = Path::new("/v1/calls", &[&read.call_id, "resume"]);
            answer = client.post(&path.with("wait", Some(WAIT)), &serde_json::json!({})).await?;
        }
    }

    /// Returns arguments given as one JSON object, as raw text, so that no digit of a number is
    /// lost.
    fn whole(&self) -> Result<Option<Box<RawValue>>, Failure> {
        let text = match (&self.args, self.typed.as_slice()) {
            (Some(text), _) => text.clone(),
            (None, [dash]) if dash == "-" => stdin()?,
            (None, [object]) if object.trim_start().starts_with('{') => object.clone(),
            (None, _) => return Ok(None),
        };
        let told = |what: String| Failure::new(Exit::Usage, format!("the arguments {what}"));
        let value: Box<RawValue> =
            serde_json::from_str(&text).map_err(|error| told(format!("are no JSON: {error}")))?;
        if !value.get().starts_with('{') {
            return Err(told("must be a JSON object".to_owned()));
        }
        Ok(Some(value))
    }

    async fn call(
        &self,
        client: &Client,
        whole: Option<Box<RawValue>>,
    ) -> Result<Box<RawValue>, Failure> {
        let arguments = if let Some(arguments) = whole {
            arguments
        } else {
            let schema = self.schema(client).await?;
            let arguments = arguments::read(&self.typed, &schema)?;
            serde_json::value::to_raw_value(&arguments)
                .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?
        };
        let body = Body { tool: &self.name, arguments: &arguments, timeout_ms: self.timeout_ms };
        let wait = self.wait.then_some(WAIT);
        let path = Path::new("/v1/calls", &[]).with("wait", wait);
        let answer = client.post(&path, &body).await?;
        self.patiently(client, answer).await
    }

    /// Fetches the schema for parsing the arguments; none is needed without arguments.
    async fn schema(&self, client: &Client) -> Result<Value, Failure> {
        if self.typed.is_empty() {
            return Ok(Value::Null);
        }
        let mut tool = client.get(&Path::new("/v1/tools", &[&self.name])).await?;
        Ok(tool.get_mut("input_schema").map_or(Value::Null, Value::take))
    }
}

fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(ARGUMENTS + 1).read_to_string(&mut text);
    read.map_err(|error| {
        Failure::new(Exit::Usage, format!("standard input cannot be read: {error}"))
    })?;
    if text.len() as u64 > ARGUMENTS {
        let message = format!("standard input has more than {ARGUMENTS} bytes");
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(text)
}

fn read(answer: &RawValue) -> Result<Answer<'_>, Failure> {
    serde_json::from_str(answer.get()).map_err(|error| {
        Failure::new(Exit::Failed, format!("the server's answer cannot be read: {error}"))
    })
}

/// Formats a pending call with advice.
fn held(tool: &str, (id, held): (&str, &Held)) -> String {
    let id = clean(id);
    if held.approved {
        return format!("approved: call {id} runs\n  toolkeep record show {id}");
    }
    let who = if held.by_agent {
        format!("toolkeep approval approve {id}")
    } else {
        format!(
            "nobody approves an own call: another person with the right `approve` can\n    \
             toolkeep approval approve {id} --key KEY\n  \
             to approve it yourself, make it as the agent, and approve that call\n    \
             toolkeep tool call {} … --agent\n    toolkeep approval approve ID",
            clean(tool)
        )
    };
    format!(
        "held: call {id} waits for an approval until {}: {}\n  {who}\n  toolkeep record show {id}",
        clean(&held.expires),
        clean(&held.reason)
    )
}

/// Formats the tool's result: a string as it is, anything else as JSON.
fn text(result: &RawValue) -> String {
    let text: Result<String, _> = serde_json::from_str(result.get());
    clean(text.as_deref().unwrap_or(result.get()))
}
