//! Addresses of nodes as Kubernetes last reported them, in memory.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tool::Mono;

use super::api_objects::Node;

/// Kubernetes nodes that are remembered.
pub(super) const MOST: usize = 10_000;

/// Where one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Nobody said anything yet.
    Unread,
    /// None carries the label.
    Nowhere,
    /// Another server saw it move, and what is known here is only remembered.
    Doubted,
    /// More than one does: a label proves nothing, and one of them may be false.
    Several,
    /// It carries no address.
    NoAddress,
    At(IpAddr),
}

#[derive(Debug, Default)]
pub(super) struct Places(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By the names of the Kubernetes nodes: the label and the address.
    nodes: HashMap<String, (String, Option<IpAddr>)>,
    by_label: HashMap<String, Vec<String>>,
    read: bool,
    /// Labels whose places count no more.
    doubted: HashSet<String>,
    /// Since when it is away, and why.
    away: Option<(Mono, String)>,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, node: &str) -> (Place, Option<(Mono, String)>) {
        let state = self.lock();
        let place = match state.by_label.get(node).map(Vec::as_slice) {
            _ if !state.read => Place::Unread,
            _ if state.doubted.contains(node) => Place::Doubted,
            None | Some([]) => Place::Nowhere,
            Some([one]) => match state.nodes.get(one) {
                Some((_, Some(address))) => Place::At(*address),
                _ => Place::NoAddress,
            },
            Some(_) => Place::Several,
        };
        (place, state.away.clone())
    }

    /// All there are, in the place of all there were.
    pub(super) fn all(&self, nodes: Vec<Node>) {
        let mut state = State { read: true, ..State::default() };
        for node in nodes {
            state.put(node);
        }
        *self.lock() = state;
    }

    /// Answers the labels that are no longer where they were.
    pub(super) fn put(&self, node: Node) -> Vec<String> {
        let mut state = self.lock();
        let old = state.nodes.get(&node.metadata.name).cloned();
        let name = node.metadata.name.clone();
        state.put(node);
        let same = old.as_ref() == state.nodes.get(&name);
        let label = |it: &(String, Option<IpAddr>)| it.0.clone();
        let now = state.nodes.get(&name).filter(|_| !same).map(label);
        let old = old.filter(|_| !same).map(|it| it.0);
        // A label that is new to this one may be another's too.
        old.into_iter().chain(now).collect::<HashSet<_>>().into_iter().collect()
    }

    /// As [`Places::put`].
    pub(super) fn remove(&self, name: &str) -> Vec<String> {
        self.lock().remove(name).into_iter().collect()
    }

    /// It is there, and what it says is followed again: nothing of it was missed.
    pub(super) fn heard(&self) {
        self.lock().away = None;
    }

    /// Where what is known of a label is only remembered, it counts no more.
    pub(super) fn doubt(&self, label: &str) {
        let mut state = self.lock();
        if state.away.is_some() && state.by_label.contains_key(label) {
            state.doubted.insert(label.to_owned());
        }
    }

    pub(super) fn lost(&self, why: String, now: Mono) {
        let mut state = self.lock();
        let since = state.away.as_ref().map_or(now, |(since, _)| *since);
        state.away = Some((since, why));
    }

    pub(super) fn away(&self) -> Option<(Mono, String)> {
        self.lock().away.clone()
    }
}

impl State {
    fn remove(&mut self, name: &str) -> Option<String> {
        let (label, _) = self.nodes.remove(name)?;
        if let Some(names) = self.by_label.get_mut(&label) {
            names.retain(|other| other != name);
            if names.is_empty() {
                self.by_label.remove(&label);
            }
        }
        Some(label)
    }

