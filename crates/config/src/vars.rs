//! `${VAR}` and `${VAR:-default}` within scalars, after parsing: what a variable holds can never
//! become another key or another value. `$${` stands for `${`.

use super::Place;
use super::environment::Environment;
use super::node::{Kind, Node, Scalar, shorten};
use super::sink::Sink;

/// The longest text after the variables are in, in bytes.
const EXPANDED: usize = 64 << 10;

/// What may stand within the braces.
pub(crate) struct Variables<'a> {
    environment: &'a Environment,
    /// Words of other programs, such as `workspaceFolder`, with what they stand for.
    words: Vec<(&'static str, String)>,
    /// Whether `${env:NAME}` is understood.
    foreign: bool,
}

impl<'a> Variables<'a> {
    /// For our own files.
    pub(crate) fn ours(environment: &'a Environment) -> Self {
        Self { environment, words: Vec::new(), foreign: false }
    }

    /// For `mcpServers` files: `${env:NAME}` too, and these words.
    pub(crate) fn foreign(
        environment: &'a Environment,
        words: Vec<(&'static str, String)>,
    ) -> Self {
        Self { environment, words, foreign: true }
    }

    /// Fills in every scalar of the tree, and tells of each that cannot be; that one is then broken.
    pub(crate) fn fill(&self, node: &mut Node, sink: &Sink<'_>) {
        let place = node.place;
        match &mut node.kind {
            Kind::List(nodes) => nodes.iter_mut().for_each(|node| self.fill(node, sink)),
            Kind::Map(entries) => {
                for (_, node) in entries {
                    self.fill(node, sink);
                }
            }
            Kind::Scalar(scalar) if scalar.text.contains("${") => match self.expand(&scalar.text) {
                Ok(text) if text.is_empty() => node.kind = Kind::Null,
                // Quoted or not: what was filled in is what is meant.
                Ok(text) => *scalar = Scalar { text, plain: true },
                Err((at, message, fix)) => {
                    let place = offset(place, scalar, at);
                    node.kind = Kind::Broken;
                    if node.secret {
                        sink.tell_hidden(place, message, &fix);
                    } else {
                        sink.tell(place, message, &fix);
                    }
                }
            },
            Kind::Scalar(_) | Kind::Null | Kind::Broken => {}
        }
    }

    /// The text with its variables in; else where the bad one begins, what is wrong, and the fix.
    fn expand(&self, text: &str) -> Result<String, (usize, String, String)> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                out.push_str(before);
                out.push_str("${");
                rest = after;
                continue;
            }
            out.push_str(before);
            let at = text.len() - after.len() - 2;
            let (inside, after) = after.split_once('}').ok_or_else(|| unclosed(at))?;
            out.push_str(&self.value(inside).map_err(|(message, fix)| (at, message, fix))?);
            if out.len() > EXPANDED {
                let message =
                    format!("the text is longer than {EXPANDED} bytes with its variables in");
                return Err((at, message, "use a shorter value".to_owned()));
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn value(&self, inside: &str) -> Result<String, (String, String)> {
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if default.is_some_and(|default| default.contains("${")) {
            let message = format!("a variable stands within the default of `{}`", shorten(name));
            return Err((message, "write a plain default".to_owned()));
        }
        if let Some((_, text)) = self.words.iter().find(|(word, _)| *word == name) {
            return Ok(text.clone());
        }
        let name = match name.strip_prefix("env:") {
            Some(name) if self.foreign => name,
            _ => name,
        };
        if !is_name(name) {
            let fix = "use `${NAME}` or `${NAME:-default}`; `$${` stands for the characters `${`";
            let message = format!("`${{{}}}` is no variable", shorten(inside));
            return Err((message, fix.to_owned()));
        }
        match (self.environment.get(name), default) {
            (Some("") | None, Some(default)) => Ok(default.to_owned()),
            (Some(value), _) => Ok(value.to_owned()),
            (None, None) => Err((
                format!("the environment variable `{name}` is not set"),
                format!("set it, or give a default: `${{{name}:-…}}`"),
            )),
        }
    }
}

/// The names of the variables that a text mentions, `${NAME}` and `${env:NAME}`.
pub(crate) fn mentioned(text: &str) -> Vec<String> {
    let inside = text.split("${").skip(1).filter_map(|after| after.split_once('}'));
    let names = inside.map(|(inside, _)| inside.split_once(":-").map_or(inside, |(name, _)| name));
    let names = names.map(|name| name.strip_prefix("env:").unwrap_or(name));
    names.filter(|name| is_name(name)).map(str::to_owned).collect()
}

fn unclosed(at: usize) -> (usize, String, String) {
    let fix = "close it with `}`; `$${` stands for the characters `${`".to_owned();
    (at, "`${` is not closed".to_owned(), fix)
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && name.len() <= 128 && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The place within a scalar: exact where it was written plainly on one line, else its beginning.
fn offset(place: Place, scalar: &Scalar, at: usize) -> Place {
    let before = if scalar.plain { scalar.text.get(..at).unwrap_or_default() } else { "" };
    Place { column: place.column + before.chars().count(), ..place }
}

#[cfg(test)]
mod tests;
