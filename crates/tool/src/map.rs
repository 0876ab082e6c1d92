//! The map of the path that every call takes.

use std::collections::HashMap;

/// A map with a hash that is fast for the short keys of this program: ids and names. Its seed is drawn
/// when the process starts; keys that an attacker may choose without limit belong into a
/// [`HashMap`] with its own hash.
pub type Map<K, V> = HashMap<K, V, Hashing>;

/// How it hashes, for tables of another shape.
pub type Hashing = foldhash::fast::RandomState;
