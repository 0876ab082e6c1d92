//! The call pipeline in one function, from the request to its recorded outcome.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::CatalogEntry;
use identity::Principal;
use policy::{DecisionReason, PolicyDecision};
use tool::call_outcome::{CallFailure, CallResponse, CallStatus};
use tool::clock::duration_millis;
use tool::{
    CallArguments, CallId, ErrorCode, IntentReceipt, IntentRecord, RefusalRecord, ToolCall,
    WallTime,
};

use crate::background_work::run_blocking_if_large;
use crate::concurrency::CallPermit;
use crate::execution::{CallExecution, ExecutionResult};
use crate::policy_check::ClockReading;
use crate::principal_executor::CallPrincipal;
use crate::{CallRequest, CatalogView, Gateway};

/// A call that runs once its intent is written.
pub(crate) struct ReadyCall {
    pub(crate) tool_call: ToolCall,
    pub(crate) entry: Arc<CatalogEntry>,
    view: Arc<CatalogView>,
    /// Reason code with which it is allowed.
    reason: &'static str,
    _permit: CallPermit,
}

/// A call that was evaluated in one snapshot.
pub(crate) struct EvaluatedCall {
    pub(crate) entry: Arc<CatalogEntry>,
    pub(crate) view: Arc<CatalogView>,
    pub(crate) arguments: CallArguments,
    pub(crate) decision: PolicyDecision,
    /// Reasons why it needs an approval; empty if it needs none.
    pub(crate) approval_reasons: Vec<String>,
    /// Reason text if it is pending or denied; empty otherwise.
    pub(crate) reason_text: Cow<'static, str>,
}

/// Next step of a call that is not refused.
enum PreparedCall {
    Ready(Box<ReadyCall>),
    NeedsApproval(Box<(EvaluatedCall, DecisionReason)>),
}

/// A call that is refused.
pub(crate) struct CallRefusal {
    pub(crate) failure: CallFailure,
    reason: Option<DecisionReason>,
}

impl CallRefusal {
    pub(crate) fn with_reason(failure: CallFailure, reason: DecisionReason) -> Self {
        Self { failure, reason: Some(reason) }
    }
}

impl From<CallFailure> for CallRefusal {
    fn from(failure: CallFailure) -> Self {
        Self { failure, reason: None }
    }
}

