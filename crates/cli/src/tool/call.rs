//! Implements `toolkeep tool call`, which calls a tool.

use std::io::Read as _;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::argument_parser;
use crate::name_suggestions;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::data_dir::FirstKey;
use cli_core::printer::{Printer, sanitize_text};
use cli_core::rest_client::{RequestPath, RestClient};
use cli_core::server_transport::SourceNeed;

/// Maximum size of the arguments, in bytes: the limit of the server.
const MAX_ARGUMENT_BYTES: u64 = tool::JsonLimits::MAX_ARGUMENT_BYTES as u64;
/// Time for which one request waits for a decision before it is repeated.
const WAIT_PER_REQUEST: &str = "20s";

/// Call a tool of the server.
///
/// Arguments have the form `key=value` and are parsed by the type in the tool's schema: `count=3`
/// is a number or a string. `key:=JSON` is always parsed as JSON. A single JSON object contains all
/// arguments; a single `-` reads it from standard input.
///
/// If the call needs approval, it does not run yet, and its ID is printed. `--wait` waits for the
/// decision and the result.
///
/// Exits with 1 if the tool reports a failure, and with 3 if the call needs approval.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool call calculator expression='6*7'
  toolkeep tool call echo '{\"message\": \"hello\"}'
  echo '{\"message\": \"hello\"}' | toolkeep tool call echo -
  toolkeep tool call rm path=old --agent --wait")]
pub(crate) struct ToolCallArgs {
    /// Name or alias of the tool.
    #[arg(value_name = "NAME")]
    name: String,
    /// Arguments of the call: `KEY=VALUE` pairs, one JSON object, or `-` for standard input.
    #[arg(value_name = "KEY=VALUE")]
    typed: Vec<String>,
    /// Arguments of the call, as one JSON object.
    #[arg(long = "arguments", alias = "args", value_name = "JSON", conflicts_with = "typed")]
    args: Option<String>,
    /// Timeout of the call in milliseconds. It can only shorten the tool's own timeout.
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
    /// Wait for the decision if the call needs approval.
    #[arg(long)]
    wait: bool,
    /// Call with agent.key instead of owner.key, so that the owner can approve the call.
    #[arg(long)]
    agent: bool,
}

#[derive(Serialize)]
struct CallRequestBody<'a> {
    tool: &'a str,
    arguments: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
struct CallAnswer<'a> {
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    call_id: String,
    #[serde(default)]
    approval: Option<PendingCallAnswer>,
}

fn print_answer(
    tool: &str,
    answer: &RawValue,
    ui: &mut Printer,
) -> Result<ExitStatus, CommandError> {
    let read = parse_answer(answer)?;
    if let Some(approval) = &read.approval {
        ui.print_result(answer, || format_pending(tool, (read.call_id.as_str(), approval)))?;
        return Ok(ExitStatus::Refused);
    }
    ui.print_result(answer, || read.result.map(format_result).unwrap_or_default())?;
    Ok(if read.is_error { ExitStatus::Failed } else { ExitStatus::Success })
}

