//! Implements `toolkeep version`, which describes the program and the sandbox of this machine.

use clap::Args;
use sandbox::SandboxLevel;
use serde::Serialize;

use crate::data_formats::{FormatRange, supported_formats};
use crate::sandbox_tiers::{SandboxTiers, sandbox_provider};
use cli_core::build_facts::BuildFacts;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;

/// Describe this program: version, build, kinds of sources, data formats, and the sandbox tiers of
/// this machine.
///
/// Reads no configuration and no data, and sends no network requests. Starts only the sandbox tests
/// of `toolkeep doctor`. `toolkeep --version` prints the version alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep version
  toolkeep version -o json")]
pub(crate) struct VersionArgs {}

/// The program and its machine.
#[derive(Debug, Serialize)]
struct ProgramDescription {
    version: &'static str,
    #[serde(flatten)]
    build: BuildFacts,
    /// Versions of the data directory's files that the program reads and writes.
    formats: Vec<FormatRange>,
    sandbox: SandboxTiers,
}

impl VersionArgs {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let sandboxes = sandbox_provider(SandboxLevel::NoNamespaces);
        let description = ProgramDescription {
            version: env!("CARGO_PKG_VERSION"),
            build: context.launcher.build_facts(),
            formats: supported_formats(),
            sandbox: SandboxTiers::from_support(sandboxes.sandbox_support().await),
        };
        ui.print_result(&description, || format_description(&description))?;
        Ok(ExitStatus::Success)
    }
}

fn format_description(description: &ProgramDescription) -> String {
    let ProgramDescription { version, build, formats, sandbox } = description;
    let join = |words: &[&str]| match words {
        [] => "none".to_owned(),
        words => words.join(", "),
    };
    let formats: Vec<_> = formats.iter().map(ToString::to_string).collect();
    let landlock = match sandbox.landlock_abi {
        0 => "no Landlock".to_owned(),
        version => format!("Landlock {version}"),
    };
    let seccomp = if sandbox.has_seccomp { "seccomp" } else { "no seccomp" };
    format!(
        "toolkeep {version}\n\
         \n  commit    {}\
         \n  target    {}\
         \n  profile   {}\
         \n  features  {}\
         \n  sources   {}\
         \n  stores    {}\
         \n  formats   {}\
         \n  sandbox   {}; {landlock}, {seccomp}",
        build.commit.unwrap_or("unknown"),
        build.target,
        build.profile.as_str(),
        join(&build.features),
        join(&build.sources),
        join(&build.stores),
        formats.join(", "),
        sandbox.describe(),
    )
}
