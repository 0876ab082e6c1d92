//! Tool aliases: names that every provider accepts, and the mapping back.
//!
//! Tools keep the names of their sources (`module.tool`, hyphens, leading digits, up to 128
//! characters), but some providers reject such names. An [`AliasMap`] gives each name a unique
//! alias that matches `^[A-Za-z_][A-Za-z0-9_-]{0,63}$`, independent of the order of the names.

mod alias_changes;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::sync::Arc;

use tool::{FastHashState, HashTrie};

use crate::schema_lowering::provider_rules::NameRule;

/// Maximum length of an alias, in characters.
pub const MAX_ALIAS_LEN: usize = 64;

/// Bidirectional map of names and aliases. An alias depends on the whole set of names; a map of a
/// changed set shares with its predecessor what did not change.
#[derive(Debug, Clone, Default)]
pub struct AliasMap {
    /// True if each name is its own alias, whatever the set of names is.
    is_native: bool,
    /// All names, by the hash of the alias.
    by_alias: HashTrie<NamedAlias>,
    /// Names that differ from their aliases, by the hash of the name.
    by_name: HashTrie<NamedAlias>,
    /// Names that need an alias, by the hash of the alias that each wants.
    candidates: HashTrie<Arc<str>>,
    /// By the hash of the alias.
    collisions: HashTrie<Arc<AliasCollision>>,
    has_rehashed_alias: bool,
    hash_state: FastHashState,
}

/// A name with its alias.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NamedAlias {
    name: Arc<str>,
    alias: Arc<str>,
}

/// An alias that several names would have, or that is itself a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AliasCollision {
    alias: Arc<str>,
    /// Names other than the alias.
    names: Vec<Arc<str>>,
}

impl PartialEq for AliasMap {
    fn eq(&self, other: &Self) -> bool {
        let all = |map: &Self| map.by_alias.all_entries().cloned().collect::<BTreeSet<_>>();
        self.is_native == other.is_native && all(self) == all(other)
    }
}
impl Eq for AliasMap {}

impl AliasMap {
    /// Creates aliases that equal the names, for the option `names=native`.
    pub fn with_native_names() -> Self {
        Self { is_native: true, ..Self::default() }
    }

