//! Implements `toolkeep program`: commands that run and manage programs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use cli_core::client::Path;
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::session::Session;
use cli_core::ui::{Ui, clean, table};
use cli_core::value;

/// Run small Python scripts over your own tools; they wait for approvals and go on.
#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    Run(Run),
    List(List),
    Show(Show),
    Resume(Resume),
    Cancel(Cancel),
    Tools(Tools),
}

/// Run a program: each tool that allows it is a function. Where a call needs an approval it waits, and goes
/// on by itself when a person has decided.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep program run steps.py
  toolkeep program run steps.py --input city=Ghent --mode dep
  toolkeep program run steps.json
  toolkeep program run steps.py --dry-run")]
pub(crate) struct Run {
    /// The script, or `-` for the standard input. A file that ends in `.json` has steps: a list of objects
    /// with `id`, `tool`, `arguments`, `depends_on` and `parallel_group`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A name that has a value at the start, as NAME=VALUE; the value is JSON, or text where it is none.
    #[arg(long = "input", value_name = "NAME=VALUE")]
    inputs: Vec<String>,
    /// How its calls follow each other [default: seq].
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Wait so long for its end where it waits for an approval, such as `30s`.
    #[arg(long, value_name = "TIME")]
    wait: Option<String>,
    /// Only tell what it would call, and what would be held.
    #[arg(long = "dry-run")]
    only_told: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    /// In order.
    Seq,
    /// In waves, by what each call needs.
    Dep,
    /// In order, without looking ahead.
    Legacy,
}

/// List your programs, the newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program list")]
pub(crate) struct List {}

/// Show what became of a program. One that can go on does.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program show 01a1b2c3-0000-7000-8000-000000000000 --wait 30s")]
pub(crate) struct Show {
    /// The program.
    #[arg(value_name = "ID")]
    id: String,
    /// Wait so long for its end, such as `30s`.
    #[arg(long, value_name = "TIME")]
    wait: Option<String>,
}

/// Let a program go on, and show what becomes of it. One whose approval was given goes on by itself; this is
/// for one that is paused because nobody decided in time, which asks again, and for one whose caller's
/// credential the server does not keep.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program resume 01a1b2c3-0000-7000-8000-000000000000")]
pub(crate) struct Resume {
    /// The program.
    #[arg(value_name = "ID")]
    id: String,
    /// Wait so long for its end.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    wait: String,
}

/// End a program: what it waits for is taken back.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program cancel 01a1b2c3-0000-7000-8000-000000000000")]
pub(crate) struct Cancel {
    /// The program.
    #[arg(value_name = "ID")]
    id: String,
}

/// List the tools that your programs can call, as lines of Python.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep program tools")]
pub(crate) struct Tools {}

impl Program {
    async fn wait_for_sources(&self, session: &Session, asked: Option<&Value>, ui: &mut Ui) {
        match self {
            Self::Run(_) => {
                let text = asked.map(script).unwrap_or_default();
                session.sources(SourceNeed::Script(&text), ui).await;
            }
            // The program may resume.
            Self::Show(Show { id, .. }) | Self::Resume(Resume { id, .. }) => {
                session.sources(SourceNeed::Program(id), ui).await;
            }
            Self::Tools(_) => session.list_sources(None, ui).await,
            Self::List(_) | Self::Cancel(_) => {}
        }
    }

    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let asked = match &self {
            Self::Run(run) => Some(run.asked()?),
            _ => None,
        };
        let session = context.connect().await?;
        self.wait_for_sources(&session, asked.as_ref(), ui).await;
        let client = &session.client;
        let answer = match &self {
            Self::Run(run) => {
                let path = Path::new("/v1/programs", &[]).with("wait", run.wait.as_deref());
                client.post(&path, &asked.unwrap_or_default()).await
            }
            Self::List(List {}) => client.get(&Path::new("/v1/programs", &[])).await,
            Self::Show(Show { id, wait }) => {
                let path = Path::new("/v1/programs", &[id]).with("wait", wait.as_deref());
                client.get(&path).await
            }
            Self::Resume(Resume { id, wait }) => {
                let path = Path::new("/v1/programs", &[id, "resume"]).with("wait", Some(wait));
                client.post(&path, &json!({})).await
            }
            Self::Cancel(Cancel { id }) => {
                client.post(&Path::new("/v1/programs", &[id, "cancel"]), &json!({})).await
            }
            Self::Tools(Tools {}) => client.get(&Path::new("/v1/programs", &["tools"])).await,
        };
        session.end().await?;
        let answer: Value = answer?;
        ui.answer(&answer, || match &self {
            Self::List(_) => listed(&answer),
            Self::Tools(_) => tools(&answer),
            _ => text(&answer),
        })?;
        let failed = answer.get("status").and_then(Value::as_str) == Some("failed");
        Ok(if failed { Exit::Failed } else { Exit::Done })
    }
}

