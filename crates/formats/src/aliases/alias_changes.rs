//! Changes of an alias map with the set of names: only aliases that the changed names can affect
//! are decided again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AliasMap, MAX_ALIAS_LEN, hashed_alias, is_safe_name};
use crate::schema_lowering::provider_rules::NameRule;

impl AliasMap {
    /// Returns the map of the names of this one without `removed`, which it has, and with `added`,
    /// which it lacks; both of [`AliasMap::with_safe_aliases`]. The result is what that function
    /// returns for all the names.
    #[must_use]
    pub fn with_changed_names<S: AsRef<str>>(&self, removed: &[S], added: &[S]) -> Self {
        let changed = (!self.has_rehashed_alias).then(|| self.apply_changes(removed, added));
        changed.flatten().unwrap_or_else(|| self.rebuild(removed, added))
    }

    /// Builds the map again: the hash of one name is, or may be, the alias of another.
    fn rebuild<S: AsRef<str>>(&self, removed: &[S], added: &[S]) -> Self {
        let gone: std::collections::HashSet<&str> = removed.iter().map(AsRef::as_ref).collect();
        let all = self.by_alias.all_entries().map(|it| &*it.name);
        let kept = all.filter(|name| !gone.contains(name));
        Self::with_safe_aliases(kept.chain(added.iter().map(AsRef::as_ref)))
    }

    /// Applies the changes; `None` if the hash of a name is taken by another alias.
    fn apply_changes<S: AsRef<str>>(&self, removed: &[S], added: &[S]) -> Option<Self> {
        let mut next = self.clone();
        // Names by the alias that they want, of all aliases that a changed name wants or has.
        let mut groups: BTreeMap<String, Vec<Arc<str>>> = BTreeMap::new();
        for name in removed.iter().map(AsRef::as_ref) {
            next.remove_alias(name);
            let candidate = candidate_of(name);
            if !is_safe_name(name) {
                next.candidates.remove(next.hash_of(&candidate), |it| **it == *name);
            }
            groups.entry(candidate).or_default();
        }
        for name in added.iter().map(AsRef::as_ref) {
            let candidate = candidate_of(name);
            if !is_safe_name(name) {
                next.candidates.insert(next.hash_of(&candidate), name.into());
            }
            groups.entry(candidate).or_default();
        }
        for (wish, names) in &mut groups {
            let wishing = next.candidates.get_entries(next.hash_of(wish));
            names.extend(wishing.filter(|name| candidate_of(name) == *wish).cloned());
            names.sort_unstable();
            for name in names.iter() {
                next.remove_alias(name);
            }
            next.collisions.remove(next.hash_of(wish), |it| *it.alias == **wish);
        }
        for name in added.iter().map(AsRef::as_ref).filter(|name| is_safe_name(name)) {
            let name = Arc::<str>::from(name);
            next.insert_free_alias(Arc::clone(&name), name)?;
        }
        for (wish, names) in groups {
            let is_plain = names.len() == 1 && wish.len() <= MAX_ALIAS_LEN && {
                let holder = next.find_alias(&wish);
                holder.is_none_or(|holder| *holder.name != *wish)
            };
            for name in &names {
                let alias =
                    if is_plain { wish.clone() } else { hashed_alias(name, &wish, |_| true) };
                next.insert_free_alias(Arc::clone(name), alias.into())?;
            }
            next.note_collision(&wish, names);
        }
        Some(next)
    }

    /// Inserts an alias; `None` if another name has it.
    fn insert_free_alias(&mut self, name: Arc<str>, alias: Arc<str>) -> Option<()> {
        let is_free = !self.is_taken(&alias);
        is_free.then(|| self.insert_alias(name, alias))
    }

    fn remove_alias(&mut self, name: &str) {
        let entry = self.by_name.remove(self.hash_of(name), |it| *it.name == *name);
        let alias = entry.map_or_else(|| name.into(), |entry| entry.alias);
        let is_of_name = |it: &super::NamedAlias| *it.alias == *alias && *it.name == *name;
        drop(self.by_alias.remove(self.hash_of(&alias), is_of_name));
    }
}

/// Returns the alias that a name wants.
fn candidate_of(name: &str) -> String {
    if is_safe_name(name) { name.to_owned() } else { NameRule::ToolAlias.sanitize_name(name) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::AliasMap;
    use crate::aliases::hashed_alias;

    /// Names that want one another's aliases, and one that is the hash of another.
    fn colliding_names() -> Vec<String> {
        let long = "x.".repeat(50);
        let mut names: Vec<String> =
            ["a.b", "a/b", "a_b", "a-b", "c.d", "c_d", "e.f", "plain", &long, "1st", "_1st", "é"]
                .map(str::to_owned)
                .to_vec();
        names.push(hashed_alias("a.b", "a_b", |_| true));
        names.push(hashed_alias(&long, &"x_".repeat(50), |_| true));
        names
    }

    #[test]
    fn a_changed_map_is_that_of_all_its_names() {
        let names = colliding_names();
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        let (mut map, mut has) = (AliasMap::default(), BTreeSet::new());
        let (mut kept, mut rebuilt) = (0, 0);
        for _ in 0..3_000 {
            let (mut removed, mut added) = (Vec::new(), Vec::new());
            for _ in 0..=random(3) {
                let name = names[random(names.len())].as_str();
                if removed.contains(&name) || added.contains(&name) {
                    continue;
                }
                if has.remove(name) {
                    removed.push(name);
                } else {
                    has.insert(name);
                    added.push(name);
                }
            }
            match map.apply_changes(&removed, &added) {
                Some(_) if !map.has_rehashed_alias => kept += 1,
                _ => rebuilt += 1,
            }
            map = map.with_changed_names(&removed, &added);
            let fresh = AliasMap::with_safe_aliases(&has);
            assert_eq!(map, fresh, "{has:?}");
            assert_eq!(map.has_rehashed_alias, fresh.has_rehashed_alias);
            for name in &names {
                assert_eq!(map.alias_of(name).is_some(), has.contains(name.as_str()), "{name}");
                let is_visible = |other: &str| other != name;
                let depends = |map: &AliasMap| map.depends_on_hidden(is_visible);
                assert_eq!(depends(&map), depends(&fresh), "{name} of {has:?}");
            }
        }
        assert!(kept > 500 && rebuilt > 100, "{kept} {rebuilt}");
    }
}
