//! Implements `toolkeep tool install`, which installs programs of built-in tools.

use clap::{Args, ValueEnum};
use egress::{EgressClient, EgressOptions};
use sandbox::SandboxLevel;
use serde::Serialize;
use std::sync::Arc;

use builtins::{PinnedPackage, RuffLinter, SandboxProvider};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

use cli_core::process_launcher::child_launcher;

/// Install a program that a built-in tool runs, in the data directory.
///
/// Installs ruff, for `lint_python`: a fixed version from the Python Package Index, verified by its
/// digest. A running server uses it from the next call on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool install ruff
  toolkeep tool install ruff --index https://pypi.example/simple")]
pub(crate) struct ToolInstallArgs {
    /// Program to install.
    #[arg(value_name = "PROGRAM")]
    program: InstallableProgram,
    /// URL of another package index with the simple API, instead of the public one.
    #[arg(long, value_name = "URL")]
    index: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum InstallableProgram {
    Ruff,
}

#[derive(Debug, Serialize)]
struct InstallReport {
    program: String,
    version: String,
    url: String,
    sha256: String,
}

impl ToolInstallArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let InstallableProgram::Ruff = self.program;
        let data = context.load_data_dir()?;
        let failed = |message: String| CommandError::new(ExitStatus::Failed, message);
        let package = PinnedPackage::pinned_ruff().ok_or_else(|| {
            let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
            failed(format!("no ruff build is available for {os} on {arch}"))
                .with_help("install ruff yourself, in the `PATH` of the server")
        })?;
        let egress =
            EgressClient::new(EgressOptions::default()).map_err(|it| failed(it.to_string()))?;
        let folder = data.path().join(builtins::RUFF_DIR);
        let index = self.index.as_deref();
        let installed = builtins::install_package(&egress, index, &package, &folder).await;
        let installed = installed.map_err(|message| {
            failed(message).with_help("to use your own package index, pass `--index`")
        })?;
        let sandboxes =
            Arc::new(SandboxProvider::new(child_launcher(), None, SandboxLevel::NoNamespaces));
        let version = RuffLinter::in_folders(&sandboxes, [folder]).query_version().await.map_err(
            |message| {
                failed(format!("ruff was installed but does not run: {message}"))
                    .with_help("run `toolkeep doctor` to check the sandbox of this machine")
            },
        )?;
        let answer = InstallReport {
            program: installed.program.display().to_string(),
            version,
            url: installed.url,
            sha256: package.sha256,
        };
        ui.print_result(&answer, || format!("{}: {}", answer.version, answer.program))?;
        Ok(ExitStatus::Success)
    }
}
