//! Approval callback of the safety-level library: a function of the embedding program decides about
//! each pending call.
//!
//! It decides as a principal with the right `approve`, once, on record, and bound to the arguments
//! that it was shown. It can approve no more than that principal.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use identity::Principal;
use tool::call_outcome::{CallFailure, CallResponse};
use tool::{BoxFuture, CallId, Interface, Json};

use crate::{ApprovalDetails, ArgumentEdit, Gateway, MAX_DECISION_TIMEOUT};

/// Verdict of the callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackVerdict {
    /// The call runs as requested.
    Approved,
    /// The call does not run; with a reason, if there is one.
    Denied(Option<String>),
    /// The call runs with these arguments, a JSON object, if they match the tool's schema.
    ApprovedWithArguments(Bytes),
}

/// Decides about a pending call from its tool, arguments and reason. It may take any time; the
/// pending approval still expires.
pub trait ApprovalCallback: Send + Sync + 'static {
    /// Returns the verdict on a call.
    fn request_verdict<'a>(&'a self, held: &'a ApprovalDetails) -> BoxFuture<'a, CallbackVerdict>;
}

/// A plain function decides immediately.
impl<F: Fn(&ApprovalDetails) -> CallbackVerdict + Send + Sync + 'static> ApprovalCallback for F {
    fn request_verdict<'a>(&'a self, held: &'a ApprovalDetails) -> BoxFuture<'a, CallbackVerdict> {
        let verdict = self(held);
        Box::pin(std::future::ready(verdict))
    }
}

/// A callback and the principal as which it decides.
#[derive(Clone)]
pub struct CallbackApprover {
    principal: Principal,
    callback: Arc<dyn ApprovalCallback>,
}

impl fmt::Debug for CallbackApprover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approver").field("who", &self.principal).finish_non_exhaustive()
    }
}

/// Result of a pending call.
pub(super) struct CallbackResult {
    pub(super) response: CallResponse,
    /// True if the callback approved it.
    pub(super) is_approved: bool,
}

impl CallbackApprover {
    pub(super) fn new(approver: Principal, callback: impl ApprovalCallback) -> Self {
        Self { principal: approver, callback: Arc::new(callback) }
    }

    /// Asks the callback, applies its verdict and waits for the result. An earlier decision by
    /// anybody else takes precedence.
    pub(super) async fn decide_call(
        &self,
        gateway: &Arc<Gateway>,
        caller: &Principal,
        pending: CallResponse,
    ) -> CallbackResult {
        let call = pending.call_id;
        let settled = gateway.wait_for_result(caller, call, MAX_DECISION_TIMEOUT);
        tokio::select! {
            told = self.apply_verdict(gateway, call) => match told {
                Ok(approved) => {
                    let answer = gateway.wait_for_result(caller, call, MAX_DECISION_TIMEOUT).await;
                    let response = response_or_failure(&pending, answer);
                    CallbackResult { response, is_approved: approved }
                }
                Err(failure) => {
                    let response = response_or_failure(&pending, Err(failure));
                    CallbackResult { response, is_approved: false }
                }
            },
            answer = settled => {
                let response = response_or_failure(&pending, answer);
                CallbackResult { response, is_approved: false }
            }
        }
    }

    async fn apply_verdict(
        &self,
        gateway: &Arc<Gateway>,
        call: CallId,
    ) -> Result<bool, CallFailure> {
        let held = gateway.get_approval(&self.principal, call).await?;
        let by = (&self.principal, Interface::Callback);
        let shown = match self.callback.request_verdict(&held).await {
            CallbackVerdict::Approved => held,
            CallbackVerdict::Denied(reason) => {
                gateway.deny_call(by, call, reason.as_deref()).await?;
                return Ok(false);
            }
            CallbackVerdict::ApprovedWithArguments(args) => {
                let args =
                    Json::parse(args.to_vec(), tool::JsonLimits::DOCUMENT).map_err(|error| {
                        let told = format!("the changed arguments: {error}");
                        CallFailure::new(tool::ErrorCode::InvalidArguments, told)
                    });
                let edited = match args {
                    Ok(arguments) => {
                        let reviewed = Some(held.arguments_sha256);
                        let edit = ArgumentEdit { arguments, reviewed };
                        gateway.edit_arguments(by, call, edit).await
                    }
                    Err(failure) => Err(failure),
                };
                match edited {
                    Ok(edited) => edited,
                    Err(failure) => {
                        // Nobody will decide later, so the call does not stay pending.
                        gateway.deny_call(by, call, Some(&failure.message)).await.ok();
                        return Err(failure);
                    }
                }
            }
        };
        gateway.approve_call(by, call, Some(shown.arguments_sha256)).await?;
        Ok(true)
    }
}

fn response_or_failure(
    held: &CallResponse,
    answer: Result<CallResponse, CallFailure>,
) -> CallResponse {
    answer.unwrap_or_else(|failure| CallResponse { result: Err(failure), ..held.clone() })
}
