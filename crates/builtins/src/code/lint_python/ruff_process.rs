//! Runs ruff as a sandboxed process: code on standard input, findings on standard output. No files,
//! no configuration, no cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox::process::{ChildExit, CommandSpec};
use sandbox::{ProgramSource, ResourceLimits, SandboxSpec};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tool::SandboxUsage;
use tool::display_text::truncate_and_escape_debug;

use super::LintIssue;
use crate::sandbox_provider::{SandboxProvider, child_usage};

/// Time limit of one run.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Largest output of ruff, in bytes.
const MAX_OUTPUT_BYTES: u64 = 8 << 20;
/// Memory limit of ruff, in bytes.
const MAX_MEMORY_BYTES: u64 = 512 << 20;
/// Largest number of reported findings.
const MAX_ISSUES: usize = 1_000;
/// Selected rule sets: pycodestyle, pyflakes, bugbear, pyupgrade and isort.
const RULE_SELECTION: &str = "--select=E,W,F,B,UP,I";

/// The ruff linter: the folders in which it may be installed, and the sandbox it runs in.
#[derive(Debug, Clone)]
pub struct RuffLinter {
    sandboxes: Arc<SandboxProvider>,
    candidates: Vec<PathBuf>,
}

impl RuffLinter {
    /// Uses the ruff in the first of these folders that has one. The lookup happens at each call,
    /// because ruff may be installed while the server runs.
    pub fn in_folders(
        sandboxes: &Arc<SandboxProvider>,
        folders: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let places = folders.into_iter().filter(|it| it.is_absolute()).map(|it| it.join("ruff"));
        Self { sandboxes: Arc::clone(sandboxes), candidates: places.collect() }
    }

    /// Returns the path of ruff, if it is installed and a sandbox is available.
    pub async fn find_program(&self) -> Option<PathBuf> {
        let program = self.candidates.iter().find(|path| is_executable(path))?.clone();
        self.sandboxes.usable_level().await.is_ok().then_some(program)
    }

    /// Runs ruff as for a call and returns its version.
    ///
    /// # Errors
    /// A message that says why ruff does not run.
    pub async fn query_version(&self) -> Result<String, String> {
        let program =
            self.candidates.iter().find(|path| is_executable(path)).ok_or("it does not exist")?;
        self.run_program(program, &["--version"], "").await.map(|(told, _)| told.trim().to_owned())
    }

    /// Returns the findings and the resource usage.
    pub(super) async fn check_code(
        &self,
        program: &Path,
        code: &str,
    ) -> Result<(Vec<LintIssue>, SandboxUsage), String> {
        let args =
            ["check", "--isolated", "--no-cache", RULE_SELECTION, "--output-format=json", "-"];
        let (out, sandbox_usage) = self.run_program(program, &args, code).await?;
        let found: Vec<Value> =
            serde_json::from_str(&out).map_err(|error| format!("ruff's answer: {error}"))?;
        let text = |it: &Value, at: &str| it.pointer(at).and_then(Value::as_str).map(str::to_owned);
        let number = |it: &Value, at: &str| it.pointer(at).and_then(Value::as_u64).unwrap_or(0);
        let one = |it: &Value| LintIssue {
            // Syntax errors have no code.
            code: text(it, "/code")
                .filter(|it| it != "invalid-syntax")
                .unwrap_or_else(|| "E999".to_owned()),
            message: text(it, "/message").unwrap_or_default(),
            line: number(it, "/location/row"),
            column: number(it, "/location/column"),
        };
        Ok((found.iter().take(MAX_ISSUES).map(one).collect(), sandbox_usage))
    }

    pub(super) async fn fix_code(&self, program: &Path, code: &str) -> Result<String, String> {
        let args =
            ["check", "--isolated", "--no-cache", RULE_SELECTION, "--fix-only", "--quiet", "-"];
        self.run_program(program, &args, code).await.map(|(fixed, _)| fixed)
    }

    async fn run_program(
        &self,
        program: &Path,
        args: &[&str],
        code: &str,
    ) -> Result<(String, SandboxUsage), String> {
        let ran = tokio::time::timeout(TIME_LIMIT, self.run_sandboxed(program, args, code)).await;
        let (exit, out, err, sandbox_usage) =
            ran.map_err(|_| format!("ruff did not end within {}s", TIME_LIMIT.as_secs()))??;
        match exit {
            // Exit code 1 means that there are findings.
            ChildExit::Code(0 | 1) => Ok((out, sandbox_usage)),
            other => {
                let err = truncate_and_escape_debug(&err, 300);
                Err(format!("ruff failed ({other:?}): {err}"))
            }
        }
    }

    async fn run_sandboxed(
        &self,
        program: &Path,
        args: &[&str],
        code: &str,
    ) -> Result<(ChildExit, String, String, SandboxUsage), String> {
        let tier = self.sandboxes.usable_level().await?;
        let mut sandbox_spec = SandboxSpec::new(tier);
        sandbox_spec.program = ProgramSource::OpenedOutside;
        sandbox_spec.limits = ResourceLimits {
            cpu_seconds: 30,
            total_memory_bytes: MAX_MEMORY_BYTES,
            file_bytes: 0,
            ..sandbox_spec.limits
        };
        let spec = CommandSpec {
            command: program.to_string_lossy().into_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: vec![("RUFF_NO_CACHE".to_owned(), "true".into())],
            cwd: Some(PathBuf::from("/")),
            clear_env: true,
            sandbox: Some(sandbox_spec),
        };
        let mut child =
            self.sandboxes.launcher().spawn_child(&spec).map_err(|error| error.to_string())?;
        let (stdin, stdout, stderr) =
            (child.take_stdin(), child.take_stdout(), child.take_stderr());
        let write = async {
            if let Some(mut stdin) = stdin {
                // ruff may exit before it has read all input.
                let _unread = stdin.write_all(code.as_bytes()).await;
            }
        };
        let ((), out, err) = tokio::join!(write, read_output(stdout), read_output(stderr));
        let exit = child.wait_ended().await;
        Ok((exit, out?, err?, child_usage(tier, &child)))
    }
}

async fn read_output(stream: Option<impl AsyncRead + Unpin>) -> Result<String, String> {
    let Some(stream) = stream else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    let read = stream.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).await;
    read.map_err(|error| format!("ruff's answer: {error}"))?;
    String::from_utf8(bytes).map_err(|error| format!("ruff's answer: {error}"))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let meta = std::fs::metadata(path);
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
