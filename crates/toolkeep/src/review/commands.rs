//! MCP servers that could not be started: their commands are looked for, and nothing is started.

use std::ffi::OsStr;

use sandbox::process::{LookupError, lookup};
use tool::Problem;

use config::{Config, Environment, Fault, McpCommand, SourceConfig, SourceKind};

/// What is wrong with the commands of all sources.
pub(super) fn problems(config: &Config, environment: &Environment) -> Vec<Problem> {
    let problem = |source: &SourceConfig| match &source.kind {
        SourceKind::McpCommand(command) => problem(source, command, environment),
        _ => None,
    };
    config.sources.iter().filter_map(problem).collect()
}

fn problem(
    source: &SourceConfig,
    command: &McpCommand,
    environment: &Environment,
) -> Option<Problem> {
    let own = command.env.iter().rev().find(|(name, _)| name == "PATH");
    let path = own.map(|(_, path)| path.open()).or_else(|| environment.get("PATH"));
    let error = lookup(&command.command, path.map(OsStr::new), &command.cwd).err()?;
    let fix = match &error {
        LookupError::NoFolder(_) => "make the folder, or correct `cwd`",
        LookupError::NoFile(_) => "correct the path; it begins in the folder the command runs in",
        LookupError::NotExecutable(_) => "`chmod +x` it, or name the program that runs it",
        LookupError::NotInPath => {
            "install it, or write its path; `PATH` is that of the server, or `env: { PATH: … }`"
        }
    };
    let message = format!(
        "the command `{}` of the source `{}` cannot be started: {error}",
        command.command.escape_debug(),
        source.name
    );
    let (file, place) = &source.written;
    Some(Problem::from(&Fault::new(file, *place, message).fix(fix)))
}
