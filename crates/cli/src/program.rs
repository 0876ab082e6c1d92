//! Implements `toolkeep program`: commands that run and manage programs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table, sanitize_text};
use cli_core::rest_client::RequestPath;
use cli_core::server_connection::ServerConnection;
use cli_core::server_transport::SourceNeed;

/// Run, list, show, resume and cancel programs: small Python scripts that call your tools.
#[derive(Debug, Subcommand)]
pub(crate) enum ProgramCommand {
    Run(ProgramRunArgs),
    List(ProgramListArgs),
    Show(ProgramShowArgs),
    Resume(ProgramResumeArgs),
    Cancel(ProgramCancelArgs),
    Tools(ProgramToolsArgs),
}

/// Run a program. Each tool that allows calls from programs is a function.
///
/// If a call needs approval, the program pauses and resumes by itself after the decision.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep program run steps.py
  toolkeep program run steps.py --input city=Ghent --mode dep
  toolkeep program run steps.json
  toolkeep program run steps.py --dry-run")]
pub(crate) struct ProgramRunArgs {
    /// Script file, or `-` for standard input. A `.json` file contains steps: a list of objects
    /// with `id`, `tool`, `arguments`, `depends_on` and `parallel_group`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Input variable of the program, as NAME=VALUE. VALUE is parsed as JSON if possible, otherwise
    /// as text. Can be repeated.
    #[arg(long = "input", value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    /// Execution order of its calls [default: seq].
    #[arg(long, value_name = "MODE")]
    mode: Option<ChainMode>,
    /// Time to wait for the end of a program that needs approval, such as `30s`.
    #[arg(long, value_name = "TIME")]
    wait: Option<String>,
    /// Print the calls it would make and those that need approval, without running it.
    #[arg(long = "dry-run")]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ChainMode {
    /// In sequence.
    Seq,
    /// In parallel waves, by the dependencies of the calls.
    Dep,
    /// In sequence, without analysing the script first.
    Legacy,
}

/// List your programs, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program list")]
pub(crate) struct ProgramListArgs {}

/// Show the state and result of a program. A program that can continue is resumed.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program show 01a1b2c3-0000-7000-8000-000000000000 --wait 30s")]
pub(crate) struct ProgramShowArgs {
    /// ID of the program.
    #[arg(value_name = "ID")]
    id: String,
    /// Time to wait for the end of the program, such as `30s`.
    #[arg(long, value_name = "TIME")]
    wait: Option<String>,
}

/// Resume a program and show its result.
///
/// An approved program resumes by itself. Use this command if an approval expired, to request it
/// again, or if the server does not store the caller's credential.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program resume 01a1b2c3-0000-7000-8000-000000000000")]
pub(crate) struct ProgramResumeArgs {
    /// ID of the program.
    #[arg(value_name = "ID")]
    id: String,
    /// Time to wait for the end of the program.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    wait: String,
}

/// Cancel a program and withdraw its pending calls.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program cancel 01a1b2c3-0000-7000-8000-000000000000")]
pub(crate) struct ProgramCancelArgs {
    /// ID of the program.
    #[arg(value_name = "ID")]
    id: String,
}

/// List the tools that your programs can call, as Python signatures.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program tools")]
pub(crate) struct ProgramToolsArgs {}

impl ProgramCommand {
    async fn wait_for_sources(
        &self,
        session: &ServerConnection,
        body: Option<&Value>,
        ui: &mut Printer,
    ) {
        match self {
            Self::Run(_) => {
                let text = body.map(script_text).unwrap_or_default();
                session.wait_for_sources(SourceNeed::Script(&text), ui).await;
            }
            // The program may resume.
            Self::Show(ProgramShowArgs { id, .. }) | Self::Resume(ProgramResumeArgs { id, .. }) => {
                session.wait_for_sources(SourceNeed::Program(id), ui).await;
            }
            Self::Tools(_) => session.wait_for_listing(None, ui).await,
            Self::List(_) | Self::Cancel(_) => {}
        }
    }

    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let body = match &self {
            Self::Run(run) => Some(run.request_body()?),
            _ => None,
        };
        let session = context.connect().await?;
        self.wait_for_sources(&session, body.as_ref(), ui).await;
        let client = &session.client;
        let answer = match &self {
            Self::Run(run) => {
                let path = RequestPath::from_segments("/v1/programs", &[])
                    .with_query("wait", run.wait.as_deref());
                client.post_json(&path, &body.unwrap_or_default()).await
            }
            Self::List(ProgramListArgs {}) => {
                client.get_json(&RequestPath::from_segments("/v1/programs", &[])).await
            }
            Self::Show(ProgramShowArgs { id, wait }) => {
                let path = RequestPath::from_segments("/v1/programs", &[id])
                    .with_query("wait", wait.as_deref());
                client.get_json(&path).await
            }
            Self::Resume(ProgramResumeArgs { id, wait }) => {
                let path = RequestPath::from_segments("/v1/programs", &[id, "resume"])
                    .with_query("wait", Some(wait));
                client.post_json(&path, &json!({})).await
            }
            Self::Cancel(ProgramCancelArgs { id }) => {
                client
                    .post_json(
                        &RequestPath::from_segments("/v1/programs", &[id, "cancel"]),
                        &json!({}),
                    )
                    .await
            }
            Self::Tools(ProgramToolsArgs {}) => {
                client.get_json(&RequestPath::from_segments("/v1/programs", &["tools"])).await
            }
        };
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || match &self {
            Self::List(_) => format_programs(&answer),
            Self::Tools(_) => format_tools(&answer),
            _ => format_program(&answer),
        })?;
        let failed = answer.get("status").and_then(Value::as_str) == Some("failed");
        Ok(if failed { ExitStatus::Failed } else { ExitStatus::Success })
    }
}

