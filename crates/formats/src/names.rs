//! Names that every provider takes, and the way back.
//!
//! Tools keep the names their sources gave them (`module.tool`, hyphens, leading digits, up to 128
//! characters); some providers refuse those. An [`AliasMap`] gives each name one alias that matches
//! `^[A-Za-z_][A-Za-z0-9_-]{0,63}$`, no two the same, whatever the order of the names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Longest alias.
pub const MAX: usize = 64;

/// Names and their aliases, both ways. Made once for a whole catalog: the alias of a name depends on
/// the set of names beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AliasMap {
    aliases: HashMap<Arc<str>, Arc<str>>,
    names: HashMap<Arc<str>, Arc<str>>,
    contested: Vec<(Arc<str>, Vec<Arc<str>>)>,
    rehashed: bool,
}

impl AliasMap {
    /// Every name is its own alias, as `names=native` asks.
    pub fn native<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let mut map = Self::default();
        for name in names {
            map.insert(name.as_ref(), name.as_ref());
        }
        map
    }

    /// Every alias is safe at every provider.
    ///
    /// A safe name is its own alias. Any other has its foreign characters replaced by `_`; where
    /// that had to be cut, or is taken, or two names come to the same, a hash of the name ends it.
    pub fn safe<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let names: BTreeSet<Arc<str>> =
            names.into_iter().map(|name| name.as_ref().into()).collect();
        let mut map = Self::default();
        let (safe, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| is_safe(name));
        for name in safe {
            map.insert(name, name);
        }
        let mut wishes = BTreeMap::<String, Vec<&str>>::new();
        for name in others {
            wishes.entry(replaced(name)).or_default().push(name);
        }
        let mut hashed = Vec::new();
        for (wish, wishing) in &wishes {
            match wishing.as_slice() {
                [name] if wish.len() <= MAX && !map.names.contains_key(wish.as_str()) => {
                    map.insert(name, wish);
                }
                _ => hashed.extend(wishing.iter().map(|name| (*name, wish))),
            }
        }
        for (name, wish) in hashed {
            let alias = with_hash(name, wish, |alias| !map.names.contains_key(alias));
            map.rehashed |= alias != with_hash(name, wish, |_| true);
            map.insert(name, &alias);
        }
        let short = wishes.iter().filter(|(wish, _)| wish.len() <= MAX);
        let contested = short.filter(|(wish, wishing)| {
            wishing.len() > 1 || map.names.get(wish.as_str()).is_some_and(|name| **name == ***wish)
        });
        let shared = |name: &&str| Arc::<str>::from(*name);
        map.contested = contested
            .map(|(wish, wishing)| (wish.as_str().into(), wishing.iter().map(shared).collect()))
            .collect();
        map
    }

    /// Whether the aliases of those names that `has` says would be others, had there been no others.
    /// What somebody calls a tool must not tell of tools that are hidden from them.
    pub fn differs_among(&self, has: impl Fn(&str) -> bool) -> bool {
        let alone = |(wish, wishing): &(Arc<str>, Vec<Arc<str>>)| {
            !has(wish) && wishing.iter().filter(|name| has(name)).count() == 1
        };
        self.rehashed || self.contested.iter().any(alone)
    }

    /// The alias of `name`.
    pub fn alias(&self, name: &str) -> Option<&str> {
        self.aliases.get(name).map(AsRef::as_ref)
    }

    /// The name behind `alias`.
    pub fn name(&self, alias: &str) -> Option<&str> {
        self.names.get(alias).map(AsRef::as_ref)
    }

    /// How many names.
    pub fn len(&self) -> usize {
        self.aliases.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.aliases.is_empty()
    }

    fn insert(&mut self, name: &str, alias: &str) {
        let (name, alias) = (Arc::<str>::from(name), Arc::<str>::from(alias));
        self.aliases.insert(Arc::clone(&name), Arc::clone(&alias));
        self.names.insert(alias, name);
    }
}

