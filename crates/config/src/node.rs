//! A parsed file as a tree that knows its places: what every later step works on.

use serde_json::{Number, Value};

use super::Place;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    /// Whether its text must not be shown: a credential, or what may hold one.
    pub(crate) secret: bool,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Null,
    /// A scalar whose variables could not be filled in; the fault is told already.
    Broken,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A scalar keeps its text; what it means is decided by what is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Written without quotes, so that it may be a number or a truth value.
    pub(crate) plain: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) place: Place,
}

impl Scalar {
    /// The truth value it is, where it is one.
    pub(crate) fn truth(&self) -> Option<bool> {
        let is = |word: &str| self.plain && self.text == word;
        is("true").then_some(true).or(is("false").then_some(false))
    }

    /// The whole number that its text is, be it in quotes.
    pub(crate) fn whole(&self) -> Option<u64> {
        let text = self.text.replace('_', "");
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// What it is where anything may stand: a truth value, a number or a text.
    pub(crate) fn value(&self) -> Value {
        if let Some(truth) = self.truth() {
            return truth.into();
        }
        if let Some(number) = self.whole().filter(|_| self.plain) {
            return number.into();
        }
        let digits = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let is_number = self.plain && self.text.chars().all(digits);
        let whole = self.text.parse::<i64>().ok().map(Value::from);
        let number = || Number::from_f64(self.text.parse().ok()?).map(Value::from);
        let number = is_number.then(|| whole.or_else(number)).flatten();
        number.unwrap_or_else(|| self.text.clone().into())
    }
}

impl Node {
    /// What it is, in words; a text is shown where that is safe.
    pub(crate) fn found(&self) -> String {
        match &self.kind {
            Kind::Null | Kind::Broken => "nothing".to_owned(),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
            Kind::Scalar(_) if self.secret => "a text".to_owned(),
            Kind::Scalar(scalar) => format!("`{}`", shorten(&scalar.text)),
        }
    }

    /// Takes the value under a key out of a mapping; the key stays, with nothing.
    pub(crate) fn take(&mut self, key: &str) -> Option<Self> {
        let Kind::Map(entries) = &mut self.kind else { return None };
        let (_, node) = entries.iter_mut().find(|(name, _)| name.text == key)?;
        let empty = Self { kind: Kind::Null, ..*node };
        Some(std::mem::replace(node, empty))
    }

    /// The value under a key of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Kind::Map(entries) = &self.kind else { return None };
        entries.iter().find(|(name, _)| name.text == key).map(|(_, node)| node)
    }

    /// Marks as secret what stands under keys that hold secrets.
    pub(crate) fn hide(&mut self, under: bool) {
        self.secret = under;
        match &mut self.kind {
            Kind::Null | Kind::Broken | Kind::Scalar(_) => {}
            Kind::List(nodes) => nodes.iter_mut().for_each(|node| node.hide(under)),
            Kind::Map(entries) => {
                for (key, node) in entries {
                    node.hide(under || holds_secret(&key.text));
                }
            }
        }
    }
}

fn holds_secret(key: &str) -> bool {
    matches!(key, "credential" | "webhook" | "args" | "env" | "headers" | "redis" | "mongodb")
}

/// A text from outside, for a message: one line, not long.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}
