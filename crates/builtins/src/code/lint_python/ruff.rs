//! Runs ruff as a sandboxed process: code on standard input, findings on standard output. No files,
//! no configuration, no cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox::process::{Exit, Spec};
use sandbox::{Cage, Share};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tool::Caged;

use super::Issue;
use crate::cages::{Cages, caged_child};

/// Time limit of one run.
const LIMIT: Duration = Duration::from_secs(20);
/// Largest output of ruff, in bytes.
const MOST: u64 = 8 << 20;
/// Memory limit of ruff, in bytes.
const MEMORY: u64 = 512 << 20;
/// Largest number of reported findings.
const ISSUES: usize = 1_000;
/// Selected rule sets: pycodestyle, pyflakes, bugbear, pyupgrade and isort.
const SELECT: &str = "--select=E,W,F,B,UP,I";

/// The ruff linter: the folders in which it may be installed, and the sandbox it runs in.
#[derive(Debug, Clone)]
pub struct Ruff {
    cages: Arc<Cages>,
    places: Vec<PathBuf>,
}

impl Ruff {
    /// Uses the ruff in the first of these folders that has one. The lookup happens at each call,
    /// because ruff may be installed while the server runs.
    pub fn among(cages: &Arc<Cages>, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let places = folders.into_iter().filter(|it| it.is_absolute()).map(|it| it.join("ruff"));
        Self { cages: Arc::clone(cages), places: places.collect() }
    }

    /// Returns the path of ruff, if it is installed and a sandbox is available.
    pub async fn program(&self) -> Option<PathBuf> {
        let program = self.places.iter().find(|path| is_program(path))?.clone();
        self.cages.tier().await.is_ok().then_some(program)
    }

    /// Runs ruff as for a call and returns its version.
    ///
    /// # Errors
    /// A message that says why ruff does not run.
    pub async fn version(&self) -> Result<String, String> {
        let program = self.places.iter().find(|path| is_program(path)).ok_or("it is not there")?;
        self.run(program, &["--version"], "").await.map(|(told, _)| told.trim().to_owned())
    }

    /// Returns the findings and the resource usage.
    pub(super) async fn check(
        &self,
        program: &Path,
        code: &str,
    ) -> Result<(Vec<Issue>, Caged), String> {
        let args = ["check", "--isolated", "--no-cache", SELECT, "--output-format=json", "-"];
        let (out, caged) = self.run(program, &args, code).await?;
        let found: Vec<Value> =
            serde_json::from_str(&out).map_err(|error| format!("ruff's answer: {error}"))?;
        let text = |it: &Value, at: &str| it.pointer(at).and_then(Value::as_str).map(str::to_owned);
        let number = |it: &Value, at: &str| it.pointer(at).and_then(Value::as_u64).unwrap_or(0);
        let one = |it: &Value| Issue {
            // Syntax errors have no code.
            code: text(it, "/code")
                .filter(|it| it != "invalid-syntax")
                .unwrap_or_else(|| "E999".to_owned()),
            message: text(it, "/message").unwrap_or_default(),
            line: number(it, "/location/row"),
            column: number(it, "/location/column"),
        };
        Ok((found.iter().take(ISSUES).map(one).collect(), caged))
    }

    pub(super) async fn fix(&self, program: &Path, code: &str) -> Result<String, String> {
        let args = ["check", "--isolated", "--no-cache", SELECT, "--fix-only", "--quiet", "-"];
        self.run(program, &args, code).await.map(|(fixed, _)| fixed)
    }

    async fn run(
        &self,
        program: &Path,
        args: &[&str],
        code: &str,
    ) -> Result<(String, Caged), String> {
        let ran = tokio::time::timeout(LIMIT, self.ran(program, args, code)).await;
        let (exit, out, err, caged) =
            ran.map_err(|_| format!("ruff has not ended within {}s", LIMIT.as_secs()))??;
        match exit {
            // Exit code 1 means that there are findings.
            Exit::Code(0 | 1) => Ok((out, caged)),
            other => {
                let err: String = err.chars().take(300).flat_map(char::escape_debug).collect();
                Err(format!("ruff failed ({other:?}): {err}"))
            }
        }
    }

    async fn ran(
        &self,
        program: &Path,
        args: &[&str],
        code: &str,
    ) -> Result<(Exit, String, String, Caged), String> {
        let tier = self.cages.tier().await?;
        let mut cage = Cage::new(tier);
        cage.from_outside = true;
        cage.share = Share { cpu: 30, together: MEMORY, file: 0, ..cage.share };
        let spec = Spec {
            command: program.to_string_lossy().into_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: vec![("RUFF_NO_CACHE".to_owned(), "true".into())],
            cwd: Some(PathBuf::from("/")),
            clear_env: true,
            cage: Some(cage),
        };
        let mut child = self.cages.launcher().spawn(&spec).map_err(|error| error.to_string())?;
        let (stdin, stdout, stderr) = (child.stdin(), child.stdout(), child.stderr());
        let write = async {
            if let Some(mut stdin) = stdin {
                // ruff may exit before it has read all input.
                let _unread = stdin.write_all(code.as_bytes()).await;
            }
        };
        let ((), out, err) = tokio::join!(write, text(stdout), text(stderr));
        let exit = child.wait().await;
        Ok((exit, out?, err?, caged_child(tier, &child)))
    }
}

async fn text(stream: Option<impl AsyncRead + Unpin>) -> Result<String, String> {
    let Some(stream) = stream else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    let read = stream.take(MOST).read_to_end(&mut bytes).await;
    read.map_err(|error| format!("ruff's answer: {error}"))?;
    String::from_utf8(bytes).map_err(|error| format!("ruff's answer: {error}"))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let meta = std::fs::metadata(path);
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
