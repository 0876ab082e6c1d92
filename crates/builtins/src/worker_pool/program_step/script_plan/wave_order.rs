//! Ordering of calls into waves: each call runs in the first wave in which all its inputs are
//! available.
//!
//! A call depends on the calls that produce the names in its arguments. Observable order is
//! preserved: a call with effects runs after every earlier one, and a read-only call runs after the
//! effects before it. Within a wave, read-only calls run first.

use std::collections::BTreeMap;

use super::simple_statements::PlannedCall;

/// Returns the waves as indices of steps.
pub(super) fn order_waves(
    steps: &[PlannedCall],
    effects: impl Fn(&PlannedCall) -> bool,
    parallel_mutations: bool,
) -> Vec<Vec<usize>> {
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    // The wave of the last call with effects.
    let mut effect: Option<usize> = None;
    let mut waves: Vec<Vec<usize>> = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let needs = step.needed_names.iter().filter_map(|name| made.get(name.as_str()));
        let mut wave = needs.map(|wave| wave + 1).max().unwrap_or(0);
        if !parallel_mutations {
            wave = wave.max(effect.map_or(0, |last| last + 1));
            if effects(step) {
                // Earlier read-only calls are in this wave at the latest, and run first.
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
