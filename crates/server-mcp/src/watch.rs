//! The listeners for `list_changed` notifications and the task that watches catalog, policy and
//! keys for them. A listener is only notified of changes in its own view.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use gateway::View;
use identity::Principal;
use mcp::{sse, write};
use tool::{CallerType, Json, Wall};

use super::asked::Who;
use super::follow::tagged;
use super::outlet::Outlet;
use super::scope::Scope;
use crate::{McpDoors, WeakDoors};
use server_core::state::Inner;

/// The lists that a listener subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

/// Hashes of the three lists of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    tools: u64,
    prompts: u64,
    resources: u64,
}

impl Seen {
    fn of(view: &View, scope: &Scope) -> Self {
        let tools = view.print(scope.source());
        let (mut prompts, mut resources) = (DefaultHasher::new(), DefaultHasher::new());
        if let Ok(Some(shelf)) = scope.shelf(view) {
            shelf.prompts.iter().for_each(|prompt| prompt.received.hash(&mut prompts));
            shelf.resources.iter().for_each(|resource| resource.received.hash(&mut resources));
        }
        Self { tools, prompts: prompts.finish(), resources: resources.finish() }
    }
}

/// A stream that receives `list_changed` notifications.
#[derive(Debug)]
pub(crate) struct Listener {
    principal: Principal,
    scope: Scope,
    outlet: Arc<Outlet>,
    kinds: Kinds,
    seen: Seen,
    /// The subscription id of its notifications, and its final event.
    tag: Option<(Json, Bytes)>,
}

impl Listener {
    pub(crate) fn new(who: Who<'_>, outlet: Arc<Outlet>, kinds: Kinds) -> Self {
        let (principal, scope) = (who.principal.clone(), who.scope.clone());
        let seen = Seen::of(&who.view(), &scope);
        Self { principal, scope, outlet, kinds, seen, tag: None }
    }

    pub(crate) fn tagged(self, id: Json, last: Bytes) -> Self {
        Self { tag: Some((id, last)), ..self }
    }

    /// Sends a notification for each list that changed since the last one. Listeners of one view
    /// and endpoint share the computed hashes.
    fn look(&mut self, doors: &Inner, worked: &mut HashMap<(u64, Scope), Seen>) {
        let ring = doors.parts.keys.ring();
        if !ring.holds(&self.principal, doors.parts.clock.wall()) {
            self.outlet.close();
            return;
        }
        let view = doors.parts.gateway.view(&self.principal, CallerType::Direct);
        let now = worked.entry((view.id, self.scope.clone()));
        let (before, now) = (self.seen, *now.or_insert_with(|| Seen::of(&view, &self.scope)));
        self.seen = now;
        for (changed, method) in [
            (self.kinds.tools && before.tools != now.tools, "notifications/tools/list_changed"),
            (
                self.kinds.prompts && before.prompts != now.prompts,
                "notifications/prompts/list_changed",
            ),
            (
                self.kinds.resources && before.resources != now.resources,
                "notifications/resources/list_changed",
            ),
        ] {
            if changed {
                let params = Json::empty();
                let params =
                    self.tag.as_ref().map_or(params.clone(), |(id, _)| tagged(&params, id));
                self.outlet.notice(sse::event(&write::notification(method, &params)));
            }
        }
    }

    fn end(&self) {
        if let Some((_, last)) = &self.tag {
            // A client that does not read gets no final event.
            if !self.outlet.sure(last.clone()) {
                tracing::trace!("a listener went without its last word");
            }
        }
        self.outlet.close();
    }
}

/// All listeners. Their number is bounded by the HTTP server's connection limit.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    listeners: Arc<Mutex<HashMap<u64, Listener>>>,
    numbers: AtomicU64,
    begun: AtomicBool,
}

/// Keeps a listener registered until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    listeners: Weak<Mutex<HashMap<u64, Listener>>>,
    number: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let listeners = self.listeners.upgrade();
        let gone = listeners.and_then(|listeners| locked(&listeners).remove(&self.number));
        drop(gone);
    }
}

fn locked(listeners: &Mutex<HashMap<u64, Listener>>) -> MutexGuard<'_, HashMap<u64, Listener>> {
    listeners.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Registers `listener` until the returned guard is dropped.
    pub(crate) fn add(&self, doors: &McpDoors, mut listener: Listener) -> Listening {
        if !self.begun.swap(true, Ordering::Relaxed) {
            let numbers = doors.parts.intake.numbers();
            let readings = doors.parts.keys.readings();
            drop(doors.mcp.tasks.spawn(watch(doors.weak(), numbers, readings)));
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut listeners = locked(&self.listeners);
        // Report changes from before its registration.
        listener.look(doors, &mut HashMap::new());
        listeners.insert(number, listener);
        Listening { listeners: Arc::downgrade(&self.listeners), number }
    }

    fn look(&self, doors: &Inner) {
        let mut worked = HashMap::new();
        for listener in locked(&self.listeners).values_mut() {
            listener.look(doors, &mut worked);
        }
    }

    /// Closes the streams of all listeners.
    pub(crate) fn close(&self) {
        locked(&self.listeners).values().for_each(Listener::end);
    }
}

/// Maximum sleep before the policy's times are checked again: the clock may be set meanwhile.
const NAP: Duration = Duration::from_secs(30);

/// Time until the policy may decide differently by time alone; `None` if it depends on no time.
fn due(doors: &Inner) -> Option<Duration> {
    let policy = doors.parts.gateway.policy();
    let now = policy.has_times().then(|| doors.parts.clock.wall())?;
    let Wall(until) = policy.valid_until(now)?;
    Some(Duration::from_millis(until.saturating_sub(now.0).max(1)).min(NAP))
}

async fn watch(
    doors: WeakDoors,
    mut numbers: tokio::sync::watch::Receiver<u64>,
    mut readings: tokio::sync::watch::Receiver<u64>,
) {
    loop {
        let Some(due) = doors.upgrade().map(|(doors, _)| due(&doors)) else { return };
        let nap = async {
            match due {
                Some(due) => tokio::time::sleep(due).await,
                None => std::future::pending().await,
            }
        };
        // Besides catalog and policy changes, a revoked key closes its streams.
        let changed = tokio::select! {
            changed = numbers.changed() => changed,
            changed = readings.changed() => changed,
            () = nap => Ok(()),
        };
        let (Ok(()), Some((doors, mcp))) = (changed, doors.upgrade()) else { return };
        mcp.watch.look(&doors);
    }
}
