//! Implements `toolkeep toolset`: commands for named selections of items.

mod format;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::RequestPath;

use format::{format_detail, format_toolsets};

/// Create, list, show, accept and remove toolsets: chosen items of several sources, each at an MCP
/// endpoint `/mcp/NAME`.
///
/// A toolset shows an item in the definition that its owner accepted. Changing one requires the
/// right `sources:write`, accepting items `pins:write`.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsetCommand {
    List(ToolsetListArgs),
    Show(ToolsetShowArgs),
    Add(ToolsetAddArgs),
    Remove(ToolsetRemoveArgs),
    Accept(ToolsetAcceptArgs),
}

/// List the toolsets that you may use; all, if you may change them.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep toolset list")]
pub(crate) struct ToolsetListArgs {}

/// Show a toolset with its items, and the changes that wait to be accepted.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep toolset show support")]
pub(crate) struct ToolsetShowArgs {
    /// Name of the toolset.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Create a toolset, or replace the definition of one.
///
/// A new toolset accepts what its patterns select now. A replaced one accepts nothing: run
/// `toolkeep toolset accept` for the items that are new in it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep toolset add support --role support --tool 'docs.*' --tool crm.search=find_customer
  toolkeep toolset add reading --role '*' --tool docs.read --resource 'docs.file:///guide/*'")]
pub(crate) struct ToolsetAddArgs {
    /// Name of the toolset.
    #[arg(value_name = "NAME")]
    name: String,
    /// Pattern of tools as in the policy, or `SOURCE.TOOL=NAME` to offer one under another name. Can
    /// be repeated.
    #[arg(long = "tool", value_name = "PATTERN")]
    tools: Vec<String>,
    /// Pattern of prompts, or `SOURCE.PROMPT=NAME`. Can be repeated.
    #[arg(long = "prompt", value_name = "PATTERN")]
    prompts: Vec<String>,
    /// Pattern of resources and templates, as `SOURCE.URI`. Can be repeated.
    #[arg(long = "resource", value_name = "PATTERN")]
    resources: Vec<String>,
    /// Pattern of skills, as `SOURCE.URI`. Can be repeated.
    #[arg(long = "skill", value_name = "PATTERN")]
    skills: Vec<String>,
    /// Role that may use it; `*` is every caller. Can be repeated [default: none].
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Title for people.
    #[arg(long, value_name = "TEXT", default_value = "")]
    title: String,
    /// Description, which MCP clients receive as instructions.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// Description of a tool or prompt instead of its own, as `SOURCE.NAME=TEXT`. Can be repeated.
    #[arg(long = "describe", value_name = "ITEM=TEXT")]
    descriptions: Vec<String>,
}

/// Remove a toolset. Keys that are bound to it see nothing from then on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolkeep toolset remove support")]
pub(crate) struct ToolsetRemoveArgs {
    /// Name of the toolset.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Accept the items of a toolset, with the definitions that `toolkeep toolset show` prints.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep toolset accept support
  toolkeep toolset accept support --revision sha256:6c1d…")]
pub(crate) struct ToolsetAcceptArgs {
    /// Name of the toolset.
    #[arg(value_name = "NAME")]
    name: String,
    /// Revision that you reviewed, as `toolkeep toolset show` prints it [default: the current one].
    #[arg(long, value_name = "HASH")]
    revision: Option<String>,
}

impl ToolsetCommand {
    pub(crate) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let body = if let Self::Add(add) = &self { Some(add.request_body()?) } else { None };
        let session = context.connect().await?;
        session.wait_for_listing(None, ui).await;
        let client = &session.client;
        let all = RequestPath::from_segments("/v1/toolsets", &[]);
        let one = |name: &str| RequestPath::from_segments("/v1/toolsets", &[name]);
        let answer = match &self {
            Self::List(ToolsetListArgs {}) => client.get_json(&all).await,
            Self::Show(ToolsetShowArgs { name }) => client.get_json(&one(name)).await,
            Self::Add(ToolsetAddArgs { name, .. }) => client.put_json(&one(name), &body).await,
            Self::Remove(ToolsetRemoveArgs { name }) => client.delete_json(&one(name)).await,
            Self::Accept(ToolsetAcceptArgs { name, revision }) => {
                let revision = match revision {
                    Some(revision) => Ok(revision.clone()),
                    None => client
                        .get_json(&one(name))
                        .await
                        .map(|shown: Value| json_fields::field_text(&shown, "revision")),
                };
                let path = RequestPath::from_segments("/v1/toolsets", &[name, "accept"]);
                match revision {
                    Ok(revision) => client.post_json(&path, &json!({ "revision": revision })).await,
                    Err(error) => Err(error),
                }
            }
        };
        session.close().await?;
        let answer: Value = answer?;
        ui.print_result(&answer, || match &self {
            Self::List(_) | Self::Remove(_) => {
                format_toolsets(json_fields::field_items(&answer, "toolsets"))
            }
            Self::Show(_) | Self::Add(_) | Self::Accept(_) => format_detail(&answer),
        })?;
        Ok(ExitStatus::Success)
    }
}

impl ToolsetAddArgs {
    fn request_body(&self) -> Result<Value, CommandError> {
        let described = self.descriptions.iter().map(|text| split_pair("--describe", text));
        let described = described.collect::<Result<Vec<_>, _>>()?;
        let entry = |text: &String| {
            let (pattern, name) = match text.split_once('=') {
                Some((pattern, name)) => (pattern, Some(name)),
                None => (text.as_str(), None),
            };
            let description = described.iter().find(|(item, _)| *item == pattern);
            match (name, description) {
                (None, None) => json!(pattern),
                (name, description) => {
                    json!({"pattern": pattern, "name": name, "description": description.map(|it| it.1)})
                }
            }
        };
        let entries = |list: &[String]| list.iter().map(entry).collect::<Vec<_>>();
        Ok(json!({
            "title": self.title, "description": self.description, "roles": self.roles,
            "tools": entries(&self.tools), "prompts": entries(&self.prompts),
            "resources": self.resources, "skills": self.skills,
        }))
    }
}

fn split_pair<'a>(flag: &str, text: &'a str) -> Result<(&'a str, &'a str), CommandError> {
    text.split_once('=').ok_or_else(|| {
        let message = format!("`{flag} {}` has no `=`", text.escape_debug());
        CommandError::new(ExitStatus::UsageError, message)
            .with_help("write it as `SOURCE.NAME=TEXT`")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ToolsetAddArgs;

    #[test]
    fn items_have_other_names_and_descriptions() {
        let list = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect::<Vec<_>>();
        let args = ToolsetAddArgs {
            name: "support".to_owned(),
            tools: list(&["docs.*", "crm.search=find", "crm.get"]),
            prompts: Vec::new(),
            resources: list(&["docs.file:///a?b=c"]),
            skills: Vec::new(),
            roles: list(&["support"]),
            title: String::new(),
            description: String::new(),
            descriptions: list(&["crm.get=Reads a = b."]),
        };
        let body = args.request_body().unwrap();
        let tools = json!(["docs.*", {"pattern": "crm.search", "name": "find", "description": null},
            {"pattern": "crm.get", "name": null, "description": "Reads a = b."}]);
        assert_eq!((&body["tools"], &body["resources"][0]), (&tools, &json!("docs.file:///a?b=c")));
        let wrong = ToolsetAddArgs { descriptions: list(&["crm.get"]), ..args };
        assert!(wrong.request_body().is_err());
    }
}
