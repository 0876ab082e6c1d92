//! Search for given values in a text, in one pass.

use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use tool::{Json, Secret};

use super::GivenValue;

/// Minimum length of a value in texts, in bytes: shorter ones are too common.
const LEAST: usize = 6;
/// Minimum length of a value in results, in bytes.
const LEAST_RESULT: usize = 8;
/// Maximum length of the prefix that finds a truncated credential, in bytes.
const PREFIX: usize = 16;

/// Values with their replacements, and the automaton that finds them.
#[derive(Clone, Default)]
pub(super) struct Patterns(Option<Arc<Compiled>>);

struct Compiled {
    automaton: AhoCorasick,
    values: Vec<Pattern>,
}

struct Pattern {
    secret: Secret,
    label: String,
    /// Length of the part that the automaton searches: the whole secret or its beginning.
    needle: usize,
}

impl fmt::Debug for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Patterns").field(&self.0.as_ref().map_or(0, |it| it.values.len())).finish()
    }
}

impl Patterns {
    /// Creates patterns for plain text. Credentials are also found if only their beginning is left.
    pub(super) fn of_text<'a>(values: impl Iterator<Item = &'a GivenValue>) -> Self {
        let mut patterns = Vec::new();
        for value in values {
            for text in forms(value.secret.open()) {
                let half = floor(text, (text.len() / 2).clamp(LEAST, PREFIX));
                let needle = if value.is_credential { half } else { text.len() };
                patterns.push(pattern(text, &value.label, needle, LEAST));
            }
        }
        Self::compiled(patterns)
    }

    /// Creates patterns for values inside strings of a JSON document.
    pub(super) fn of_json<'a>(values: impl Iterator<Item = &'a GivenValue>) -> Self {
        let mut patterns = Vec::new();
        for value in values {
            for text in forms(value.secret.open()) {
                let json = Json::of(text);
                let escaped = json.as_str();
                let escaped = escaped.get(1..escaped.len() - 1).unwrap_or_default();
                patterns.push(pattern(escaped, &value.label, escaped.len(), LEAST_RESULT));
            }
        }
        Self::compiled(patterns)
    }

    fn compiled(patterns: Vec<Option<Pattern>>) -> Self {
        let values: Vec<_> = patterns.into_iter().flatten().collect();
        let needles = values.iter().filter_map(|it| it.secret.open().get(..it.needle));
        let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(needles);
        let automaton = built.ok().filter(|_| !values.is_empty());
        Self(automaton.map(|automaton| Arc::new(Compiled { automaton, values })))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Replaces the values in a text, or returns `None` if it contains none.
    pub(super) fn replaced(&self, text: &str) -> Option<String> {
        let compiled = self.0.as_ref()?;
        let mut out = String::new();
        let mut copied = 0;
        for found in compiled.automaton.find_iter(text) {
            if found.start() < copied {
                continue;
            }
            let rest = text.get(found.start()..).unwrap_or_default();
            // Several values may share a beginning: the one with the longest match applies.
            let longest = compiled.values.iter().filter(|it| rest.starts_with(it.needle()));
            let longest = longest.map(|it| (common(rest, it.secret.open()), it));
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

impl Pattern {
    fn needle(&self) -> &str {
        self.secret.open().get(..self.needle).unwrap_or_default()
    }
}

fn pattern(text: &str, label: &str, needle: usize, least: usize) -> Option<Pattern> {
    let fits = text.len() >= least;
    fits.then(|| Pattern { secret: Secret::new(text), label: label.to_owned(), needle })
}

/// Returns a value, and also its part after an `Authorization` scheme.
fn forms(value: &str) -> impl Iterator<Item = &str> {
    let bare = value.split_once(' ').filter(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphabetic())
    });
    std::iter::once(value).chain(bare.map(|(_, bare)| bare.trim_start()))
}

/// Returns the nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns the length of the common prefix of two texts in bytes, in whole characters.
fn common(one: &str, other: &str) -> usize {
    let alike = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    floor(one, alike)
}