/// `wish`, cut, with a hash of `name` at its end; hashed again until it is `free`, which ends because
/// there are fewer names than hashes.
pub(crate) fn with_hash(name: &str, wish: &str, free: impl Fn(&str) -> bool) -> String {
    let stem: String = wish.chars().take(MAX - SUFFIX).collect();
    let mut hash = fnv(FNV_START, name);
    loop {
        let alias = format!("{stem}_{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff));
        if free(&alias) {
            return alias;
        }
        hash = fnv(hash, "again");
    }
}

/// `_` and eight hexadecimal digits.
const SUFFIX: usize = 9;
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, 64 bits: the same on every machine and in every version.
fn fnv(start: u64, text: &str) -> u64 {
    text.bytes().fold(start, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Whether every provider takes `name` as it is.
pub fn is_safe(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && name.len() <= MAX && name.chars().all(belongs)
}

fn belongs(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn replaced(name: &str) -> String {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_digit() || c == '-');
    let lead = (first || name.is_empty()).then_some('_');
    lead.into_iter().chain(name.chars().map(|c| if belongs(c) { c } else { '_' })).collect()
}

#[cfg(test)]
mod tests {
    use super::{AliasMap, fnv, replaced};

    #[test]
    fn readable_where_it_can_be() {
        let map = AliasMap::safe(["notes.append", "plain", "1st", "-x", ""]);
        let alias = |name| map.alias(name).unwrap();
        assert_eq!(alias("notes.append"), "notes_append");
        assert_eq!(alias("plain"), "plain");
        assert_eq!((alias("1st"), alias("-x"), alias("")), ("_1st", "_-x", "_"));
        assert_eq!(map.name("notes_append"), Some("notes.append"));
        assert_eq!(map.name("notes.append"), None);
    }

    /// Positive control: replacing characters alone makes one name of two.
    #[test]
    fn two_names_never_become_one() {
        assert_eq!(replaced("a.b"), replaced("a/b"));
        let map = AliasMap::safe(["a.b", "a/b", "a_b"]);
        assert_eq!(map.alias("a_b"), Some("a_b"));
        assert_ne!(map.alias("a.b"), map.alias("a/b"));
        for name in ["a.b", "a/b", "a_b"] {
            assert_eq!(map.name(map.alias(name).unwrap()), Some(name));
        }
    }

    #[test]
    fn a_taken_hash_is_hashed_again() {
        let first = AliasMap::safe(["a.b", "a/b"]).alias("a.b").unwrap().to_owned();
        let map = AliasMap::safe(["a.b", "a/b", first.as_str()]);
        assert_eq!(map.alias(&first), Some(first.as_str()));
        assert_ne!(map.alias("a.b"), Some(first.as_str()));
        assert_eq!(map.name(map.alias("a.b").unwrap()), Some("a.b"));
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (a, b) = ("x".repeat(127) + "a", "x".repeat(127) + "b");
        let map = AliasMap::safe([&a, &b]);
        assert_eq!(map.alias(&a).unwrap().len(), 64);
        assert_ne!(map.alias(&a), map.alias(&b));
    }

    /// Whatever is hidden: the aliases of the rest are those that the rest alone would have.
    #[test]
    fn who_sees_fewer_names_is_told_when_their_aliases_are_others() {
        let taken = AliasMap::safe(["a.b", "a/b"]).alias("a.b").unwrap().to_owned();
        let long = "x.".repeat(60);
        let all = ["a.b", "a/b", "c.d", "c_d", "e.f", "plain", taken.as_str(), long.as_str()];
        let whole = AliasMap::safe(all);
        let (mut same, mut other) = (0, 0);
        for seen in 0_u32..1 << all.len() {
            let seen: Vec<_> =
                (0..all.len()).filter(|i| seen & (1 << i) != 0).map(|i| all[i]).collect();
            let alone = AliasMap::safe(&seen);
            if whole.differs_among(|name| seen.contains(&name)) {
                other += 1;
                continue;
            }
            same += 1;
            assert!(seen.iter().all(|name| alone.alias(name) == whole.alias(name)), "{seen:?}");
        }
        assert!(other > 0, "{same} {other}");
        let plain = AliasMap::safe(["a.b", "a/b", "c.d", "c_d", "e.f"]);
        assert!(!plain.differs_among(|_| true) && !plain.differs_among(|_| false));
        assert!(!plain.differs_among(|name| matches!(name, "e.f" | "c_d")));
        for one in ["a.b", "a/b", "c.d"] {
            assert!(plain.differs_among(|name| name == one), "{one}");
        }
    }

    #[test]
    fn native_names_stay() {
        let map = AliasMap::native(["notes.append"]);
        assert_eq!(map.alias("notes.append"), Some("notes.append"));
        assert_eq!(map.name("notes.append"), Some("notes.append"));
    }

    /// From the reference list of the algorithm's authors.
    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv(super::FNV_START, "foobar"), 0x8594_4171_f739_67e8);
    }
}
