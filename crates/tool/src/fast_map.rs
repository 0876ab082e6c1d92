//! Defines the hash map type of the call path.

use std::collections::HashMap;

/// A hash map with a fast, seeded hash for short keys such as ids and names. The seed is drawn when
/// the process starts; keys that an attacker may choose without limit belong in a [`HashMap`] with
/// its own hash.
pub type FastMap<K, V> = HashMap<K, V, FastHashState>;

/// Hash state of the fast map, for other table types.
pub type FastHashState = foldhash::fast::RandomState;
