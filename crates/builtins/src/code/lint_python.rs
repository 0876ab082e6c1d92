//! `lint_python`: checks Python code with ruff; without ruff, only its syntax.

mod ruff_install;
mod ruff_process;
mod syntax_check;

use serde_json::{Value, json};
use tool::{BoxFuture, CallContext, ExecuteError, ExecutionState, Executor, RecordedCall};

use tool_manifest::ManifestRegistry;
use tool_manifest::{BuiltinTool, completed_step};

pub use ruff_install::{InstalledProgram, PinnedPackage, install_package};
pub use ruff_process::RuffLinter;

pub(crate) fn build_tool(
    registry: &ManifestRegistry,
    ruff: Option<&RuffLinter>,
) -> Option<BuiltinTool> {
    Some(registry.find_tool("lint_python")?.with_executor(LintPython { ruff: ruff.cloned() }))
}

/// Folder in the data directory where ruff is installed.
pub const RUFF_DIR: &str = "tools/ruff/bin";

/// One issue that the linter found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LintIssue {
    code: String,
    message: String,
    line: u64,
    column: u64,
}

#[derive(Debug)]
struct LintPython {
    ruff: Option<RuffLinter>,
}

impl LintPython {
    async fn lint_code(&self, args: &Value, ctx: &CallContext<'_>) -> Result<Value, String> {
        let code = args.get("code").and_then(Value::as_str).unwrap_or_default().to_owned();
        let fix = args.get("fix").and_then(Value::as_bool).unwrap_or(false);
        let found = match &self.ruff {
            Some(ruff) => ruff.find_program().await.map(|program| (ruff, program)),
            None => None,
        };
        let Some((ruff, program)) = found else {
            let checked =
                tokio::task::spawn_blocking(move || syntax_check::check_syntax(&code)).await;
            let issues = checked.map_err(|_| "the check failed".to_owned())??;
            return Ok(issues_json(&issues, None, "syntax"));
        };
        let (issues, sandbox_usage) = ruff.check_code(&program, &code).await?;
        ctx.record_sandbox_usage(sandbox_usage);
        let fixed = if fix { Some(ruff.fix_code(&program, &code).await?) } else { None };
        Ok(issues_json(&issues, fixed.as_deref(), "ruff"))
    }
}

fn issues_json(issues: &[LintIssue], fixed: Option<&str>, checked_by: &str) -> Value {
    let one = |it: &LintIssue| json!({ "code": it.code, "message": it.message, "line": it.line, "column": it.column });
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
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(async move {
            let answer = self.lint_code(call.call().arguments.as_value(), ctx).await;
            Ok(completed_step(answer))
        })
    }
}
