//! Flow collections that stand on one line: `[a, b]` and `{type: string, items: {type: object}}`.

use json::quote;

use super::Keys;
use super::scalar;

/// Writes `text`, which begins with a bracket, as JSON, where all of it is plain. Nodes are taken from
/// `left`.
pub(super) fn write(text: &str, left: &mut usize, depth: usize, out: &mut String) -> Option<()> {
    let mut flow = Flow { rest: text, left };
    flow.node(depth, out)?;
    flow.rest.is_empty().then_some(())
}

struct Flow<'t, 'n> {
    rest: &'t str,
    left: &'n mut usize,
}

impl<'t> Flow<'t, '_> {
    fn node(&mut self, depth: usize, out: &mut String) -> Option<()> {
        *self.left = self.left.checked_sub(1)?;
        if self.eat('[') {
            self.list(depth.checked_sub(1)?, out)
        } else if self.eat('{') {
            self.mapping(depth.checked_sub(1)?, out)
        } else {
            self.scalar(out)
        }
    }

    fn eat(&mut self, mark: char) -> bool {
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest).trim_start_matches(' ');
        rest.is_some()
    }

    fn list(&mut self, depth: usize, out: &mut String) -> Option<()> {
        out.push('[');
        if !self.eat(']') {
            loop {
                self.node(depth, out)?;
                if self.eat(']') {
                    break;
                }
                out.push(',');
                self.comma()?;
            }
        }
        out.push(']');
        Some(())
    }

    fn mapping(&mut self, depth: usize, out: &mut String) -> Option<()> {
        out.push('{');
        let mut keys = Keys::default();
        if !self.eat('}') {
            loop {
                let key = self.key()?;
                keys.add(key)?;
                *self.left = self.left.checked_sub(1)?;
                quote(out, key);
                out.push(':');
                self.node(depth, out)?;
                if self.eat('}') {
                    break;
                }
                out.push(',');
                self.comma()?;
            }
        }
        out.push('}');
        Some(())
    }

    /// One before what follows; a comma before the end is for the whole reader.
    fn comma(&mut self) -> Option<()> {
        (self.eat(',') && !self.rest.starts_with([']', '}', ','])).then_some(())
    }

    fn key(&mut self) -> Option<&'t str> {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        let (key, rest) = self.rest.split_at_checked(end)?;
        let starts = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !starts || scalar::is_special(key) {
            return None;
        }
        self.rest = rest.strip_prefix(": ")?.trim_start_matches(' ');
        Some(key)
    }

    fn scalar(&mut self, out: &mut String) -> Option<()> {
        let first = self.rest.chars().next()?;
        let end = if matches!(first, '"' | '\'') {
            self.rest.get(1..)?.find(first)? + 2
        } else {
            let plain = |c: char| {
                c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' ' | '(' | ')')
            };
            self.rest.find(|c| !plain(c))?
        };
        let (text, rest) = self.rest.split_at_checked(end)?;
        let text = text.trim_end_matches(' ');
        match scalar::quoted(text, first) {
            Some(said) => quote(out, said?),
            None => scalar::word(text, first, out)?,
        }
        self.rest = rest.trim_start_matches(' ');
        // Behind a scalar only this follows; a colon would make it a key, a hash a comment.
        self.rest.starts_with([',', ']', '}']).then_some(())
    }
}
