//! The executor for a tool that several nodes offer: chooses a node and fails over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tool::display_text::truncate_and_escape_debug;
use tool::executor::DispatchState;
use tool::node_registry::{HeartbeatState, NODE_META_KEY};
use tool::{
    BoxFuture, CallContext, ErrorCode, ExecuteError, ExecutionState, Executor, RecordedCall,
};

use crate::node_executor::NodeExecutor;
use crate::registry::RegistryContext;

/// Time for which an unreachable node is tried last.
const FAILED_NODE_BACKOFF: Duration = Duration::from_secs(5);

/// Runs a tool on the node that the caller names, else on the node with the fewest running calls,
/// in order of registration. Unreachable nodes and nodes with an overdue heartbeat are tried last.
/// A call fails over if nothing was sent, or if the connection broke and the tool has no side
/// effects.
#[derive(Debug)]
pub(crate) struct MultiNodeExecutor {
    candidates: Vec<CandidateNode>,
    context: Arc<RegistryContext>,
}

#[derive(Debug)]
struct CandidateNode {
    executor: NodeExecutor,
    running_calls: AtomicUsize,
}

/// Counts a running call until it is dropped.
struct InFlightGuard<'a>(&'a AtomicUsize);

impl<'a> InFlightGuard<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the node that the caller requested in the metadata of the call.
pub(crate) fn requested_node(ctx: &CallContext<'_>) -> Option<String> {
    ctx.meta?.get(NODE_META_KEY)?.string_value().map(std::borrow::Cow::into_owned)
}

pub(crate) fn not_on_node(node: &str) -> ExecuteError {
    let printable = truncate_and_escape_debug(node, 128);
    ExecuteError::not_sent(
        ErrorCode::UpstreamLost,
        format!("the tool is not on the node `{printable}`"),
    )
}

impl MultiNodeExecutor {
    pub(crate) fn new(nodes: Vec<String>, registry: &Arc<RegistryContext>) -> Self {
        let candidate_for = |node| CandidateNode {
            executor: NodeExecutor { node, context: Arc::clone(registry) },
            running_calls: AtomicUsize::new(0),
        };
        Self {
            candidates: nodes.into_iter().map(candidate_for).collect(),
            context: Arc::clone(registry),
        }
    }

    async fn run_call(
        &self,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        if let Some(node) = requested_node(ctx) {
            let place = self.candidates.iter().find(|place| place.executor.node == node);
            let place = place.ok_or_else(|| not_on_node(&node))?;
            return self.run_on(place, call, ctx).await;
        }
        let mut last_error =
            ExecuteError::not_sent(ErrorCode::UpstreamLost, "no node of the tool accepts calls");
        for place in self.ordered_candidates() {
            match self.run_on(place, call, ctx).await {
                Err(error) if may_fail_over(call, &error) && !ctx.cancel.is_cancelled() => {
                    last_error = error;
                }
                result => return result,
            }
        }
        Err(last_error)
    }

    async fn run_on(
        &self,
        candidate: &CandidateNode,
        call: RecordedCall<'_>,
        ctx: &CallContext<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        let _guard = InFlightGuard::enter(&candidate.running_calls);
        let result = candidate.executor.run_call(call, ctx).await;
        if result.as_ref().is_err_and(|error| error.code == ErrorCode::UpstreamLost) {
            self.context.back_off_node(
                &candidate.executor.node,
                self.context.clock.monotonic_now().saturating_add(FAILED_NODE_BACKOFF),
            );
        }
        result
    }

    /// Returns the candidates in order. Draining nodes are left out; nodes in backoff come last.
    fn ordered_candidates(&self) -> Vec<&CandidateNode> {
        let accepts_calls = |place: &&CandidateNode| {
            self.context.heartbeat_state(&place.executor.node) != Some(HeartbeatState::Draining)
        };
        let mut order: Vec<&CandidateNode> = self.candidates.iter().filter(accepts_calls).collect();
        order.sort_by_cached_key(|place| {
            let is_deferred = !self.context.is_preferred(&place.executor.node);
            (is_deferred, place.running_calls.load(Ordering::Relaxed))
        });
        order
    }
}

/// Whether the call may fail over to another node.
fn may_fail_over(call: RecordedCall<'_>, error: &ExecuteError) -> bool {
    let has_effects = call.call().tool.traits.effects.may_change_state();
    error.dispatch == DispatchState::NotSent
        || (!has_effects && error.code == ErrorCode::UpstreamLost)
}

impl Executor for MultiNodeExecutor {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_call(call, ctx))
    }

    fn node_ids(&self) -> Vec<String> {
        self.candidates.iter().map(|place| place.executor.node.clone()).collect()
    }
}
