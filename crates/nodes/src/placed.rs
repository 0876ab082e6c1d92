//! One tool on several nodes: which of them runs a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tool::executor::Sent;
use tool::node::{Beat, PIN};
use tool::{Boxed, Code, Context, ExecuteError, Executor, Granted, Step};

use crate::execute::Execute;
use crate::registry::Shared;

/// How long a node that could not be reached is asked last.
const REST: Duration = Duration::from_secs(5);

/// Runs a tool where it is: on the node that the caller names, else where the fewest calls run, the
/// first registered first. A node that nobody reached, or that no longer says that it lives, is asked
/// last. A call moves on where surely nothing was sent, or where the line broke and it changes nothing.
#[derive(Debug)]
pub(crate) struct Placed {
    places: Vec<Place>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Place {
    execute: Execute,
    running: AtomicUsize,
}

/// Counts a call while it runs.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The node that the caller names, beside the arguments.
pub(crate) fn pinned(ctx: &Context<'_>) -> Option<String> {
    ctx.meta?.get(PIN)?.text().map(std::borrow::Cow::into_owned)
}

pub(crate) fn not_there(node: &str) -> ExecuteError {
    let shown: String = node.chars().take(128).flat_map(char::escape_debug).collect();
    ExecuteError::before(Code::UpstreamLost, format!("the tool is not on the node `{shown}`"))
}

impl Placed {
    pub(crate) fn new(nodes: Vec<String>, shared: &Arc<Shared>) -> Self {
        let place = |node| Place {
            execute: Execute { node, shared: Arc::clone(shared) },
            running: AtomicUsize::new(0),
        };
        Self { places: nodes.into_iter().map(place).collect(), shared: Arc::clone(shared) }
    }

    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        if let Some(node) = pinned(ctx) {
            let place = self.places.iter().find(|place| place.execute.node == node);
            let place = place.ok_or_else(|| not_there(&node))?;
            return self.at(place, call, ctx).await;
        }
        let mut last = ExecuteError::before(Code::UpstreamLost, "no node of the tool takes calls");
        for place in self.order() {
            match self.at(place, call, ctx).await {
                Err(error) if moves(call, &error) && !ctx.cancel.is_cancelled() => last = error,
                ended => return ended,
            }
        }
        Err(last)
    }

    async fn at(
        &self,
        place: &Place,
        call: Granted<'_>,
        ctx: &Context<'_>,
    ) -> Result<Step, ExecuteError> {
        let _counted = Counted::of(&place.running);
        let ended = place.execute.run(call, ctx).await;
        if ended.as_ref().is_err_and(|error| error.code == Code::UpstreamLost) {
            self.shared.rest(&place.execute.node, self.shared.clock.mono().after(REST));
        }
        ended
    }

    /// Those that end are left out; those that rest come last.
    fn order(&self) -> Vec<&Place> {
        let takes =
            |place: &&Place| self.shared.beat_of(&place.execute.node) != Some(Beat::Draining);
        let mut order: Vec<&Place> = self.places.iter().filter(takes).collect();
        order.sort_by_cached_key(|place| {
            let rests = !self.shared.is_preferred(&place.execute.node);
            (rests, place.running.load(Ordering::Relaxed))
        });
        order
    }
}

/// Whether another node may run the call.
fn moves(call: Granted<'_>, error: &ExecuteError) -> bool {
    let changes = call.call().tool.traits.effects.any();
    error.sent == Sent::No || (!changes && error.code == Code::UpstreamLost)
}

impl Executor for Placed {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }

    fn places(&self) -> Vec<String> {
        self.places.iter().map(|place| place.execute.node.clone()).collect()
    }
}
