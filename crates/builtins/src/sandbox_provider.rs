//! Sandbox detection and setup: finds the sandbox levels that this machine supports and builds
//! sandboxed commands.

use std::path::{Path, PathBuf};

use sandbox::process::{ChildProcess, CommandSpec, ProcessLauncher, ResourceUsage};
use sandbox::{SandboxLevel, SandboxSpec, SandboxSupport, detect_support};
use tokio::sync::OnceCell;
use tool::SandboxUsage;
use tool::clock::duration_millis;

/// Process launcher, working directory and minimum sandbox level of the tools that run code.
#[derive(Debug)]
pub struct SandboxProvider {
    launcher: ProcessLauncher,
    work_dir: Option<PathBuf>,
    min_level: SandboxLevel,
    support: OnceCell<SandboxSupport>,
}

impl SandboxProvider {
    /// Creates a provider that starts children with `launcher` in a sandbox of at least
    /// `min_level`; commands run in `work_dir`.
    pub fn new(
        launcher: ProcessLauncher,
        work_dir: Option<PathBuf>,
        min_level: SandboxLevel,
    ) -> Self {
        Self { launcher, work_dir, min_level, support: OnceCell::new() }
    }

    /// Returns the working directory of commands, if one is configured.
    pub fn work_dir(&self) -> Option<&Path> {
        self.work_dir.as_deref()
    }

    /// Tests which sandbox levels this machine supports. The first call takes about 20 ms; later
    /// calls return its result.
    pub async fn sandbox_support(&self) -> &SandboxSupport {
        self.support.get_or_init(|| detect_support(&self.launcher)).await
    }

    /// Returns the sandbox level to use.
    ///
    /// # Errors
    /// One line that says why no permitted level is available.
    pub async fn usable_level(&self) -> Result<SandboxLevel, String> {
        let standing = self.sandbox_support().await;
        match standing.best_level() {
            Some(tier) if tier >= self.min_level => Ok(tier),
            Some(_) => {
                let why = standing.missing_reason(SandboxLevel::Full).unwrap_or_default();
                Err(format!("a full sandbox is not available: {why}"))
            }
            None => {
                let why = standing
                    .missing_reason(SandboxLevel::NoNamespaces)
                    .or_else(|| standing.missing_reason(SandboxLevel::Full));
                Err(format!("no sandbox is available: {}", why.unwrap_or_default()))
            }
        }
    }

    /// Returns a hint on how to make the missing sandbox level available.
    pub async fn fix_hint(&self) -> &'static str {
        if self.sandbox_support().await.best_level().is_some() {
            "allow user namespaces for this user, or set `server: { min_sandbox: fenced }` in the configuration"
        } else {
            "use a kernel with Landlock and seccomp, and a container that allows them"
        }
    }

    /// Returns why commands cannot use the working folder at this level, although code without
    /// files could run.
    pub(crate) fn command_limitation(level: SandboxLevel) -> Option<&'static str> {
        let unmapped = level == SandboxLevel::NoNamespaces && rustix::process::geteuid().is_root();
        unmapped.then_some("in a fenced sandbox, commands cannot use a folder of the superuser")
    }

    pub(crate) fn launcher(&self) -> &ProcessLauncher {
        &self.launcher
    }

    /// Builds the sandboxed command for a shell command line, run in the working folder or in
    /// `folder` below it.
    pub(crate) async fn shell_command(
        &self,
        line: &str,
        folder: Option<&str>,
    ) -> Result<CommandSpec, String> {
        let tier = self.usable_level().await?;
        let work = self.work_dir.as_deref().ok_or("no working folder is configured")?;
        let cwd = work.join(folder.unwrap_or("."));
        Ok(CommandSpec {
            command: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), line.to_owned()],
            env: command_env(work),
            clear_env: true,
            cwd: Some(cwd),
            sandbox: Some(SandboxSpec::new(tier).with_work_dir(work)),
        })
    }
}

/// Builds the recorded resource usage of a sandboxed call.
pub(crate) fn sandbox_usage(level: SandboxLevel, usage: Option<ResourceUsage>) -> SandboxUsage {
    SandboxUsage {
        tier: level.as_str().to_owned(),
        cpu_ms: usage.map(|it| duration_millis(it.cpu_time)),
        peak_kib: usage.map(|it| it.peak_kib),
    }
}

/// Builds the recorded resource usage of a child process that has ended.
pub(crate) fn child_usage(level: SandboxLevel, child: &ChildProcess) -> SandboxUsage {
    sandbox_usage(level, child.resource_usage())
}

/// The environment of commands. Contains nothing of Toolkeep's own environment.
fn command_env(work: &Path) -> Vec<(String, sandbox::process::EnvValue)> {
    let home = work.display().to_string();
    [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", home.as_str()),
        ("SHELL", "/bin/sh"),
        ("USER", "tool"),
        ("LOGNAME", "tool"),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
    ]
    .map(|(name, value)| (name.to_owned(), value.into()))
    .into()
}
