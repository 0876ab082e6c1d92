//! The listeners for `list_changed` notifications and the task that watches catalog, policy and
//! keys for them. A listener is only notified of changes in its own view.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use catalog::SourceCatalog;
use gateway::CatalogView;
use identity::Principal;
use mcp::{encode, sse};
use tool::{CallerType, Json, WallTime};

use super::endpoint::Endpoint;
use super::event_sink::EventSink;
use super::request_context::EndpointCaller;
use super::resource_subscriptions::with_subscription_id;
use super::source_items::{PROMPT_METHOD, RESOURCE_METHOD};
use crate::{McpServerState, WeakMcpServerState};
use server_core::server_state::StateInner;

/// The lists that a listener subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListKinds {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

/// Hashes of the three lists of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListDigests {
    tools: u64,
    prompts: u64,
    resources: u64,
}

impl ListDigests {
    fn from_view(view: &CatalogView, scope: &Endpoint) -> Self {
        let tools = view.fingerprint(scope.source());
        let in_scope = |source: &SourceCatalog| {
            scope.source().is_none_or(|only| source.source.as_str() == only)
        };
        let digest_of = |method, fingerprint: fn(&SourceCatalog) -> u64| {
            let mut digest = DefaultHasher::new();
            for source in view.sources_with_method(method).filter(|source| in_scope(source)) {
                source.source.hash(&mut digest);
                fingerprint(source).hash(&mut digest);
            }
            digest.finish()
        };
        let prompts = digest_of(PROMPT_METHOD, SourceCatalog::prompt_fingerprint);
        let resources = digest_of(RESOURCE_METHOD, SourceCatalog::resource_fingerprint);
        // Links of tools to their interfaces are written as the lists of resources allow.
        let has_links = scope.source().is_none()
            && view
                .sources_with_method(RESOURCE_METHOD)
                .any(|source| source.has_scheme_of("ui://"));
        let tools = if has_links { tools ^ resources.rotate_left(1) } else { tools };
        Self { tools, prompts, resources }
    }
}

/// The subscription of a `subscriptions/listen` stream.
#[derive(Debug)]
struct StreamSubscription {
    /// The id that each notification names.
    id: Json,
    /// The response that ends the stream.
    final_event: Bytes,
}

/// A stream that receives `list_changed` notifications.
#[derive(Debug)]
pub(crate) struct ListChangeListener {
    principal: Principal,
    endpoint: Endpoint,
    event_sink: Arc<EventSink>,
    kinds: ListKinds,
    last_digests: ListDigests,
    /// The subscription; `None` for the stream of a session.
    subscription: Option<StreamSubscription>,
}

impl ListChangeListener {
    pub(crate) fn new(caller: EndpointCaller<'_>, sink: Arc<EventSink>, kinds: ListKinds) -> Self {
        let (principal, scope) = (caller.principal.clone(), caller.endpoint.clone());
        let seen = ListDigests::from_view(&caller.tool_view(), &scope);
        Self {
            principal,
            endpoint: scope,
            event_sink: sink,
            kinds,
            last_digests: seen,
            subscription: None,
        }
    }

    pub(crate) fn with_subscription(self, id: Json, final_event: Bytes) -> Self {
        Self { subscription: Some(StreamSubscription { id, final_event }), ..self }
    }