/// Returns the script of a request, or its steps as JSON.
fn script(asked: &Value) -> String {
    match asked.get("code") {
        Some(code) => code.as_str().unwrap_or_default().to_owned(),
        None => asked.get("steps").map(Value::to_string).unwrap_or_default(),
    }
}

impl Run {
    fn asked(&self) -> Result<Value, Failure> {
        let unread = |error: std::io::Error| {
            Failure::new(Exit::Usage, format!("`{}`: {error}", self.file.display()))
        };
        let code = if self.file.as_os_str() == "-" {
            std::io::read_to_string(std::io::stdin()).map_err(unread)?
        } else {
            std::fs::read_to_string(&self.file).map_err(unread)?
        };
        let mut inputs = Map::new();
        for input in &self.inputs {
            let (name, value) = input.split_once('=').ok_or_else(|| {
                Failure::new(Exit::Usage, format!("`{input}` is no input; write NAME=VALUE"))
            })?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            inputs.insert(name.to_owned(), value);
        }
        let mode = self.mode.and_then(|it| Some(it.to_possible_value()?.get_name().to_owned()));
        let data = self.file.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
        let (name, what) = if data {
            let told = |error| {
                let file = self.file.display();
                Failure::new(Exit::Usage, format!("`{file}` has no list of steps: {error}"))
            };
            ("steps", json!(serde_json::from_str::<Vec<Map<String, Value>>>(&code).map_err(told)?))
        } else {
            ("code", json!(code))
        };
        Ok(json!({ name: what, "inputs": inputs, "mode": mode, "dry_run": self.only_told }))
    }
}

fn text(program: &Value) -> String {
    let line = |key: &str| value::line(program, key, 200);
    let mut text = vec![
        format!("{:<9} {}", "program", line("program")),
        format!("{:<9} {}", "status", line("status")),
    ];
    for held in value::list(program, "pending") {
        let (tool, call) = (value::line(held, "tool", 60), value::line(held, "approval", 36));
        text.push(format!("{:<9} {tool}: toolkeep approval show {call}", "waits for"));
    }
    for key in ["error", "decisions"] {
        if program.get(key).is_some_and(|it| !it.is_null()) {
            text.push(format!("{key:<9} {}", line(key)));
        }
    }
    let called: Vec<String> =
        value::list(program, "calls").iter().map(|it| value::line(it, "tool", 60)).collect();
    if !called.is_empty() {
        text.push(format!("{:<9} {}", "called", called.join(", ")));
    }
    if let Some(printed) =
        program.get("printed").and_then(Value::as_str).filter(|it| !it.is_empty())
    {
        text.push("printed".to_owned());
        text.extend(clean(printed).lines().map(|line| format!("  {line}")));
    }
    if let Some(result) = program.get("result").filter(|it| !it.is_null()) {
        text.push("result".to_owned());
        let shown = serde_json::to_string_pretty(result).unwrap_or_default();
        text.extend(clean(&shown).lines().map(|line| format!("  {line}")));
    }
    text.join("\n")
}

fn listed(answer: &Value) -> String {
    let row = |program: &Value| {
        let held = value::list(program, "pending");
        let tools: Vec<String> = held.iter().map(|it| value::line(it, "tool", 40)).collect();
        [
            value::line(program, "program", 36),
            value::line(program, "status", 16),
            value::line(program, "created", 24),
            tools.join(", "),
        ]
    };
    let rows: Vec<_> = value::list(answer, "programs").iter().map(row).collect();
    table(["PROGRAM", "STATUS", "CREATED", "WAITS FOR"], &rows)
}

fn tools(answer: &Value) -> String {
    let row = |tool: &Value| {
        let looks = tool.get("read_only").and_then(Value::as_bool) == Some(true);
        let unknown = value::line(tool, "effects", 20) == tool::Effects::UNKNOWN;
        let effects = match (looks, unknown) {
            (true, _) => "only looks",
            (false, true) => "unknown",
            (false, false) => "has effects",
        };
        [value::line(tool, "signature", 120), effects.to_owned(), value::line(tool, "tool", 60)]
    };
    let rows: Vec<_> = value::list(answer, "tools").iter().map(row).collect();
    table(["FUNCTION", "EFFECTS", "TOOL"], &rows)
}
