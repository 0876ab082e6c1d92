//! Finds given values in a text, all in one pass.

use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use tool::{Json, Secret};

use super::GivenValue;

/// Values shorter than this are too common to be removed from texts, in bytes.
const LEAST: usize = 6;
/// The same for results.
const LEAST_RESULT: usize = 8;
/// Bytes at the beginning of a credential by which it is found in a text that was cut within it.
const PREFIX: usize = 16;

/// Values, each with its replacement, and the automaton that finds them.
#[derive(Clone, Default)]
pub(super) struct Patterns(Option<Arc<Compiled>>);

struct Compiled {
    automaton: AhoCorasick,
    values: Vec<Pattern>,
}

struct Pattern {
    secret: Secret,
    label: String,
    /// The bytes that the automaton looks for: all of the secret, or its beginning.
    needle: usize,
}

impl fmt::Debug for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Patterns").field(&self.0.as_ref().map_or(0, |it| it.values.len())).finish()
    }
}

impl Patterns {
    /// Of values in plain text; of credentials also where only their beginning is left.
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

    /// Of values as they stand in strings of a JSON document.
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

    /// The text with the values replaced; `None` where it has none.
    pub(super) fn replaced(&self, text: &str) -> Option<String> {
        let compiled = self.0.as_ref()?;
        let mut out = String::new();
        let mut copied = 0;
        for found in compiled.automaton.find_iter(text) {
            if found.start() < copied {
                continue;
            }
            let rest = text.get(found.start()..).unwrap_or_default();
            // Several values may begin alike: the one that reaches furthest is what stands here.
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

/// A value, and what stands behind its scheme where it is one of `Authorization`.
fn forms(value: &str) -> impl Iterator<Item = &str> {
    let bare = value.split_once(' ').filter(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphabetic())
    });
    std::iter::once(value).chain(bare.map(|(_, bare)| bare.trim_start()))
}

/// The nearest border of characters at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Bytes that two texts begin with alike, in whole characters.
fn common(one: &str, other: &str) -> usize {
    let alike = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    floor(one, alike)
}