    /// Sends a notification for each list that changed since the last one. Listeners of one view
    /// and endpoint share the computed hashes.
    fn notify_changes(
        &mut self,
        state: &StateInner,
        worked: &mut HashMap<(u64, Endpoint), ListDigests>,
    ) {
        let (keys, now) = (&state.components.keys, state.components.clock.wall_now());
        let Some(principal) = keys.current_principal(&self.principal, now) else {
            self.event_sink.close();
            return;
        };
        let view = state.components.gateway.view_for(&principal, CallerType::Direct);
        let now = worked.entry((view.id, self.endpoint.clone()));
        let (before, now) = (
            self.last_digests,
            *now.or_insert_with(|| ListDigests::from_view(&view, &self.endpoint)),
        );
        self.last_digests = now;
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
                let subscription = self.subscription.as_ref();
                let params = subscription.map_or_else(Json::empty_object, |subscription| {
                    with_subscription_id(&Json::empty_object(), &subscription.id)
                });
                self.event_sink.send_notification(sse::encode_event(&encode::encode_notification(
                    method, &params,
                )));
            }
        }
    }

    fn close_stream(&self) {
        // A client that does not read gets no final event.
        if let Some(StreamSubscription { final_event, .. }) = &self.subscription
            && !self.event_sink.send_required(final_event.clone())
        {
            tracing::trace!("the final event of a stream was dropped");
        }
        self.event_sink.close();
    }
}

/// All listeners. Their number is bounded by the HTTP server's connection limit.
#[derive(Debug, Default)]
pub(crate) struct ListChangeWatcher {
    listeners: Arc<Mutex<HashMap<u64, ListChangeListener>>>,
    numbers: AtomicU64,
    is_watching: AtomicBool,
}

/// Keeps a listener registered until it is dropped.
#[derive(Debug)]
pub(crate) struct ListenerGuard {
    listeners: Weak<Mutex<HashMap<u64, ListChangeListener>>>,
    number: u64,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let listeners = self.listeners.upgrade();
        let gone = listeners.and_then(|listeners| lock_listeners(&listeners).remove(&self.number));
        drop(gone);
    }
}

fn lock_listeners(
    listeners: &Mutex<HashMap<u64, ListChangeListener>>,
) -> MutexGuard<'_, HashMap<u64, ListChangeListener>> {
    listeners.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ListChangeWatcher {
    /// Registers `listener` until the returned guard is dropped.
    pub(crate) fn register_listener(
        &self,
        state: &McpServerState,
        mut listener: ListChangeListener,
    ) -> ListenerGuard {
        if !self.is_watching.swap(true, Ordering::Relaxed) {
            let numbers = state.components.intake.subscribe_versions();
            let readings = state.components.keys.subscribe_reloads();
            drop(state.mcp_components.background_tasks.spawn(watch_changes(
                state.downgrade(),
                numbers,
                readings,
            )));
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut listeners = lock_listeners(&self.listeners);
        // Report changes from before its registration.
        listener.notify_changes(state, &mut HashMap::new());
        listeners.insert(number, listener);
        ListenerGuard { listeners: Arc::downgrade(&self.listeners), number }
    }

    fn notify_all(&self, state: &StateInner) {
        let mut worked = HashMap::new();
        for listener in lock_listeners(&self.listeners).values_mut() {
            listener.notify_changes(state, &mut worked);
        }
    }

    /// Closes the streams of all listeners.
    pub(crate) fn close_all(&self) {
        lock_listeners(&self.listeners).values().for_each(ListChangeListener::close_stream);
    }
}

/// Maximum sleep before the policy's times are checked again: the clock may be set meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// Time until the policy may decide differently by time alone; `None` if it depends on no time.
fn next_policy_change(state: &StateInner) -> Option<Duration> {
    let policy = state.components.gateway.active_policy();
    let now = policy.is_time_dependent().then(|| state.components.clock.wall_now())?;
    let WallTime(until) = policy.visibility_valid_until(now)?;
    Some(Duration::from_millis(until.saturating_sub(now.0).max(1)).min(MAX_SLEEP))
}

async fn watch_changes(
    state: WeakMcpServerState,
    mut numbers: tokio::sync::watch::Receiver<u64>,
    mut readings: tokio::sync::watch::Receiver<u64>,
) {
    loop {
        let Some(due) = state.upgrade().map(|(doors, _)| next_policy_change(&doors)) else {
            return;
        };
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
        let (Ok(()), Some((doors, mcp))) = (changed, state.upgrade()) else { return };
        mcp.list_watcher.notify_all(&doors);
    }
}
