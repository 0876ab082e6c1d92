//! Implements `toolkeep source disable` and `enable`, which turn a source or a tool off and on.

use clap::Args;
use serde_json::{Value, json};

use crate::name_suggestions;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;
use cli_core::server_transport::SourceNeed;

/// Turn a source or one of its tools off, for every caller: it is in no list and cannot be called.
///
/// It stays off after a restart, until `toolkeep source enable` turns it on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep source disable tracker
  toolkeep source disable tracker delete_issue")]
pub(crate) struct SourceDisableArgs {
    #[command(flatten)]
    target: SwitchTarget,
}

/// Turn a source or one of its tools on again.
///
/// A tool of a source that is off itself stays off.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep source enable tracker
  toolkeep source enable tracker delete_issue")]
pub(crate) struct SourceEnableArgs {
    #[command(flatten)]
    target: SwitchTarget,
}

#[derive(Debug, Args)]
struct SwitchTarget {
    /// Name of the source.
    #[arg(value_name = "NAME")]
    source: String,
    /// Name of one of its tools, as the source has it.
    #[arg(value_name = "TOOL")]
    tool: Option<String>,
}

impl SourceDisableArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        self.target.set_switch(false, context, ui).await
    }
}

impl SourceEnableArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        self.target.set_switch(true, context, ui).await
    }
}

impl SwitchTarget {
    async fn set_switch(
        self,
        enabled: bool,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_sources(SourceNeed::Source(&self.source), ui).await;
        let body = json!({"source": self.source, "tool": self.tool, "enabled": enabled});
        let path = RequestPath::from_segments("/v1/switches", &[]);
        let mut answer = session.client.put_json::<Value>(&path, &body).await;
        if let Err(failure) = answer {
            let names = name_suggestions::SOURCE_NAMES;
            answer = Err(name_suggestions::with_name_suggestion(
                names,
                &session.client,
                &self.source,
                failure,
            )
            .await);
        }
        session.close().await?;
        let answer = answer?;
        ui.print_result(&answer, || format_switches(&answer))?;
        Ok(ExitStatus::Success)
    }
}

/// Formats everything that is off, so that nobody forgets it.
fn format_switches(answer: &Value) -> String {
    let line = |value: &Value| value.as_str().map(cli_core::printer::sanitize_text);
    let sources = json_fields::field_items(answer, "sources").iter().filter_map(line);
    let tools = json_fields::field_items(answer, "tools").iter().map(|tool| {
        let field = |name| json_fields::field_line(tool, name, 100);
        format!("{} {}", field("source"), field("tool"))
    });
    let off: Vec<String> = sources.chain(tools).collect();
    if off.is_empty() { "nothing is off".to_owned() } else { format!("off:\n{}", off.join("\n")) }
}