impl Gateway {
    /// Runs one call. Every call leaves a record: a refusal, or an intent and an outcome. If the
    /// caller disconnects, a call with effects continues, is told to stop, and is recorded as
    /// cancelled; one without effects is dropped and recorded as abandoned.
    pub fn call_tool<'a>(
        self: &'a Arc<Self>,
        principal: &'a Principal,
        request: impl Into<Box<CallRequest>>,
    ) -> impl Future<Output = CallResponse> + Send + 'a {
        // Boxed like the prepared call: futures carry their state through every layer above them.
        self.run_pipeline(principal, request.into())
    }

    async fn run_pipeline(
        self: &Arc<Self>,
        principal: &Principal,
        request: Box<CallRequest>,
    ) -> CallResponse {
        let now = self.read_clocks();
        let id = request.call_id.unwrap_or_else(|| self.call_ids.generate_id(now.wall));
        let size = request.arguments.raw_bytes().len();
        let prepared =
            run_blocking_if_large(size, || self.prepare_call((id, now), principal, &request));
        let result = match prepared {
            Err(refused) => self.record_refusal(id, principal, &request, refused),
            Ok(PreparedCall::Ready(ready)) => {
                match self.record_intent(principal, &request, &ready, now.wall).await {
                    Err(failure) => (CallStatus::Refused, Err(failure)),
                    Ok(ticket) => self.execute_call(principal, request, ready, ticket).await,
                }
            }
            Ok(PreparedCall::NeedsApproval(held)) => {
                match Box::pin(self.request_approval(id, principal, &request, *held)).await {
                    Err(refused) => self.record_refusal(id, principal, &request, refused),
                    Ok(wait) => (CallStatus::Pending, Ok(wait)),
                }
            }
        };
        let elapsed = self.components.clock.monotonic_now().saturating_duration_since(now.mono);
        let elapsed_ms = duration_millis(elapsed);
        CallResponse { call_id: id, status: result.0, result: result.1, elapsed_ms }
    }

    /// Generates the id of a call in advance.
    pub fn new_call_id(&self) -> CallId {
        self.call_ids.generate_id(self.components.clock.wall_now())
    }

    /// Performs all steps before the intent. They have no effect.
    fn prepare_call(
        &self,
        (id, now): (CallId, ClockReading),
        principal: &Principal,
        request: &CallRequest,
    ) -> Result<PreparedCall, CallRefusal> {
        let looked = self.evaluate_call(principal, request, now)?;
        let reason = match looked.decision {
            PolicyDecision::Allow(reason) => reason.as_str(),
            PolicyDecision::Deny(reason) => {
                return Err(policy_refusal(ErrorCode::Denied, reason, &looked.reason_text));
            }
            PolicyDecision::RequireApproval(reason) => {
                // Nobody should approve a call that is certain to fail.
                check_executor_accepts(&looked.entry, &looked.arguments)?;
                return Ok(PreparedCall::NeedsApproval(Box::new((looked, reason))));
            }
        };
        Ok(PreparedCall::Ready(self.acquire_permit((id, reason), principal, request, looked)?))
    }

    /// Finds the tool, validates the arguments and decides; also for resumed calls.
    pub(crate) fn evaluate_call(
        &self,
        principal: &Principal,
        request: &CallRequest,
        now: ClockReading,
    ) -> Result<EvaluatedCall, CallRefusal> {
        // The call uses one snapshot to its end.
        let view = self.view_for(principal, request.caller_type);
        // Hidden and unknown tools get the same response, before arguments are inspected.
        let Some((entry, residual)) = view.find_target(&request.target) else {
            return Err(unknown_tool(request.target.name()).into());
        };
        let (entry, residual) = (Arc::clone(entry), residual.clone());
        let limits = entry.tool.traits.argument_limits();
        let args = request.arguments.validate(limits).map_err(|error| {
            CallFailure::new(ErrorCode::InvalidArguments, format!("the arguments: {error}"))
        })?;
        let args = validate_arguments(&entry, args)?;
        let who = (principal, request.caller_type);
        let (decision, why) = self.decide_policy(who, (&entry, &residual), &args, now);
        let holds = match decision {
            PolicyDecision::RequireApproval(_) => {
                self.approval_reasons(who, (&entry, &residual), &args, now)
            }
            _ => Vec::new(),
        };
        Ok(EvaluatedCall {
            entry,
            view,
            arguments: args,
            decision,
            approval_reasons: holds,
            reason_text: why,
        })
    }

    /// Acquires the permit that a call needs.
    pub(crate) fn acquire_permit(
        &self,
        (id, reason): (CallId, &'static str),
        principal: &Principal,
        request: &CallRequest,
        evaluated: EvaluatedCall,
    ) -> Result<Box<ReadyCall>, CallFailure> {
        let EvaluatedCall { entry, view, arguments: args, .. } = evaluated;
        let permit = self.limiter.try_acquire(
            (principal.limit_key_id(), entry.tool_key.source.as_str()),
            self.tasks.token(),
        )?;
        let call = ToolCall {
            id,
            parent_id: request.parent_id,
            resumption: request.resumption.clone(),
            unsolicited_input: request.unsolicited_input.clone(),
            tool_key: entry.tool_key.clone(),
            tool: Arc::clone(&entry.tool),
            arguments: args,
        };
        Ok(Box::new(ReadyCall { tool_call: call, entry, view, reason, _permit: permit }))
    }

    /// Writes the intent; without it the call does not run.
    pub(crate) fn record_intent(
        &self,
        principal: &Principal,
        request: &CallRequest,
        ready: &ReadyCall,
        now: WallTime,
    ) -> impl Future<Output = Result<IntentReceipt, CallFailure>> + Send {
        let ReadyCall { tool_call: call, entry, view, reason, .. } = ready;
        let effects = &call.tool.traits.effects;
        let args = call.arguments.as_json().bytes();
        let intent = IntentRecord {
            call_id: call.id,
            parent_id: call.parent_id,
            chain_id: request.chain_index.and(call.parent_id).map(CallId::chain_id),
            chain_index: request.chain_index,
            continues_call: call.resumption.as_ref().map(|resume| resume.pending_call_id),
            recorded_at: now,
            caller: principal.caller().clone(),
            interface: request.interface,
            caller_type: request.caller_type,
            tool_key: call.tool_key.clone(),
            definition_digest: entry.definition_digest,
            catalog_version: view.full_catalog().version,
            policy_digest: view.policy_digest(),
            reason: (*reason).into(),
            arguments_digest: run_blocking_if_large(args.len(), || {
                self.keyed_hasher.hash_bytes(args)
            }),
            arguments_bytes: args.len(),
            may_change_state: effects.may_change_state(),
            has_unknown_effects: effects.is_unknown(),
            toolset: view.toolset().map(|toolset| toolset.name.to_string()),
        };
        if *reason == DecisionReason::Caution.as_str() {
            tracing::warn!(tool = %call.tool_key.name, call = %call.id, "caution");
        }
        let (begun, id) =
            (self.components.ledger.record_intent(intent, entry.required_durability()), call.id);
        async move {
            begun.await.map_err(|error| {
                tracing::error!(
                    %error,
                    call = %id,
                    "cannot record the intent; the call was not executed"
                );
                let told = format!(
                    "the call was not executed, because it cannot be recorded: \
                    {error}"
                );
                CallFailure::new(ErrorCode::RecordUnavailable, told)
            })
        }
    }

    /// Executes a call, sanitizes its result and writes the outcome. A call with effects runs in
    /// its own task, so that a disconnecting caller cannot leave it half done and unrecorded.
    pub(crate) async fn execute_call(
        self: &Arc<Self>,
        principal: &Principal,
        request: Box<CallRequest>,
        ready: Box<ReadyCall>,
        receipt: IntentReceipt,
    ) -> ExecutionResult {
        let started = self.components.clock.monotonic_now();
        self.mark_taint(principal, &ready.view, &ready.entry, started);
        let effects = ready.tool_call.tool.traits.effects.may_change_state();
        let caller = CallPrincipal { gateway: Arc::clone(self), principal: principal.clone() };
        let run = CallExecution::new(caller, started, request, ready);
        if !effects {
            return run.run_and_record(receipt).await;
        }
        // Cancels when this future is dropped, that is when the caller disconnects.
        let gone = run.cancellation.0.clone().drop_guard();
        let task = self.tasks.spawn(async move { run.run_and_record(receipt).await });
        let ended = task.await.unwrap_or_else(|_| {
            let failure = CallFailure::new(
                ErrorCode::Internal,
                "an internal error of Toolkeep ended the \
                    call",
            );
            (CallStatus::Failed, Err(failure))
        });
        drop(gone.disarm());
        ended
    }

    fn record_refusal(
        &self,
        call: CallId,
        principal: &Principal,
        request: &CallRequest,
        refused: CallRefusal,
    ) -> ExecutionResult {
        let CallRefusal { failure, reason } = refused;
        self.components.ledger.record_refusal(RefusalRecord {
            call_id: call,
            recorded_at: self.components.clock.wall_now(),
            caller: principal.caller().clone(),
            interface: request.interface,
            tool_name: request.target.name().chars().take(tool::names::MAX_NAME_BYTES).collect(),
            code: failure.code,
            reason: reason.map(|reason| reason.as_str().to_owned()),
        });
        (CallStatus::Refused, Err(failure))
    }
}

/// Validates the arguments against the tool's schema.
pub(crate) fn validate_arguments(
    entry: &CatalogEntry,
    args: CallArguments,
) -> Result<CallArguments, CallFailure> {
    entry.validate_arguments(args).map_err(|faults| {
        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
        CallFailure::new(ErrorCode::InvalidArguments, told.join("; "))
    })
}

/// Checks that the executor accepts the arguments.
pub(crate) fn check_executor_accepts(
    entry: &CatalogEntry,
    args: &CallArguments,
) -> Result<(), CallFailure> {
    entry
        .executor
        .validate_arguments(args)
        .map_err(|told| CallFailure::new(ErrorCode::InvalidArguments, told))
}

fn unknown_tool(name: &str) -> CallFailure {
    let shown: String = name.chars().take(tool::names::MAX_NAME_BYTES).collect();
    CallFailure::new(ErrorCode::UnknownTool, format!("unknown tool `{}`", shown.escape_debug()))
}

pub(crate) fn policy_refusal(
    code: ErrorCode,
    reason: DecisionReason,
    message: &str,
) -> CallRefusal {
    CallRefusal { failure: CallFailure::new(code, message), reason: Some(reason) }
}
