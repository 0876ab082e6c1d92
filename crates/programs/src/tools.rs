//! The tools of programs: what every door has of them.

use builtin_manifests::Family;
use std::sync::Arc;
use std::time::Duration;

use gateway::{OnBehalf, PrincipalExecutor, PrincipalPort};
use serde::Deserialize;
use serde_json::{Map, Value};
use tool::{Boxed, CallId, Code, Context, ExecuteError, Granted, Interface, Json, Outcome, Step};
use tool_manifest::Builtin;

use crate::shown;
use crate::{Begin, Mode, Planned, Programs, Running};

/// Calls of a program that names no number.
const CALLS: usize = 200;

const TOOLS: &[(&str, Does)] = &[
    ("run_program", Does::Run),
    ("program_status", Does::Show),
    ("get_chainable_tools", Does::List),
];

/// The tools, over `programs`.
pub fn tools(programs: &Arc<Programs>) -> Vec<Builtin> {
    let made = |(name, does): &(&str, Does)| {
        Some(
            Family::Programs
                .registry()
                .get(name)?
                .run_by(PrincipalPort(Doing { does: *does, programs: Arc::clone(programs) })),
        )
    };
    TOOLS.iter().filter_map(made).collect()
}

#[derive(Debug, Clone, Copy)]
enum Does {
    Run,
    Show,
    List,
}

#[derive(Debug)]
struct Doing {
    does: Does,
    programs: Arc<Programs>,
}

/// What a program is asked to be.
#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    steps: Option<Vec<Planned>>,
    #[serde(default)]
    inputs: Option<Map<String, Value>>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    parallel_mutations: Option<bool>,
    #[serde(default)]
    max_calls: Option<usize>,
    #[serde(default)]
    dry_run: Option<bool>,
}

#[derive(Deserialize)]
struct Show {
    program: CallId,
    #[serde(default)]
    wait_seconds: Option<u64>,
    #[serde(default)]
    resume: Option<bool>,
}

impl Doing {
    async fn run(
        &self,
        caller: OnBehalf<'_>,
        call: Granted<'_>,
        ctx: &Context<'_>,
    ) -> Result<Step, ExecuteError> {
        // As its request narrowed it: a program can do what the same request could.
        let who = caller.principal;
        let (id, args) = (call.call().id, call.call().args.raw());
        let told = match self.does {
            Does::Run => {
                let run: Wanted = read(args)?;
                let dry = run.dry_run.unwrap_or_default();
                let (code, steps) = what(run.code, run.steps)?;
                let begin = Begin {
                    code,
                    steps,
                    inputs: run.inputs.unwrap_or_default(),
                    mode: run.mode.unwrap_or_else(|| self.programs.mode()),
                    parallel_mutations: run
                        .parallel_mutations
                        .unwrap_or_else(|| self.programs.parallel_mutations()),
                    most_calls: run.max_calls.unwrap_or(CALLS),
                };
                let caged = |took| ctx.ran_caged(took);
                let running = Running { cancel: ctx.cancel, progress: ctx.progress, caged: &caged };
                if dry {
                    self.programs.dry_run((who, id, Interface::Tool), begin, running).await
                } else {
                    let begun = self.programs.begin((who, id, Interface::Tool), begin, running);
                    Box::pin(begun).await.map(shown::told)
                }
            }
            Does::Show => {
                let Show { program, wait_seconds, resume } = read(args)?;
                let wait = Duration::from_secs(wait_seconds.unwrap_or_default());
                if resume.unwrap_or_default() {
                    self.programs.resume(who, program, wait).await
                } else {
                    self.programs.show(who, program, wait).await
                }
            }
            Does::List => self.programs.chainable(who),
        };
        let told = told.map_err(|failure| ExecuteError::during(failure.code, failure.message))?;
        let failed = told.get("status").and_then(Value::as_str) == Some("failed");
        let is_error = failed && matches!(self.does, Does::Run);
        Ok(Step::Done(Outcome { is_error, ..Outcome::value(Json::of(&told)) }))
    }
}

/// A script or steps.
fn what(
    code: Option<String>,
    steps: Option<Vec<Planned>>,
) -> Result<(String, Vec<Planned>), ExecuteError> {
    match (code, steps) {
        (Some(code), None) => Ok((code, Vec::new())),
        (None, Some(steps)) if !steps.is_empty() => Ok((String::new(), steps)),
        _ => {
            let told = "give either `code` or `steps`, and at least one step";
            Err(ExecuteError::before(Code::InvalidArguments, told))
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(args: &Json) -> Result<T, ExecuteError> {
    args.read().map_err(|error| ExecuteError::before(Code::InvalidArguments, error.to_string()))
}

impl PrincipalExecutor for Doing {
    fn execute<'a>(
        &'a self,
        caller: OnBehalf<'a>,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(caller, call, ctx))
    }

    fn only_calls(&self) -> bool {
        true
    }
}
