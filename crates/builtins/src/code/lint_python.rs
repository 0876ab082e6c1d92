//! `lint_python`: checks Python code with ruff; without ruff, only its syntax.

mod install;
mod ruff;
mod syntax;

use serde_json::{Value, json};
use tool::{Boxed, Context, ExecuteError, Executor, Granted, Step};

use tool_manifest::Registry;
use tool_manifest::{Builtin, ended};

pub use install::{Installed, Package, install};
pub use ruff::Ruff;

pub(crate) fn builtin(registry: &Registry, ruff: Option<&Ruff>) -> Option<Builtin> {
    Some(registry.get("lint_python")?.run_by(LintPython { ruff: ruff.cloned() }))
}

/// Folder in the data directory where ruff is installed.
pub const RUFF: &str = "tools/ruff/bin";

/// One issue that the linter found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Issue {
    code: String,
    message: String,
    line: u64,
    column: u64,
}

#[derive(Debug)]
struct LintPython {
    ruff: Option<Ruff>,
}

impl LintPython {
    async fn lint(&self, args: &Value, ctx: &Context<'_>) -> Result<Value, String> {
        let code = args.get("code").and_then(Value::as_str).unwrap_or_default().to_owned();
        let fix = args.get("fix").and_then(Value::as_bool).unwrap_or(false);
        let found = match &self.ruff {
            Some(ruff) => ruff.program().await.map(|program| (ruff, program)),
            None => None,
        };
        let Some((ruff, program)) = found else {
            let checked = tokio::task::spawn_blocking(move || syntax::check(&code)).await;
            let issues = checked.map_err(|_| "the check broke down".to_owned())??;
            return Ok(told(&issues, None, "syntax"));
        };
        let (issues, caged) = ruff.check(&program, &code).await?;
        ctx.ran_caged(caged);
        let fixed = if fix { Some(ruff.fix(&program, &code).await?) } else { None };
        Ok(told(&issues, fixed.as_deref(), "ruff"))
    }
}

fn told(issues: &[Issue], fixed: Option<&str>, checked_by: &str) -> Value {
    let one = |it: &Issue| json!({ "code": it.code, "message": it.message, "line": it.line, "column": it.column });
    let summary = match (issues.len(), checked_by) {
        (0, "ruff") => "no issues".to_owned(),
        (0, _) => {
            "no syntax errors; install ruff for more: `toolkeep tool install ruff`".to_owned()
        }
        (1, _) => "1 issue".to_owned(),
        (many, _) => format!("{many} issues"),
    };
    json!({
        "issues": issues.iter().map(one).collect::<Vec<_>>(),
        "fixed_code": fixed,
        "summary": summary,
        "checked_by": checked_by,
    })
}

impl Executor for LintPython {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(async move {
            let answer = self.lint(call.call().args.value(), ctx).await;
            Ok(ended(answer))
        })
    }
}