/// Returns the script of a request, or its steps as JSON.
fn script_text(body: &Value) -> String {
    match body.get("code") {
        Some(code) => code.as_str().unwrap_or_default().to_owned(),
        None => body.get("steps").map(Value::to_string).unwrap_or_default(),
    }
}

impl ProgramRunArgs {
    fn request_body(&self) -> Result<Value, CommandError> {
        let unread = |error: std::io::Error| {
            CommandError::new(ExitStatus::UsageError, format!("`{}`: {error}", self.file.display()))
        };
        let code = if self.file.as_os_str() == "-" {
            std::io::read_to_string(std::io::stdin()).map_err(unread)?
        } else {
            std::fs::read_to_string(&self.file).map_err(unread)?
        };
        let mut inputs = Map::new();
        for input in &self.inputs {
            let (name, value) = input.split_once('=').ok_or_else(|| {
                CommandError::new(
                    ExitStatus::UsageError,
                    format!("`{input}` is not an input; use NAME=VALUE"),
                )
            })?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            inputs.insert(name.to_owned(), value);
        }
        let mode = self.mode.and_then(|it| Some(it.to_possible_value()?.get_name().to_owned()));
        let data = self.file.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
        let (name, what) = if data {
            let message = |error| {
                let file = self.file.display();
                CommandError::new(
                    ExitStatus::UsageError,
                    format!(
                        "`{file}` does not contain a list of steps: \
                                                   {error}"
                    ),
                )
            };
            (
                "steps",
                json!(serde_json::from_str::<Vec<Map<String, Value>>>(&code).map_err(message)?),
            )
        } else {
            ("code", json!(code))
        };
        Ok(json!({ name: what, "inputs": inputs, "mode": mode, "dry_run": self.dry_run }))
    }
}

fn format_program(program: &Value) -> String {
    let line = |key: &str| json_fields::field_line(program, key, 200);
    let mut text = vec![
        format!("{:<9} {}", "program", line("program")),
        format!("{:<9} {}", "status", line("status")),
    ];
    for held in json_fields::field_items(program, "pending") {
        let (tool, call) = (
            json_fields::field_line(held, "tool", 60),
            json_fields::field_line(held, "approval", 36),
        );
        text.push(format!("{:<9} {tool}: toolkeep approval show {call}", "waits for"));
    }
    for key in ["error", "decisions"] {
        if program.get(key).is_some_and(|it| !it.is_null()) {
            text.push(format!("{key:<9} {}", line(key)));
        }
    }
    let called: Vec<String> = json_fields::field_items(program, "calls")
        .iter()
        .map(|it| json_fields::field_line(it, "tool", 60))
        .collect();
    if !called.is_empty() {
        text.push(format!("{:<9} {}", "called", called.join(", ")));
    }
    if let Some(printed) =
        program.get("printed").and_then(Value::as_str).filter(|it| !it.is_empty())
    {
        text.push("printed".to_owned());
        text.extend(sanitize_text(printed).lines().map(|line| format!("  {line}")));
    }
    if let Some(result) = program.get("result").filter(|it| !it.is_null()) {
        text.push("result".to_owned());
        let shown = serde_json::to_string_pretty(result).unwrap_or_default();
        text.extend(sanitize_text(&shown).lines().map(|line| format!("  {line}")));
    }
    text.join("\n")
}

fn format_programs(answer: &Value) -> String {
    let row = |program: &Value| {
        let held = json_fields::field_items(program, "pending");
        let tools: Vec<String> =
            held.iter().map(|it| json_fields::field_line(it, "tool", 40)).collect();
        [
            json_fields::field_line(program, "program", 36),
            json_fields::field_line(program, "status", 16),
            json_fields::field_line(program, "created", 24),
            tools.join(", "),
        ]
    };
    let rows: Vec<_> = json_fields::field_items(answer, "programs").iter().map(row).collect();
    format_table(["PROGRAM", "STATUS", "CREATED", "WAITS FOR"], &rows)
}

fn format_tools(answer: &Value) -> String {
    let row = |tool: &Value| {
        let looks = tool.get("read_only").and_then(Value::as_bool) == Some(true);
        let unknown =
            json_fields::field_line(tool, "effects", 20) == tool::SideEffects::UNKNOWN_NAME;
        let effects = match (looks, unknown) {
            (true, _) => "only looks",
            (false, true) => "unknown",
            (false, false) => "has effects",
        };
        [
            json_fields::field_line(tool, "signature", 120),
            effects.to_owned(),
            json_fields::field_line(tool, "tool", 60),
        ]
    };
    let rows: Vec<_> = json_fields::field_items(answer, "tools").iter().map(row).collect();
    format_table(["FUNCTION", "EFFECTS", "TOOL"], &rows)
}