/// The approval that a call is waiting for.
#[derive(Deserialize)]
struct PendingCallAnswer {
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

impl ToolCallArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        // Parsed before anything is started: an invalid line costs nothing.
        let whole = self.json_arguments()?;
        let key = if self.agent { FirstKey::Agent } else { FirstKey::Owner };
        let session = context.connect_with(key).await?;
        session.wait_for_sources(SourceNeed::Tool(&self.name), ui).await;
        let mut called = self.send_call(&session.client, whole).await;
        if let Err(failure) = called {
            called = Err(name_suggestions::with_name_suggestion(
                name_suggestions::TOOL_NAMES,
                &session.client,
                &self.name,
                failure,
            )
            .await);
        }
        // Printed first: stopping an own server takes as long as its sources do.
        let exit = called.and_then(|answer| print_answer(&self.name, &answer, ui));
        session.close().await?;
        exit
    }

    /// Polls a pending call until it has ended.
    async fn wait_for_decision(
        &self,
        client: &RestClient,
        mut answer: Box<RawValue>,
    ) -> Result<Box<RawValue>, CommandError> {
        loop {
            let read = parse_answer(&answer)?;
            if read.approval.is_none() || !self.wait {
                return Ok(answer);
            }
            let path = RequestPath::from_segments("/v1/calls", &[&read.call_id, "resume"]);
            answer = client
                .post_json(&path.with_query("wait", Some(WAIT_PER_REQUEST)), &serde_json::json!({}))
                .await?;
        }
    }

    /// Returns arguments given as one JSON object, as raw text, so that no digit of a number is
    /// lost.
    fn json_arguments(&self) -> Result<Option<Box<RawValue>>, CommandError> {
        let text = match (&self.args, self.typed.as_slice()) {
            (Some(text), _) => text.clone(),
            (None, [dash]) if dash == "-" => read_stdin()?,
            (None, [object]) if object.trim_start().starts_with('{') => object.clone(),
            (None, _) => return Ok(None),
        };
        let usage_error = |what: String| {
            CommandError::new(ExitStatus::UsageError, format!("the arguments {what}"))
        };
        let value: Box<RawValue> = serde_json::from_str(&text)
            .map_err(|error| usage_error(format!("are not valid JSON: {error}")))?;
        if !value.get().starts_with('{') {
            return Err(usage_error("must be a JSON object".to_owned()));
        }
        Ok(Some(value))
    }

    async fn send_call(
        &self,
        client: &RestClient,
        whole: Option<Box<RawValue>>,
    ) -> Result<Box<RawValue>, CommandError> {
        let arguments = if let Some(arguments) = whole {
            arguments
        } else {
            let schema = self.fetch_schema(client).await?;
            let arguments = argument_parser::parse_arguments(&self.typed, &schema)?;
            serde_json::value::to_raw_value(&arguments)
                .map_err(|error| CommandError::new(ExitStatus::UsageError, error.to_string()))?
        };
        let body = CallRequestBody {
            tool: &self.name,
            arguments: &arguments,
            timeout_ms: self.timeout_ms,
        };
        let wait = self.wait.then_some(WAIT_PER_REQUEST);
        let path = RequestPath::from_segments("/v1/calls", &[]).with_query("wait", wait);
        let answer = client.post_json(&path, &body).await?;
        self.wait_for_decision(client, answer).await
    }

    /// Fetches the schema for parsing the arguments; none is needed without arguments.
    async fn fetch_schema(&self, client: &RestClient) -> Result<Value, CommandError> {
        if self.typed.is_empty() {
            return Ok(Value::Null);
        }
        let mut tool =
            client.get_json(&RequestPath::from_segments("/v1/tools", &[&self.name])).await?;
        Ok(tool.get_mut("input_schema").map_or(Value::Null, Value::take))
    }
}

fn read_stdin() -> Result<String, CommandError> {
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_ARGUMENT_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| {
        CommandError::new(ExitStatus::UsageError, format!("cannot read standard input: {error}"))
    })?;
    if text.len() as u64 > MAX_ARGUMENT_BYTES {
        let message = format!("standard input is larger than {MAX_ARGUMENT_BYTES} bytes");
        return Err(CommandError::new(ExitStatus::UsageError, message));
    }
    Ok(text)
}

fn parse_answer(answer: &RawValue) -> Result<CallAnswer<'_>, CommandError> {
    serde_json::from_str(answer.get()).map_err(|error| {
        CommandError::new(
            ExitStatus::Failed,
            format!("cannot parse the server's response: {error}"),
        )
    })
}

/// Formats a pending call with advice.
fn format_pending(tool: &str, (id, held): (&str, &PendingCallAnswer)) -> String {
    let id = sanitize_text(id);
    if held.approved {
        return format!("approved: call {id} is running\n  toolkeep record show {id}");
    }
    let who = if held.by_agent {
        format!("toolkeep approval approve {id}")
    } else {
        format!(
            "nobody can approve their own call: another person with the right `approve` can run\n    \
             toolkeep approval approve {id} --key KEY\n  to approve it yourself, make the call \
             with the agent's key\n    toolkeep tool call {} … --agent\n    toolkeep approval \
             approve ID",
            sanitize_text(tool)
        )
    };
    format!(
        "pending: call {id} needs approval until {}: {}\n  {who}\n  toolkeep record show {id}",
        sanitize_text(&held.expires),
        sanitize_text(&held.reason)
    )
}

/// Formats the tool's result: a string as it is, anything else as JSON.
fn format_result(result: &RawValue) -> String {
    let text: Result<String, _> = serde_json::from_str(result.get());
    sanitize_text(text.as_deref().unwrap_or(result.get()))
}