    fn put(&mut self, node: Node) {
        drop(self.remove(&node.metadata.name));
        let address = node.internal_ip();
        let Some(label) = node.label() else { return };
        if self.nodes.len() >= MOST {
            tracing::warn!(node = node.metadata.name, "left out: over {MOST} Kubernetes nodes");
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
    use tool::Mono;

    use super::{Node, Place, Places};

    fn node(name: &str, label: &str, addresses: &serde_json::Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"nodeID": label}},
            "status": {"addresses": addresses},
        }))
        .unwrap()
    }

    fn at(name: &str, label: &str, ip: &str) -> Node {
        node(
            name,
            label,
            &json!([{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": ip}]),
        )
    }

    #[test]
    fn what_is_said_is_known_and_what_is_said_later_counts() {
        let places = Places::default();
        let of = |label| places.of(label).0;
        let ip = |text: &str| Place::At(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("a"), Place::Unread);
        places.all(vec![at("k1", "a", "10.0.0.1"), at("k2", "b", "fd00::2")]);
        assert_eq!((of("a"), of("b"), of("c")), (ip("10.0.0.1"), ip("fd00::2"), Place::Nowhere));
        // The address moves, the label moves, the node goes.
        places.put(at("k1", "a", "10.0.0.9"));
        assert_eq!(of("a"), ip("10.0.0.9"));
        places.put(at("k1", "c", "10.0.0.9"));
        assert_eq!((of("a"), of("c")), (Place::Nowhere, ip("10.0.0.9")));
        places.remove("k1");
        assert_eq!(of("c"), Place::Nowhere);
        places.put(node("k2", "b", &json!([{"type": "ExternalIP", "address": "1.1.1.1"}])));
        assert_eq!(of("b"), Place::NoAddress);
        places.put(node("k2", "b", &json!([{"type": "InternalIP", "address": "not-one"}])));
        assert_eq!(of("b"), Place::NoAddress);
    }

    #[test]
    fn a_label_that_two_carry_is_nobodys() {
        let places = Places::default();
        places.all(vec![at("k1", "a", "10.0.0.1")]);
        places.put(at("evil", "a", "10.6.6.6"));
        assert_eq!(places.of("a").0, Place::Several);
        places.remove("evil");
        assert_eq!(places.of("a").0, Place::At("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_label_is_doubted_only_where_it_is_remembered_and_until_all_is_read_anew() {
        let places = Places::default();
        let at_1 = Place::At("10.0.0.1".parse().unwrap());
        places.all(vec![at("k1", "a", "10.0.0.1")]);
        places.doubt("a");
        assert_eq!(places.of("a").0, at_1, "who hears Kubernetes needs nobody's word");
        places.lost("away".to_owned(), Mono(std::time::Duration::from_secs(1)));
        places.doubt("b");
        places.doubt("a");
        assert_eq!((places.of("a").0, places.of("b").0), (Place::Doubted, Place::Nowhere));
        places.all(vec![at("k1", "a", "10.0.0.1")]);
        places.heard();
        assert_eq!(places.of("a").0, at_1);
    }

    #[test]
    fn what_moved_is_named() {
        let places = Places::default();
        assert_eq!(places.put(at("k1", "a", "10.0.0.1")), ["a"]);
        assert_eq!(places.put(at("k1", "a", "10.0.0.1")), [""; 0]);
        assert_eq!(places.put(at("k1", "a", "10.0.0.2")), ["a"]);
        let mut both = places.put(at("k1", "b", "10.0.0.2"));
        both.sort();
        assert_eq!(both, ["a", "b"]);
        assert_eq!((places.remove("k1"), places.remove("k1")), (vec!["b".to_owned()], vec![]));
    }

    #[test]
    fn what_is_away_is_said_with_its_first_time() {
        let places = Places::default();
        let time = |s| Mono(std::time::Duration::from_secs(s));
        places.lost("first".to_owned(), time(1));
        places.lost("second".to_owned(), time(2));
        assert_eq!(places.away(), Some((time(1), "second".to_owned())));
        places.heard();
        assert_eq!(places.away(), None);
    }
}
