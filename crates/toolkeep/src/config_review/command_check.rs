//! Checks that the commands of MCP servers exist and are executable, without starting them.

use std::ffi::OsStr;

use sandbox::process::{LookupError, find_program};
use tool::Problem;

use config::{
    Config, ConfigError, ConfigLocation, Environment, McpCommandConfig, SourceConfig, SourceKind,
};

/// Returns the problems with the commands of all sources.
pub(super) fn command_problems(config: &Config, environment: &Environment) -> Vec<Problem> {
    let problem = |source: &SourceConfig| match &source.kind {
        SourceKind::McpCommand(command) => command_problem(source, command, environment),
        _ => None,
    };
    config.sources.iter().filter_map(problem).collect()
}

fn command_problem(
    source: &SourceConfig,
    command: &McpCommandConfig,
    environment: &Environment,
) -> Option<Problem> {
    let own = command.env.iter().rev().find(|(name, _)| name == "PATH");
    let path = own.map(|(_, path)| path.expose()).or_else(|| environment.get("PATH"));
    let error = find_program(&command.command, path.map(OsStr::new), &command.working_dir).err()?;
    let fix = match &error {
        LookupError::NoFolder(_) => "create the folder, or correct `cwd`",
        LookupError::NoFile(_) => {
            "correct the path; it is relative to the command's working directory"
        }
        LookupError::NotExecutable(_) => "run `chmod +x` on it, or name the program that runs it",
        LookupError::NotInPath => {
            "install it, or write its path; `PATH` is the server's, or `env: { PATH: … }` of the source"
        }
    };
    let message = format!(
        "the command `{}` of the source `{}` cannot be started: {error}",
        command.command.escape_debug(),
        source.name
    );
    let ConfigLocation { file, position } = &source.location;
    Some(Problem::from(&ConfigError::new(file, *position, message).with_help(fix)))
}
