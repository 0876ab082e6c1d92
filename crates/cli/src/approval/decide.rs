//! Implements `toolkeep approval approve`, `deny` and `edit`.

use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::edit_hunks;
use cli_core::command_context::CommandContext;
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::json_fields;
use cli_core::printer::Printer;
use cli_core::rest_client::{RequestPath, RestClient};
use cli_core::server_transport::SourceNeed;

/// Approve a pending call: it runs once, with its current arguments.
///
/// The policy is evaluated again before the call runs, so that later changes apply. Nobody can
/// approve their own call: another person must approve it, or it must be made with an agent's key
/// (`toolkeep tool call --agent`).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval approve 01980000-0000-7000-8000-000000000000")]
pub(crate) struct ApprovalApproveArgs {
    /// ID of the pending call.
    #[arg(value_name = "ID")]
    id: String,
    /// Approve only if the arguments still have this hash, as `toolkeep approval show` prints it.
    #[arg(long, value_name = "HASH")]
    sha256: Option<String>,
}

/// Deny a pending call. It never runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval deny 01980000-0000-7000-8000-000000000000 --reason 'not on a Friday'")]
pub(crate) struct ApprovalDenyArgs {
    /// ID of the pending call.
    #[arg(value_name = "ID")]
    id: String,
    /// Reason for the denial, which the caller receives.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Replace the arguments of a pending call, which then waits for approval with the new ones.
///
/// The new arguments are validated against the tool's schema. Approvals of the previous arguments
/// are void. If the call has the texts `original` and `modified`, `--hunks` accepts only the listed
/// changes, numbered as `toolkeep approval show` prints them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep approval edit 01980000-0000-7000-8000-000000000000 --arguments '{\"path\": \"tmp\"}'
  toolkeep approval edit 01980000-0000-7000-8000-000000000000 --arguments '{}' --approve
  toolkeep approval edit 01980000-0000-7000-8000-000000000000 --hunks 1,3 --approve")]
pub(crate) struct ApprovalEditArgs {
    /// ID of the pending call.
    #[arg(value_name = "ID")]
    id: String,
    /// All arguments of the call, as one JSON object.
    #[arg(
        long = "arguments",
        alias = "args",
        value_name = "JSON",
        required_unless_present = "hunks"
    )]
    args: Option<String>,
    /// Numbers of the changes to accept; the others are rejected.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', conflicts_with = "args")]
    hunks: Vec<usize>,
    /// Approve the call with the new arguments at once.
    #[arg(long)]
    approve: bool,
}

/// A decision about a pending call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApprovalAction {
    Approve,
    Deny,
    Edit,
}

impl ApprovalAction {
    /// The last segment of its route.
    fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Edit => "edit",
        }
    }
}

impl ApprovalApproveArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let body = match &self.sha256 {
            Some(hash) => json!({ "arguments_sha256": hash }),
            None => json!({}),
        };
        decide_approval(context, ui, &self.id, ApprovalAction::Approve, &body).await
    }
}

impl ApprovalDenyArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let body = match &self.reason {
            Some(reason) => json!({ "reason": reason }),
            None => json!({}),
        };
        decide_approval(context, ui, &self.id, ApprovalAction::Deny, &body).await
    }
}

#[derive(serde::Serialize)]
struct EditRequest<'a> {
    arguments: &'a RawValue,
    approve: bool,
}

impl ApprovalEditArgs {
    pub(super) async fn run(
        self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<ExitStatus, CommandError> {
        let arguments = match &self.args {
            Some(args) => args.clone(),
            None => self.arguments_with_accepted_hunks(context, ui).await?,
        };
        // Kept as raw text, so that no digit of a number is lost.
        let arguments: Box<RawValue> = serde_json::from_str(&arguments).map_err(|error| {
            CommandError::new(
                ExitStatus::UsageError,
                format!("the arguments are not valid JSON: {error}"),
            )
        })?;
        let body = EditRequest { arguments: &arguments, approve: self.approve };
        decide_approval(context, ui, &self.id, ApprovalAction::Edit, &body).await
    }

    /// The arguments of the pending call with only the accepted changes.
    async fn arguments_with_accepted_hunks(
        &self,
        context: &CommandContext<'_>,
        ui: &mut Printer,
    ) -> Result<String, CommandError> {
        let session = context.connect().await?;
        session.wait_for_sources(SourceNeed::Approval(&self.id), ui).await;
        let answer = session
            .client
            .get_json(&RequestPath::from_segments("/v1/approvals", &[&self.id]))
            .await;
        session.close().await?;
        let answer: Value = answer?;
        let arguments = answer.get("arguments").unwrap_or(&Value::Null);
        edit_hunks::accept_hunks(arguments, &self.hunks).map(|arguments| arguments.to_string())
    }
}

async fn decide_approval(
    context: &CommandContext<'_>,
    ui: &mut Printer,
    id: &str,
    action: ApprovalAction,
    body: &impl serde::Serialize,
) -> Result<ExitStatus, CommandError> {
    let session = context.connect().await?;
    session.wait_for_sources(SourceNeed::Approval(id), ui).await;
    let answer = post_decision(&session.client, id, action, body).await;
    // A server in this process finishes approved calls before it stops.
    session.close().await?;
    let answer = answer?;
    ui.print_result(&answer, || format_decision(&answer, action))?;
    Ok(ExitStatus::Success)
}

async fn post_decision(
    client: &RestClient,
    id: &str,
    action: ApprovalAction,
    body: &impl serde::Serialize,
) -> Result<Value, CommandError> {
    client
        .post_json(&RequestPath::from_segments("/v1/approvals", &[id, action.as_str()]), body)
        .await
}

fn format_decision(answer: &Value, action: ApprovalAction) -> String {
    let (id, tool) =
        (json_fields::field_line(answer, "id", 36), json_fields::field_line(answer, "tool", 60));
    let state = json_fields::field_line(answer, "state", 12);
    match (action, state.as_str()) {
        (ApprovalAction::Edit, "pending") => {
            let hash = json_fields::field_line(answer, "arguments_sha256", 80);
            format!(
                "changed: {tool} now waits for approval with {hash}\n  toolkeep approval \
                     approve {id}"
            )
        }
        (_, "void") => {
            let why =
                answer.get("ended").map(|ended| json_fields::field_line(ended, "message", 200));
            format!("void: {tool} was not run: {}", why.unwrap_or_default())
        }
        _ => format!("{state}: {tool}\n  toolkeep record show {id}"),
    }
}
