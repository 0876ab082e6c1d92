//! A parsed file as a tree that knows its places: what every later step works on.

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
    /// The number it is, where it is one: whole, if it can be.
    pub(crate) fn decimal(&self) -> Option<(Option<i64>, f64)> {
        let digits = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let number = self.plain && self.text.chars().all(digits);
        let value = number.then(|| self.text.parse::<f64>().ok()).flatten()?;
        value.is_finite().then(|| (self.text.parse().ok(), value))
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
