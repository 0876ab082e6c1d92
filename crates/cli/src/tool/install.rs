//! Implements `toolkeep tool install`, which installs programs of built-in tools.

use clap::{Args, ValueEnum};
use egress::{Egress, EgressSettings};
use sandbox::Tier;
use serde::Serialize;
use std::sync::Arc;

use builtins::{Cages, Package, Ruff};

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::Ui;

use cli_core::launch::launcher;

/// Install a program that a built-in tool runs, into the data directory.
///
/// ruff, for `lint_python`: one version from the Python package index, whose digest is known beforehand; a
/// file with another one is not installed. A server that runs uses it from its next call on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep tool install ruff
  toolkeep tool install ruff --index https://pypi.example/simple")]
pub(crate) struct Install {
    /// The program.
    #[arg(value_name = "PROGRAM")]
    program: Program,
    /// Another index than everyone's: the address of its list of projects.
    #[arg(long, value_name = "URL")]
    index: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Program {
    Ruff,
}

#[derive(Debug, Serialize)]
struct Answer {
    program: String,
    version: String,
    url: String,
    sha256: String,
}

impl Install {
    pub(super) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let Program::Ruff = self.program;
        let reading = config::read(&context.setting(None));
        let Some(config) = reading.config else { return Err(Failure::of_faults(reading.faults)) };
        let failed = |message: String| Failure::new(Exit::Failed, message);
        let package = Package::ruff().ok_or_else(|| {
            let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
            failed(format!("no ruff is known for {os} on {arch}"))
                .fix("install it by hand, and have it on the `PATH` of the server")
        })?;
        let egress = Egress::new(EgressSettings::default()).map_err(|it| failed(it.to_string()))?;
        let folder = config.data.join(builtins::RUFF);
        let index = self.index.as_deref();
        let installed = builtins::install(&egress, index, &package, &folder).await;
        let installed = installed.map_err(|message| {
            failed(message).fix("an index of your own is named with `--index`")
        })?;
        let cages = Arc::new(Cages::new(launcher(), None, Tier::Fenced));
        let version = Ruff::among(&cages, [folder]).version().await.map_err(|message| {
            failed(format!("it is installed, and does not run: {message}"))
                .fix("`toolkeep doctor` says what this machine has of a cage")
        })?;
        let answer = Answer {
            program: installed.program.display().to_string(),
            version,
            url: installed.url,
            sha256: package.sha256,
        };
        ui.answer(&answer, || format!("{}: {}", answer.version, answer.program))?;
        Ok(Exit::Done)
    }
}
