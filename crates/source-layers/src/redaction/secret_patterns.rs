//! Search for given values in a text, in one pass.

use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use tool::{Json, Secret};

use super::RedactedValue;

/// Minimum length of a value in texts, in bytes: shorter ones are too common.
const MIN_TEXT_BYTES: usize = 6;
/// Minimum length of a value in results, in bytes.
const MIN_RESULT_BYTES: usize = 8;
/// Maximum length of the prefix that finds a truncated credential, in bytes.
const MAX_PREFIX_BYTES: usize = 16;

/// Values with their replacements, and the automaton that finds them.
#[derive(Clone, Default)]
pub(super) struct SecretPatterns(Option<Arc<CompiledPatterns>>);

struct CompiledPatterns {
    automaton: AhoCorasick,
    values: Vec<SecretPattern>,
}

struct SecretPattern {
    secret: Secret,
    label: String,
    /// Length of the part that the automaton searches: the whole secret or its beginning.
    needle_bytes: usize,
}

impl fmt::Debug for SecretPatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Patterns").field(&self.0.as_ref().map_or(0, |it| it.values.len())).finish()
    }
}

impl SecretPatterns {
    /// Creates patterns for plain text. Credentials are also found if only their beginning is left.
    pub(super) fn from_text_values<'a>(values: impl Iterator<Item = &'a RedactedValue>) -> Self {
        let mut patterns = Vec::new();
        for value in values {
            for text in value_forms(value.secret.expose()) {
                let prefix_bytes = floor_char_boundary(
                    text,
                    (text.len() / 2).clamp(MIN_TEXT_BYTES, MAX_PREFIX_BYTES),
                );
                let needle = if value.is_credential { prefix_bytes } else { text.len() };
                patterns.push(new_pattern(text, &value.label, needle, MIN_TEXT_BYTES));
            }
        }
        Self::from_patterns(patterns)
    }

    /// Creates patterns for values inside strings of a JSON document.
    pub(super) fn from_json_values<'a>(values: impl Iterator<Item = &'a RedactedValue>) -> Self {
        let mut patterns = Vec::new();
        for value in values {
            for text in value_forms(value.secret.expose()) {
                let json = Json::encode(text);
                let escaped = json.as_str();
                let escaped = escaped.get(1..escaped.len() - 1).unwrap_or_default();
                patterns.push(new_pattern(escaped, &value.label, escaped.len(), MIN_RESULT_BYTES));
            }
        }
        Self::from_patterns(patterns)
    }

    fn from_patterns(patterns: Vec<Option<SecretPattern>>) -> Self {
        let values: Vec<_> = patterns.into_iter().flatten().collect();
        let needles = values.iter().filter_map(|it| it.secret.expose().get(..it.needle_bytes));
        let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(needles);
        let automaton = built.ok().filter(|_| !values.is_empty());
        Self(automaton.map(|automaton| Arc::new(CompiledPatterns { automaton, values })))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Replaces the values in a text, or returns `None` if it contains none.
    pub(super) fn replace_values(&self, text: &str) -> Option<String> {
        let compiled = self.0.as_ref()?;
        let mut out = String::new();
        let mut copied = 0;
        for found in compiled.automaton.find_iter(text) {
            if found.start() < copied {
                continue;
            }
            let rest = text.get(found.start()..).unwrap_or_default();
            // Several values may share a beginning: the one with the longest match applies.
            let longest = compiled.values.iter().filter(|it| rest.starts_with(it.search_text()));
            let longest = longest.map(|it| (common_prefix_len(rest, it.secret.expose()), it));
            let Some((length, value)) = longest.max_by_key(|(length, _)| *length) else { continue };
            out.push_str(text.get(copied..found.start()).unwrap_or_default());
            out.push_str(&value.label);
            copied = found.start() + length;
        }
        if copied == 0 {
            return None;
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Some(out)
    }
}

impl SecretPattern {
    fn search_text(&self) -> &str {
        self.secret.expose().get(..self.needle_bytes).unwrap_or_default()
    }
}

fn new_pattern(text: &str, label: &str, needle: usize, min_bytes: usize) -> Option<SecretPattern> {
    let fits = text.len() >= min_bytes;
    fits.then(|| SecretPattern {
        secret: Secret::new(text),
        label: label.to_owned(),
        needle_bytes: needle,
    })
}

/// Returns a value, and also its part after an `Authorization` scheme.
fn value_forms(value: &str) -> impl Iterator<Item = &str> {
    let without_scheme = value.split_once(' ').filter(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphabetic())
    });
    std::iter::once(value).chain(without_scheme.map(|(_, bare)| bare.trim_start()))
}

/// Returns the nearest character boundary at or before `at`.
fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns the length of the common prefix of two texts in bytes, in whole characters.
fn common_prefix_len(one: &str, other: &str) -> usize {
    let equal_bytes =
        one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    floor_char_boundary(one, equal_bytes)
}
