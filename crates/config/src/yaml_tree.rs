//! The parsed file as a tree with positions. Every later step reads it.

use serde_json::{Number, Value};
use tool::display_text::truncate_and_escape_debug;

use super::ConfigPosition;

/// One value with its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlNode {
    pub(crate) position: ConfigPosition,
    /// Whether its text may be a credential, and is left out of messages.
    pub(crate) is_secret: bool,
    pub(crate) kind: NodeKind,
}

/// The kind of a value, with its content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeKind {
    Null,
    /// A scalar whose variables could not be expanded; the error is reported already.
    Invalid,
    Scalar(YamlScalar),
    List(Vec<YamlNode>),
    Map(Vec<(YamlKey, YamlNode)>),
}

/// A scalar as its text. The key that reads it decides its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlScalar {
    pub(crate) text: String,
    /// Whether it stands without quotes, and may be a number or a boolean.
    pub(crate) is_plain: bool,
}

/// A key of a mapping with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlKey {
    pub(crate) text: String,
    pub(crate) position: ConfigPosition,
}

impl YamlScalar {
    /// The boolean that an unquoted `true` or `false` is.
    pub(crate) fn as_boolean(&self) -> Option<bool> {
        let is = |word: &str| self.is_plain && self.text == word;
        is("true").then_some(true).or(is("false").then_some(false))
    }

    /// The whole number that its text is, quoted or not.
    pub(crate) fn as_integer(&self) -> Option<u64> {
        let text = self.text.replace('_', "");
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// Converts it to the boolean, number or string that YAML makes of it.
    pub(crate) fn to_json(&self) -> Value {
        if let Some(boolean) = self.as_boolean() {
            return boolean.into();
        }
        if let Some(number) = self.as_integer().filter(|_| self.is_plain) {
            return number.into();
        }
        let digits = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let is_number = self.is_plain && self.text.chars().all(digits);
        let integer = self.text.parse::<i64>().ok().map(Value::from);
        let number = || Number::from_f64(self.text.parse().ok()?).map(Value::from);
        let number = is_number.then(|| integer.or_else(number)).flatten();
        number.unwrap_or_else(|| self.text.clone().into())
    }
}

impl YamlNode {
    /// Describes the value for a message. The text of a secret is left out.
    pub(crate) fn describe_kind(&self) -> String {
        match &self.kind {
            NodeKind::Null | NodeKind::Invalid => "nothing".to_owned(),
            NodeKind::List(_) => "a list".to_owned(),
            NodeKind::Map(_) => "a mapping".to_owned(),
            NodeKind::Scalar(_) if self.is_secret => "a string".to_owned(),
            NodeKind::Scalar(scalar) => format!("`{}`", shorten_text(&scalar.text)),
        }
    }

    /// Takes the value of a key out of a mapping. The key stays, with null.
    pub(crate) fn take_value(&mut self, key: &str) -> Option<Self> {
        let NodeKind::Map(entries) = &mut self.kind else { return None };
        let (_, node) = entries.iter_mut().find(|(name, _)| name.text == key)?;
        let empty = Self { kind: NodeKind::Null, ..*node };
        Some(std::mem::replace(node, empty))
    }

    /// The value of a key of a mapping.
    pub(crate) fn find_value(&self, key: &str) -> Option<&Self> {
        let NodeKind::Map(entries) = &self.kind else { return None };
        entries.iter().find(|(name, _)| name.text == key).map(|(_, node)| node)
    }

    /// Marks the values of keys that hold secrets, and all values below them.
    pub(crate) fn mark_secrets(&mut self, is_below_secret: bool) {
        self.is_secret = is_below_secret;
        match &mut self.kind {
            NodeKind::Null | NodeKind::Invalid | NodeKind::Scalar(_) => {}
            NodeKind::List(nodes) => {
                for node in nodes {
                    node.mark_secrets(is_below_secret);
                }
            }
            NodeKind::Map(entries) => {
                for (key, node) in entries {
                    node.mark_secrets(is_below_secret || is_secret_key(&key.text));
                }
            }
        }
    }
}

fn is_secret_key(key: &str) -> bool {
    matches!(key, "credential" | "webhook" | "args" | "env" | "headers" | "redis" | "mongodb")
}

/// Shortens a text from outside for a message: one line of at most 60 characters.
pub(crate) fn shorten_text(text: &str) -> String {
    let mut short: String = truncate_and_escape_debug(text, 60);
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}
