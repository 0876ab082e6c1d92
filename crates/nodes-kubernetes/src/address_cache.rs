//! Addresses of nodes as Kubernetes last reported them, in memory.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tool::MonotonicTime;

use super::api_objects::KubernetesNode;

/// Maximum number of cached Kubernetes nodes.
pub(super) const MAX_KUBERNETES_NODES: usize = 10_000;

/// The result of an address lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressLookup {
    /// The nodes are not loaded yet.
    NotLoaded,
    /// No Kubernetes node has the label.
    NotFound,
    /// Another server reported an address change, and the cache is stale.
    Invalidated,
    /// Several nodes have the label; a label is no proof, and one of them may be forged.
    Ambiguous,
    /// The node has no `InternalIP`.
    NoAddress,
    Found(IpAddr),
}

#[derive(Debug, Default)]
pub(super) struct AddressCache(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    /// Label and address by Kubernetes node name.
    nodes: HashMap<String, (String, Option<IpAddr>)>,
    by_label: HashMap<String, Vec<String>>,
    is_loaded: bool,
    /// Labels whose cached addresses are invalid.
    invalidated: HashSet<String>,
    disconnection: Option<Disconnection>,
}

/// Since when, and why, the API server is unreachable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disconnection {
    pub(super) since: MonotonicTime,
    pub(super) reason: String,
}

impl AddressCache {
    fn lock_state(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lookup_address(&self, node: &str) -> (AddressLookup, Option<Disconnection>) {
        let state = self.lock_state();
        let lookup = match state.by_label.get(node).map(Vec::as_slice) {
            _ if !state.is_loaded => AddressLookup::NotLoaded,
            _ if state.invalidated.contains(node) => AddressLookup::Invalidated,
            None | Some([]) => AddressLookup::NotFound,
            Some([one]) => match state.nodes.get(one) {
                Some((_, Some(address))) => AddressLookup::Found(*address),
                _ => AddressLookup::NoAddress,
            },
            Some(_) => AddressLookup::Ambiguous,
        };
        (lookup, state.disconnection.clone())
    }

    /// Replaces the content of the cache with `nodes`.
    pub(super) fn replace_all(&self, nodes: Vec<KubernetesNode>) {
        let mut state = CacheState { is_loaded: true, ..CacheState::default() };
        for node in nodes {
            state.insert_node(node);
        }
        *self.lock_state() = state;
    }

    /// Inserts or updates a node. Returns the labels whose address changed.
    pub(super) fn upsert_node(&self, node: KubernetesNode) -> Vec<String> {
        let mut state = self.lock_state();
        let old = state.nodes.get(&node.metadata.name).cloned();
        let name = node.metadata.name.clone();
        state.insert_node(node);
        let is_unchanged = old.as_ref() == state.nodes.get(&name);
        let label = |it: &(String, Option<IpAddr>)| it.0.clone();
        let now = state.nodes.get(&name).filter(|_| !is_unchanged).map(label);
        let old = old.filter(|_| !is_unchanged).map(|it| it.0);
        // A new label may belong to another node as well.
        old.into_iter().chain(now).collect::<HashSet<_>>().into_iter().collect()
    }

    /// Removes a node. Returns the labels as [`AddressCache::upsert_node`].
    pub(super) fn remove_node(&self, name: &str) -> Vec<String> {
        self.lock_state().remove_node(name).into_iter().collect()
    }

    /// Marks the API server as connected, with no event missed.
    pub(super) fn mark_connected(&self) {
        self.lock_state().disconnection = None;
    }

    /// Invalidates the address of a label, if the API server is unreachable.
    pub(super) fn invalidate_label(&self, label: &str) {
        let mut state = self.lock_state();
        if state.disconnection.is_some() && state.by_label.contains_key(label) {
            state.invalidated.insert(label.to_owned());
        }
    }

    pub(super) fn mark_disconnected(&self, reason: String, now: MonotonicTime) {
        let mut state = self.lock_state();
        let since = state.disconnection.as_ref().map_or(now, |before| before.since);
        state.disconnection = Some(Disconnection { since, reason });
    }

    pub(super) fn disconnection(&self) -> Option<Disconnection> {
        self.lock_state().disconnection.clone()
    }
}

impl CacheState {
    fn remove_node(&mut self, name: &str) -> Option<String> {
        let (label, _) = self.nodes.remove(name)?;
        if let Some(names) = self.by_label.get_mut(&label) {
            names.retain(|other| other != name);
            if names.is_empty() {
                self.by_label.remove(&label);
            }
        }
        Some(label)
    }

