//! Implements `toolkeep org`: commands for organizations.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::{Printer, format_table};
use cli_core::rest_client::RequestPath;

/// Create, list, enable and disable organisations, and set their tools. Requires the right
/// `orgs:write`.
#[derive(Debug, Subcommand)]
pub(crate) enum OrgCommand {
    Create(OrgCreateArgs),
    List(OrgListArgs),
    Tools(OrgToolsArgs),
    Disable(OrgDisableArgs),
    Enable(OrgEnableArgs),
}

/// Create an organisation and its owner's key, which is printed once and cannot be shown again.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep org create acme")]
pub(crate) struct OrgCreateArgs {
    /// Name of the organisation.
    #[arg(value_name = "NAME")]
    name: String,
    /// Description of the organisation.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
}

/// List all organisations of the server.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep org list")]
pub(crate) struct OrgListArgs {}

/// Show or set the tools that an organisation may use.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep org tools acme
  toolkeep org tools acme --set 'notes.*,web_search'
  toolkeep org tools acme --none")]
pub(crate) struct OrgToolsArgs {
    /// Name of the organisation.
    #[arg(value_name = "NAME")]
    name: String,
    /// New patterns and groups of its tools, separated by commas.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    set: Vec<String>,
    /// Allow no tools.
    #[arg(long, conflicts_with = "set")]
    none: bool,
}

/// Disable an organisation. Its keys become invalid.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep org disable acme")]
pub(crate) struct OrgDisableArgs {
    /// Name of the organisation.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Enable a disabled organisation.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep org enable acme")]
pub(crate) struct OrgEnableArgs {
    /// Name of the organisation.
    #[arg(value_name = "NAME")]
    name: String,
}

impl OrgCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let client = &session.client;
        let answer = match &self {
            Self::Create(OrgCreateArgs { name, description }) => {
                let body = json!({"name": name, "description": description});
                client.post_json(&RequestPath::from_segments("/v1/orgs", &[]), &body).await
            }
            Self::List(OrgListArgs {}) => {
                client.get_json(&RequestPath::from_segments("/v1/orgs", &[])).await
            }
            Self::Tools(OrgToolsArgs { name, set, none }) => {
                let path = RequestPath::from_segments("/v1/orgs", &[name, "tools"]);
                if set.is_empty() && !none {
                    client.get_json(&path).await
                } else {
                    client.put_json(&path, &json!({"tools": set})).await
                }
            }
            Self::Disable(OrgDisableArgs { name }) => {
                client.delete_json(&RequestPath::from_segments("/v1/orgs", &[name])).await
            }
            Self::Enable(OrgEnableArgs { name }) => {
                client
                    .post_json(
                        &RequestPath::from_segments("/v1/orgs", &[name, "enable"]),
                        &json!({}),
                    )
                    .await
            }
        };
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || self.format_answer(&answer))?;
        if matches!(self, Self::Create(_)) {
            ui.print_note(&format!(
                "key {} was created; it is printed only once",
                json_fields::field_line(&answer, "id", 32)
            ));
        }
        Ok(ExitStatus::Success)
    }

    fn format_answer(&self, answer: &Value) -> String {
        match self {
            Self::Create(_) => json_fields::field_text(answer, "key"),
            Self::List(_) => format_orgs(json_fields::field_items(answer, "orgs")),
            Self::Tools(_) => format_tools(answer),
            Self::Disable(_) | Self::Enable(_) => format_orgs(std::slice::from_ref(answer)),
        }
    }
}

fn format_tools(answer: &Value) -> String {
    let rows: Vec<_> = json_fields::field_items(answer, "tools")
        .iter()
        .map(|pattern| [pattern.as_str().unwrap_or_default().escape_debug().to_string()])
        .collect();
    format_table(["TOOLS"], &rows)
}

fn format_orgs(orgs: &[Value]) -> String {
    let row = |org: &Value| {
        [
            json_fields::field_line(org, "org", 64),
            json_fields::field_line(org, "keys", 8),
            json_fields::field_line(org, "tools", 8),
            json_fields::field_line(org, "disabled", 24),
            json_fields::field_line(org, "description", 60),
        ]
    };
    let rows: Vec<_> = orgs.iter().map(row).collect();
    format_table(["ORG", "KEYS", "TOOLS", "DISABLED", "DESCRIPTION"], &rows)
}
