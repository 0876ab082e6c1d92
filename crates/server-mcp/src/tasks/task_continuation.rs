//! Continues the call of a task that an earlier process began, once its client asks for it.
//!
//! Nothing runs by itself after a restart: the client's credential decides whether the call may go
//! on, in the snapshot of now. The continuation is a call of its own, with its intent and outcome.

use std::sync::Arc;

use catalog::SourceState;
use gateway::{CallRequest, CallTarget, RequestArguments, TaskRequest};
use tool::call::CallResumption;
use tool::{CallId, CallerType, Interface, Json, JsonLimits};

use super::call_task::CallTask;
use super::run_to_end;
use super::stored_task::TaskContinuation;
use crate::call_completion::CallCompletion;
use crate::request_context::RequestContext;
use crate::tools_call::upstream_meta;

/// Status of a task whose source is not connected yet.
const SOURCE_UNAVAILABLE: &str = "the server was restarted; the task continues when its source is \
    available";

/// Continues the call of a task of an earlier process, if nobody did yet and its source is there.
pub(super) fn continue_if_dormant(request: &RequestContext<'_>, task: &Arc<CallTask>) {
    let view = request.caller.tool_view();
    let is_available = |continuation: &TaskContinuation| {
        let source = view.source_catalog(continuation.tool.source.as_str());
        view.find_by_key(&continuation.tool).is_some()
            && source.is_some_and(|source| source.state == SourceState::Current)
    };
    let Some((call, continuation)) = task.take_continuation(is_available, SOURCE_UNAVAILABLE)
    else {
        return;
    };
    let TaskContinuation { tool, arguments, state, rights } = continuation;
    let principal = rights.restrict_principal(request.caller.principal);
    let completion =
        CallCompletion::for_continued_task(request, principal, rights.client_tool_name);
    let target =
        CallTarget::SourceTool { source: tool.source.to_string(), name: tool.name.to_string() };
    let limits = JsonLimits::ARGUMENTS;
    let arguments = RequestArguments::Validated(arguments, limits);
    let mut call_request = Box::new(CallRequest::for_target(target, arguments, Interface::Mcp));
    call_request.caller_type = CallerType::Direct;
    call_request.meta = upstream_meta(request);
    call_request.client_capabilities = completion.capabilities.clone();
    // Questions of the source go to the client that asked for the task.
    drop(task.capabilities.set(completion.capabilities.clone()));
    call_request.resumption = Some(resumption(call, state));
    call_request.task = Some(Box::new(TaskRequest {
        task: Arc::clone(task) as _,
        cancellation: task.cancel.clone(),
    }));
    let work = Box::pin(completion.execute_for_task(call_request, Arc::clone(task)));
    let background = &request.caller.state.mcp_components.background_tasks;
    drop(background.spawn(run_to_end(Arc::clone(task), work)));
}

fn resumption(call: CallId, state: Vec<u8>) -> CallResumption {
    CallResumption {
        pending_call_id: call,
        state: state.into(),
        input_responses: Json::empty_object(),
    }
}
