//! The plain YAML most people write, read in one pass: block mappings and lists, scalars of one line,
//! simple flow collections, literal blocks. What is not surely of that kind is nothing here, and the
//! whole reader judges it: this one never refuses and never guesses.

mod flow;
mod lines;
mod scalar;

use std::collections::HashSet;

use json::quote;
use tool::{Json, Limits};

use super::Yaml;
use lines::{Line, Lines};

/// Levels; deeper is for the whole reader.
const DEPTH: usize = 32;
/// Scalars and collections; the whole reader takes some more.
const NODES: usize = 480_000;
/// Keys that are compared one by one; more are hashed.
const FEW: usize = 12;
/// Levels whose mappings are looked into: the file, its `tools`. Below is text.
const LEVELS: usize = 2;

/// Reads `text`: its first line and its tree. Nothing where the whole reader is needed.
pub(super) fn read(text: &str) -> Option<(usize, Yaml)> {
    let mut reader = Reader { lines: Lines::new(text)?, left: NODES };
    let first = reader.lines.peek()?;
    let yaml = reader.level(first, LEVELS)?;
    reader.lines.peek().is_none().then_some((first.number, yaml))
}

/// `None` in all that follows: not surely read.
struct Reader<'t> {
    lines: Lines<'t>,
    left: usize,
}

impl<'t> Reader<'t> {
    fn count(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }

    /// The node that begins at `first`, which is the next line.
    fn level(&mut self, first: Line<'t>, levels: usize) -> Option<Yaml> {
        self.count()?;
        if first.is_item() {
            return self.items(first.indent).map(Yaml::List);
        }
        if levels == 0 {
            return self.text(|reader, out| reader.mapping(first.indent, DEPTH, out));
        }
        let (mut members, mut keys) = (Vec::new(), Keys::default());
        while let Some((key, number, rest)) = self.key(first.indent, &mut keys)? {
            let (line, value) = match (rest, self.nested(first.indent)) {
                ("", Some(below)) => (below.number, self.level(below, levels - 1)?),
                // Of these the lines are for the whole reader to tell.
                (rest, _) if rest.is_empty() || rest.starts_with(['|', '[', '{']) => return None,
                (rest, _) => {
                    (number, self.text(|it, out| it.value(rest, first.indent, DEPTH, out))?)
                }
            };
            members.push((key.to_owned(), line, value));
        }
        Some(Yaml::Mapping(members))
    }

    fn text(&mut self, write: impl FnOnce(&mut Self, &mut String) -> Option<()>) -> Option<Yaml> {
        self.json(write).map(Yaml::Text)
    }

    fn json(&mut self, write: impl FnOnce(&mut Self, &mut String) -> Option<()>) -> Option<Json> {
        let mut out = String::new();
        write(self, &mut out)?;
        Json::check(out, Limits::DOCUMENT).ok()
    }

    /// A list of mappings, with their lines.
    fn items(&mut self, indent: usize) -> Option<Vec<(usize, Json)>> {
        let mut items = Vec::new();
        while let Some(line) = self.item(indent)? {
            line.key()?;
            let json = self.json(|it, out| it.element(line, indent, DEPTH, out))?;
            items.push((line.number, json));
        }
        Some(items)
    }

    /// The next element of the list at `indent`: what stands behind its dash, at its own place.
    #[expect(
        clippy::option_option,
        reason = "not surely read, or read: and then there may be none"
    )]
    fn item(&mut self, indent: usize) -> Option<Option<Line<'t>>> {
        let Some(line) = self.lines.peek() else { return Some(None) };
        if line.indent > indent {
            return None;
        }
        if line.indent < indent || !line.is_item() {
            return Some(None);
        }
        self.lines.take();
        let rest = line.text.get(1..)?.trim_start_matches(' ');
        // An element that begins below its dash is for the whole reader.
        let behind = line.text.len() - rest.len();
        (!rest.is_empty()).then(|| Some(Line { indent: indent + behind, text: rest, ..line }))
    }

    fn element(
        &mut self,
        line: Line<'t>,
        indent: usize,
        depth: usize,
        out: &mut String,
    ) -> Option<()> {
        if line.is_item() || line.key().is_some() {
            self.lines.put_back(line);
            return self.block(line, depth, out);
        }
        self.value(line.text, indent, depth, out)
    }

    /// A collection whose first line comes next.
    fn block(&mut self, first: Line<'t>, depth: usize, out: &mut String) -> Option<()> {
        if !first.is_item() {
            return self.mapping(first.indent, depth, out);
        }
        let depth = depth.checked_sub(1)?;
        self.count()?;
        out.push('[');
        let start = out.len();
        while let Some(line) = self.item(first.indent)? {
            if out.len() > start {
                out.push(',');
            }
            self.element(line, first.indent, depth, out)?;
        }
        out.push(']');
        Some(())
    }

    fn mapping(&mut self, indent: usize, depth: usize, out: &mut String) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.count()?;
        out.push('{');
        let (start, mut keys) = (out.len(), Keys::default());
        while let Some((key, _, rest)) = self.key(indent, &mut keys)? {
            if out.len() > start {
                out.push(',');
            }
            quote(out, key);
            out.push(':');
            if !rest.is_empty() {
                self.value(rest, indent, depth, out)?;
            } else if let Some(below) = self.nested(indent) {
                self.block(below, depth, out)?;
            } else {
                self.count()?;
                out.push_str("null");
            }
        }
        out.push('}');
        Some(())
    }

    /// The next key of the mapping at `indent`, with its line and what stands behind it.
    #[expect(
        clippy::option_option,
        reason = "not surely read, or read: and then there may be none"
    )]
    fn key(
        &mut self,
        indent: usize,
        keys: &mut Keys<'t>,
    ) -> Option<Option<(&'t str, usize, &'t str)>> {
        let Some(line) = self.lines.peek().filter(|line| line.indent >= indent) else {
            return Some(None);
        };
        if line.indent > indent || line.is_item() {
            return None;
        }
        let (key, rest) = line.key()?;
        self.lines.take();
        self.count()?;
        keys.add(key)?;
        Some(Some((key, line.number, rest)))
    }

    /// The line below a key without a value, where it belongs to it: deeper, or a list beside it.
    fn nested(&mut self, indent: usize) -> Option<Line<'t>> {
        let line = self.lines.peek()?;
        (line.indent > indent || (line.indent == indent && line.is_item())).then_some(line)
    }

    /// A value of one line, or a literal block below it.
    fn value(
        &mut self,
        text: &'t str,
        indent: usize,
        depth: usize,
        out: &mut String,
    ) -> Option<()> {
        if matches!(text, "|" | "|-") {
            // Nothing has looked at the line below yet: its spaces count.
            self.count()?;
            let block = self.lines.literal(indent, text == "|")?;
            quote(out, &block);
        } else if text.starts_with(['[', '{']) {
            flow::write(text, &mut self.left, depth, out)?;
        } else {
            self.count()?;
            scalar::write(text, out)?;
        }
        // What is deeper would go on with it.
        self.lines.peek().is_none_or(|next| next.indent <= indent).then_some(())
    }
}

/// The keys of one mapping.
#[derive(Default)]
struct Keys<'t> {
    few: Vec<&'t str>,
    many: HashSet<&'t str>,
}

impl<'t> Keys<'t> {
    /// Nothing where it is there already.
    fn add(&mut self, key: &'t str) -> Option<()> {
        if self.few.contains(&key) {
            return None;
        }
        if self.few.len() < FEW {
            self.few.push(key);
            return Some(());
        }
        self.many.insert(key).then_some(())
    }
}

#[cfg(test)]
mod tests;