    /// Creates aliases that every provider accepts.
    ///
    /// A valid name is its own alias. In other names, invalid characters are replaced by `_`. If
    /// the result is too long, taken or ambiguous, it ends with a hash of the name.
    pub fn with_safe_aliases<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let names: BTreeSet<Arc<str>> =
            names.into_iter().map(|name| name.as_ref().into()).collect();
        let mut map = Self::default();
        let (safe, others): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| is_safe_name(name));
        for name in safe {
            map.insert_alias(Arc::clone(&name), name);
        }
        let mut candidates = BTreeMap::<String, Vec<Arc<str>>>::new();
        for name in others {
            let candidate = NameRule::ToolAlias.sanitize_name(&name);
            map.candidates.insert(map.hash_of(&candidate), Arc::clone(&name));
            candidates.entry(candidate).or_default().push(name);
        }
        let mut hashed = Vec::new();
        for (wish, wishing) in &candidates {
            match wishing.as_slice() {
                [name] if wish.len() <= MAX_ALIAS_LEN && !map.is_taken(wish) => {
                    map.insert_alias(Arc::clone(name), wish.as_str().into());
                }
                _ => hashed.extend(wishing.iter().map(|name| (name, wish))),
            }
        }
        for (name, wish) in hashed {
            let alias = hashed_alias(name, wish, |alias| !map.is_taken(alias));
            map.has_rehashed_alias |= alias != hashed_alias(name, wish, |_| true);
            map.insert_alias(Arc::clone(name), alias.into());
        }
        for (wish, wishing) in candidates {
            map.note_collision(&wish, wishing);
        }
        map
    }

    /// Returns whether the names that `is_visible` accepts would have other aliases without the
    /// remaining names. Aliases must not reveal tools that are hidden from the caller.
    pub fn depends_on_hidden(&self, is_visible: impl Fn(&str) -> bool) -> bool {
        let alone = |it: &Arc<AliasCollision>| {
            !is_visible(&it.alias) && it.names.iter().filter(|name| is_visible(name)).count() == 1
        };
        self.has_rehashed_alias || self.collisions.all_entries().any(alone)
    }

    /// Returns the alias of `name`.
    pub fn alias_of<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if self.is_native {
            return Some(name);
        }
        let is_of_name = |it: &&NamedAlias| *it.name == *name;
        let other = self.by_name.get_entries(self.hash_of(name)).find(is_of_name);
        let found = other.or_else(|| self.find_alias(name).filter(is_of_name));
        found.map(|it| &*it.alias)
    }

    /// Returns the name of `alias`.
    pub fn name_of<'a>(&'a self, alias: &'a str) -> Option<&'a str> {
        if self.is_native { Some(alias) } else { self.find_alias(alias).map(|it| &*it.name) }
    }

    /// Returns the number of names; zero for native names.
    pub fn len(&self) -> usize {
        self.by_alias.len()
    }

    /// Returns whether it has no names of its own.
    pub fn is_empty(&self) -> bool {
        self.by_alias.is_empty()
    }

    fn hash_of(&self, text: &str) -> u64 {
        self.hash_state.hash_one(text)
    }

    fn find_alias(&self, alias: &str) -> Option<&NamedAlias> {
        self.by_alias.get_entries(self.hash_of(alias)).find(|it| *it.alias == *alias)
    }

    fn is_taken(&self, alias: &str) -> bool {
        self.find_alias(alias).is_some()
    }

    fn insert_alias(&mut self, name: Arc<str>, alias: Arc<str>) {
        let (of_name, of_alias) = (self.hash_of(&name), self.hash_of(&alias));
        let is_own = name == alias;
        let entry = NamedAlias { name, alias };
        if !is_own {
            self.by_name.insert(of_name, entry.clone());
        }
        self.by_alias.insert(of_alias, entry);
    }

    /// Notes that hidden names may decide who has this alias, unless one name alone wants it.
    fn note_collision(&mut self, wish: &str, names: Vec<Arc<str>>) {
        let is_name = || self.find_alias(wish).is_some_and(|it| *it.name == *wish);
        if wish.len() <= MAX_ALIAS_LEN && (names.len() > 1 || (!names.is_empty() && is_name())) {
            let collision = Arc::new(AliasCollision { alias: wish.into(), names });
            self.collisions.insert(self.hash_of(wish), collision);
        }
    }
}

