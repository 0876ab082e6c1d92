//! Which calls may run at once: each in the first wave in which all that it needs is there.
//!
//! A call needs what makes the names in its arguments. And order is kept where it could be seen: a call
//! with effects comes after every other such, and what only looks comes after the effects before it.
//! Within a wave, what only looks runs first.

use std::collections::BTreeMap;

use super::plain::Step;

/// The waves, steps by their place.
pub(super) fn order(
    steps: &[Step],
    effects: impl Fn(&Step) -> bool,
    parallel_mutations: bool,
) -> Vec<Vec<usize>> {
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    // The wave of the last call with effects.
    let mut effect: Option<usize> = None;
    let mut waves: Vec<Vec<usize>> = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let needs = step.wants.iter().filter_map(|name| made.get(name.as_str()));
        let mut wave = needs.map(|wave| wave + 1).max().unwrap_or(0);
        if !parallel_mutations {
            wave = wave.max(effect.map_or(0, |last| last + 1));
            if effects(step) {
                // What looks before it in the script is in this wave at the latest, and runs first.
                wave = wave.max(waves.len().saturating_sub(1));
                effect = Some(wave);
            }
        }
        if let Some(name) = &step.name {
            made.insert(name, wave);
        }
        while waves.len() <= wave {
            waves.push(Vec::new());
        }
        if let Some(wave) = waves.get_mut(wave) {
            wave.push(place);
        }
    }
    waves
}
