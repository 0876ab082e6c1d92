//! Edits of the arguments of a pending call by the person who decides about it.

use identity::Principal;
use tool::call_outcome::CallFailure;
use tool::ledger::ApprovalStep;
use tool::{CallArguments, CallId, Digest, ErrorCode, Interface, Json};

use super::ApprovalDetails;
use super::decisions::{decision_conflict, notify_changed, step_caller};
use crate::Gateway;

/// New arguments for a pending call.
#[derive(Debug, Clone)]
pub struct ArgumentEdit {
    /// All arguments of the call.
    pub arguments: Json,
    /// Digest of the arguments that the editor reviewed, if stated.
    pub reviewed: Option<Digest>,
}

impl Gateway {
    /// Edits the arguments of a pending call, which is then bound to the new ones.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArguments`] if they are invalid, [`ErrorCode::Forbidden`] if the approver or the
    /// caller may not call with them, and as [`Gateway::approve_call`].
    pub async fn edit_arguments(
        &self,
        (principal, interface): (&Principal, Interface),
        id: CallId,
        edit: ArgumentEdit,
    ) -> Result<ApprovalDetails, CallFailure> {
        let (waits, mut read) = self.load_decidable(principal, id, edit.reviewed).await?;
        let view = self.view_for(principal, read.approval.caller_type);
        let found = view.find_by_key(&read.approval.tool_key).map(|(entry, _)| entry);
        let entry =
            found.filter(|entry| entry.definition_digest == read.approval.definition_digest);
        let entry = entry.ok_or_else(|| {
            let told = "another tool now has this name; deny the call";
            CallFailure::new(ErrorCode::Conflict, told)
        })?;
        let args = CallArguments::parse(edit.arguments.bytes().clone()).map_err(|error| {
            CallFailure::new(ErrorCode::InvalidArguments, format!("the arguments: {error}"))
        })?;
        let args = crate::pipeline::validate_arguments(entry, args)?;
        self.check_may_edit(waits, principal, (&read.approval, &args))?;
        crate::pipeline::check_executor_accepts(entry, &args)?;
        let kept = &mut read.approval;
        kept.arguments_digest = catalog::canonical_json::arguments_digest(args.as_json());
        kept.arguments = args.as_json().clone();
        kept.edit_count = kept.edit_count.saturating_add(1);
        let read = waits.write_approval(read).await.map_err(decision_conflict)?;
        let decided_by = Some(step_caller(principal, interface));
        self.record_step(&read.approval, ApprovalStep::Edited, decided_by, None)?;
        Ok(notify_changed(waits, &read.approval))
    }
}