    fn insert_node(&mut self, node: KubernetesNode) {
        drop(self.remove_node(&node.metadata.name));
        let address = node.internal_ip();
        let Some(label) = node.node_label() else { return };
        if self.nodes.len() >= MAX_KUBERNETES_NODES {
            tracing::warn!(
                node = node.metadata.name,
                "omitted: more than {MAX_KUBERNETES_NODES} Kubernetes nodes"
            );
            return;
        }
        self.by_label.entry(label.clone()).or_default().push(node.metadata.name.clone());
        self.nodes.insert(node.metadata.name, (label, address));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use serde_json::json;
    use tool::MonotonicTime;

    use super::{AddressCache, AddressLookup, Disconnection, KubernetesNode};

    fn node(name: &str, label: &str, addresses: &serde_json::Value) -> KubernetesNode {
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"nodeID": label}},
            "status": {"addresses": addresses},
        }))
        .unwrap()
    }

    fn at(name: &str, label: &str, ip: &str) -> KubernetesNode {
        node(
            name,
            label,
            &json!([{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": ip}]),
        )
    }

    #[test]
    fn what_is_said_is_known_and_what_is_said_later_counts() {
        let places = AddressCache::default();
        let of = |label| places.lookup_address(label).0;
        let ip = |text: &str| AddressLookup::Found(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("a"), AddressLookup::NotLoaded);
        places.replace_all(vec![at("k1", "a", "10.0.0.1"), at("k2", "b", "fd00::2")]);
        assert_eq!(
            (of("a"), of("b"), of("c")),
            (ip("10.0.0.1"), ip("fd00::2"), AddressLookup::NotFound)
        );
        // The address moves, the label moves, the node goes.
        places.upsert_node(at("k1", "a", "10.0.0.9"));
        assert_eq!(of("a"), ip("10.0.0.9"));
        places.upsert_node(at("k1", "c", "10.0.0.9"));
        assert_eq!((of("a"), of("c")), (AddressLookup::NotFound, ip("10.0.0.9")));
        places.remove_node("k1");
        assert_eq!(of("c"), AddressLookup::NotFound);
        places.upsert_node(node("k2", "b", &json!([{"type": "ExternalIP", "address": "1.1.1.1"}])));
        assert_eq!(of("b"), AddressLookup::NoAddress);
        places.upsert_node(node("k2", "b", &json!([{"type": "InternalIP", "address": "not-one"}])));
        assert_eq!(of("b"), AddressLookup::NoAddress);
    }

    #[test]
    fn a_label_that_two_carry_is_nobodys() {
        let places = AddressCache::default();
        places.replace_all(vec![at("k1", "a", "10.0.0.1")]);
        places.upsert_node(at("evil", "a", "10.6.6.6"));
        assert_eq!(places.lookup_address("a").0, AddressLookup::Ambiguous);
        places.remove_node("evil");
        assert_eq!(places.lookup_address("a").0, AddressLookup::Found("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_label_is_doubted_only_where_it_is_remembered_and_until_all_is_read_anew() {
        let places = AddressCache::default();
        let at_1 = AddressLookup::Found("10.0.0.1".parse().unwrap());
        places.replace_all(vec![at("k1", "a", "10.0.0.1")]);
        places.invalidate_label("a");
        assert_eq!(places.lookup_address("a").0, at_1, "who hears Kubernetes needs nobody's word");
        places
            .mark_disconnected("away".to_owned(), MonotonicTime(std::time::Duration::from_secs(1)));
        places.invalidate_label("b");
        places.invalidate_label("a");
        assert_eq!(
            (places.lookup_address("a").0, places.lookup_address("b").0),
            (AddressLookup::Invalidated, AddressLookup::NotFound)
        );
        places.replace_all(vec![at("k1", "a", "10.0.0.1")]);
        places.mark_connected();
        assert_eq!(places.lookup_address("a").0, at_1);
    }

    #[test]
    fn what_moved_is_named() {
        let places = AddressCache::default();
        assert_eq!(places.upsert_node(at("k1", "a", "10.0.0.1")), ["a"]);
        assert_eq!(places.upsert_node(at("k1", "a", "10.0.0.1")), [""; 0]);
        assert_eq!(places.upsert_node(at("k1", "a", "10.0.0.2")), ["a"]);
        let mut both = places.upsert_node(at("k1", "b", "10.0.0.2"));
        both.sort();
        assert_eq!(both, ["a", "b"]);
        assert_eq!(
            (places.remove_node("k1"), places.remove_node("k1")),
            (vec!["b".to_owned()], vec![])
        );
    }

    #[test]
    fn what_is_away_is_said_with_its_first_time() {
        let places = AddressCache::default();
        let time = |s| MonotonicTime(std::time::Duration::from_secs(s));
        places.mark_disconnected("first".to_owned(), time(1));
        places.mark_disconnected("second".to_owned(), time(2));
        let away = Disconnection { since: time(1), reason: "second".to_owned() };
        assert_eq!(places.disconnection(), Some(away));
        places.mark_connected();
        assert_eq!(places.disconnection(), None);
    }
}