/// Returns `candidate`, truncated, with a hash of `name` at its end. Hashes again until `is_free`
/// accepts the alias, which ends because there are fewer names than hashes.
pub(crate) fn hashed_alias(name: &str, candidate: &str, is_free: impl Fn(&str) -> bool) -> String {
    let stem: String = candidate.chars().take(MAX_ALIAS_LEN - HASH_SUFFIX_LEN).collect();
    let mut hash = fnv_hash(FNV_OFFSET, name);
    loop {
        let alias = format!("{stem}_{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff));
        if is_free(&alias) {
            return alias;
        }
        hash = fnv_hash(hash, "again");
    }
}

/// Returns `name` if every provider takes it, and otherwise an alias that depends on `name` alone.
pub(crate) fn safe_name(name: &str) -> String {
    if is_safe_name(name) {
        return name.to_owned();
    }
    hashed_alias(name, &NameRule::ToolAlias.sanitize_name(name), |_| true)
}

/// `_` and eight hexadecimal digits.
const HASH_SUFFIX_LEN: usize = 9;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, 64 bits: the same on every machine and in every version.
fn fnv_hash(start: u64, text: &str) -> u64 {
    text.bytes().fold(start, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Whether every provider takes `name` as it is.
pub fn is_safe_name(name: &str) -> bool {
    NameRule::ToolAlias.accepts_name(name)
}

#[cfg(test)]
mod tests {
    use super::{AliasMap, NameRule, fnv_hash};

    #[test]
    fn readable_where_it_can_be() {
        let map = AliasMap::with_safe_aliases(["notes.append", "plain", "1st", "-x", ""]);
        let alias = |name| map.alias_of(name).unwrap();
        assert_eq!(alias("notes.append"), "notes_append");
        assert_eq!(alias("plain"), "plain");
        assert_eq!((alias("1st"), alias("-x"), alias("")), ("_1st", "_-x", "_"));
        assert_eq!(map.name_of("notes_append"), Some("notes.append"));
        assert_eq!(map.name_of("notes.append"), None);
    }

    /// Positive control: replacing characters alone makes one name of two.
    #[test]
    fn two_names_never_become_one() {
        let sanitize = |name| NameRule::ToolAlias.sanitize_name(name);
        assert_eq!(sanitize("a.b"), sanitize("a/b"));
        let map = AliasMap::with_safe_aliases(["a.b", "a/b", "a_b"]);
        assert_eq!(map.alias_of("a_b"), Some("a_b"));
        assert_ne!(map.alias_of("a.b"), map.alias_of("a/b"));
        for name in ["a.b", "a/b", "a_b"] {
            assert_eq!(map.name_of(map.alias_of(name).unwrap()), Some(name));
        }
    }

    #[test]
    fn a_taken_hash_is_hashed_again() {
        let first = AliasMap::with_safe_aliases(["a.b", "a/b"]).alias_of("a.b").unwrap().to_owned();
        let map = AliasMap::with_safe_aliases(["a.b", "a/b", first.as_str()]);
        assert_eq!(map.alias_of(&first), Some(first.as_str()));
        assert_ne!(map.alias_of("a.b"), Some(first.as_str()));
        assert_eq!(map.name_of(map.alias_of("a.b").unwrap()), Some("a.b"));
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (a, b) = ("x".repeat(127) + "a", "x".repeat(127) + "b");
        let map = AliasMap::with_safe_aliases([&a, &b]);
        assert_eq!(map.alias_of(&a).unwrap().len(), 64);
        assert_ne!(map.alias_of(&a), map.alias_of(&b));
    }

    /// Whatever is hidden: the aliases of the rest are those that the rest alone would have.
    #[test]
    fn who_sees_fewer_names_is_told_when_their_aliases_are_others() {
        let taken = AliasMap::with_safe_aliases(["a.b", "a/b"]).alias_of("a.b").unwrap().to_owned();
        let long = "x.".repeat(60);
        let all = ["a.b", "a/b", "c.d", "c_d", "e.f", "plain", taken.as_str(), long.as_str()];
        let whole = AliasMap::with_safe_aliases(all);
        let (mut same, mut other) = (0, 0);
        for seen in 0_u32..1 << all.len() {
            let seen: Vec<_> =
                (0..all.len()).filter(|i| seen & (1 << i) != 0).map(|i| all[i]).collect();
            let alone = AliasMap::with_safe_aliases(&seen);
            if whole.depends_on_hidden(|name| seen.contains(&name)) {
                other += 1;
                continue;
            }
            same += 1;
            assert!(
                seen.iter().all(|name| alone.alias_of(name) == whole.alias_of(name)),
                "{seen:?}"
            );
        }
        assert!(other > 0, "{same} {other}");
        let plain = AliasMap::with_safe_aliases(["a.b", "a/b", "c.d", "c_d", "e.f"]);
        assert!(!plain.depends_on_hidden(|_| true) && !plain.depends_on_hidden(|_| false));
        assert!(!plain.depends_on_hidden(|name| matches!(name, "e.f" | "c_d")));
        for one in ["a.b", "a/b", "c.d"] {
            assert!(plain.depends_on_hidden(|name| name == one), "{one}");
        }
    }

    #[test]
    fn native_names_stay() {
        let map = AliasMap::with_native_names();
        assert_eq!(map.alias_of("notes.append"), Some("notes.append"));
        assert_eq!(map.name_of("notes.append"), Some("notes.append"));
    }

    /// From the reference list of the algorithm's authors.
    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv_hash(super::FNV_OFFSET, "foobar"), 0x8594_4171_f739_67e8);
    }
}
