//! Aliases over random names.

use std::collections::HashSet;

use formats::AliasMap;
use proptest::prelude::*;

/// Few letters, so that names collide often.
fn names() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof!["[ab_.-]{1,6}", "[a.]{60,70}", "[A-Za-z0-9_.-]{1,128}", ".{0,8}"];
    proptest::collection::vec(name, 0..2_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_name_has_one_safe_alias_and_every_alias_one_name(names in names()) {
        let map = AliasMap::with_safe_aliases(&names);
        let distinct: HashSet<_> = names.iter().collect();
        let mut aliases = HashSet::new();
        for name in &distinct {
            let alias = map.alias_of(name).unwrap();
            prop_assert!(formats::aliases::is_safe_name(alias), "{name:?} -> {alias:?}");
            prop_assert_eq!(map.name_of(alias), Some(name.as_str()));
            prop_assert!(aliases.insert(alias), "{alias:?} twice");
        }
        prop_assert_eq!(map.len(), distinct.len());
    }

    #[test]
    fn the_order_of_names_does_not_matter(names in names(), seed in any::<u64>()) {
        let mut shuffled = names.clone();
        let length = shuffled.len().max(1) as u64;
        for index in 0..shuffled.len() {
            let other = (seed.wrapping_mul(index as u64 * 2 + 1) >> 7) % length;
            shuffled.swap(index, usize::try_from(other).unwrap());
        }
        prop_assert_eq!(AliasMap::with_safe_aliases(&names), AliasMap::with_safe_aliases(&shuffled));
    }
}
