//! Implements `toolkeep source add`, which adds a source to the configuration file.
//!
//! The lines are inserted into the text of the file, which is then validated by the configuration
//! loader before it is written.

mod entry;
mod insert;
mod trial;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use cli_core::context::Context;
use cli_core::failure::{Exit, Failure};
use cli_core::replace::replace;
use cli_core::ui::{Ui, clean};

/// Add a source to the configuration file. No other byte of the file changes.
///
/// The file is read with the new lines before it is written, as a server would read it: what would be
/// a fault is told, and nothing is written. A server that runs takes the source up by itself. Variables
/// such as `${NAME}` are written as they are, and filled in when the file is read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep source add notes --tools ./tools.yaml --config toolkeep.yaml
  toolkeep source add research --module http://127.0.0.1:8000 --bearer-env RESEARCH_TOKEN
  toolkeep source add wiki --mcp https://wiki.example/mcp --trust review
  toolkeep source add crm --mcp https://crm.example/mcp --header 'X-Team: tools' --oauth client_id=toolkeep
  toolkeep source add git --env GIT_TOKEN --env LANG=C -- git-mcp --stdio
  toolkeep source add files --dry-run -- npx -y @modelcontextprotocol/server-filesystem ./work")]
pub(crate) struct Add {
    /// Its name: letters, digits, `_`, `.` and `-`.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    origin: Origin,
    /// Name of the environment variable that holds the token to send.
    #[arg(long, value_name = "NAME")]
    bearer_env: Option<String>,
    /// A variable for the program, once for each: NAME=VALUE, or NAME for what it is where the server runs.
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// A header to send to the MCP server, once for each: `Name: value`. Better `${NAME}` than a secret.
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// How tokens for the MCP server are asked for, once for each key: client_id=…, client_secret_env=…,
    /// grant=client_credentials, scopes=a,b, issuer=… and what else `oauth` may have in the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    oauth: Vec<String>,
    /// How far it is trusted not to change its tools: full, first_use, review.
    #[arg(long, value_name = "WORD")]
    trust: Option<String>,
    /// Trust what an MCP server says of its tools, such as that they only read. On a terminal it is asked
    /// where it is not given; the default is not to.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    trust_annotations: Option<bool>,
    /// Time for one call, such as 30s, 500ms or 2m.
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// Show the lines and where they would stand; write nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Where its tools come from: one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Origin {
    /// A tool file, as seen from the folder of the configuration file.
    #[arg(long, value_name = "FILE")]
    tools: Option<String>,
    /// URL of an HTTP module.
    #[arg(long, value_name = "URL")]
    module: Option<String>,
    /// URL of an MCP server.
    #[arg(long, value_name = "URL")]
    mcp: Option<String>,
    /// The program of an MCP server and its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The question about an MCP server, because only the strict default is safe for all.
const QUESTION: &str = "Do you trust what this server says of its own tools? Those that it calls \
                        read-only then count as such.";

impl Origin {
    fn is_mcp(&self) -> bool {
        self.mcp.is_some() || !self.command.is_empty()
    }
}

impl Add {
    pub(super) fn run(mut self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        let setting = context.setting(None);
        let Some(file) = setting.file.clone() else {
            let failure = Failure::new(Exit::Usage, "no configuration file is named");
            return Err(failure.fix("add `--config FILE`, or set TOOLKEEP_CONFIG"));
        };
        let file: PathBuf = setting.folder.join(file);
        let before = trial::of(&setting, &file)?;
        trial::free(&before, &self.name)?;
        let text = read(&file)?;
        if self.trust_annotations.is_none() && self.origin.is_mcp() {
            self.trust_annotations = ui.confirm(QUESTION);
        }
        let lines = entry::lines(&self)?;
        let inserted = insert::insert(&text, &lines).map_err(|fault| fault.told(&file, &lines))?;
        trial::fits(&setting, &file, &before, &inserted.text, &self.name)?;
        if !self.dry_run {
            // Do not overwrite concurrent changes.
            if read(&file)? != text {
                let message = format!("`{}` was changed meanwhile", shown(&file));
                return Err(Failure::new(Exit::Failed, message).fix("run the command again"));
            }
            replace(&file, inserted.text.as_bytes())
                .map_err(|error| unusable(&file, "written", &error))?;
        }
        let answer = json!({ "file": file, "line": inserted.line, "lines": inserted.lines,
            "source": self.name, "written": !self.dry_run });
        ui.answer(&answer, || {
            let done = if self.dry_run { "would be added" } else { "added" };
            let place = format!("{}:{}", shown(&file), inserted.line);
            format!("{done} at {place}:\n{}", clean(&inserted.lines))
        })?;
        Ok(Exit::Done)
    }
}

fn read(file: &std::path::Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| unusable(file, "read", &error))
}

fn unusable(file: &std::path::Path, how: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("`{}` cannot be {how}: {error}", shown(file)))
}

fn shown(file: &std::path::Path) -> String {
    clean(&file.display().to_string())
}

#[cfg(test)]
mod tests;
