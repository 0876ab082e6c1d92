//! The lines of a text, with what is needed of them.

/// The longest key, in bytes; YAML's own bound is 1,024 characters.
const KEY: usize = 256;

/// A line that says something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'t> {
    /// From 1.
    pub(super) number: usize,
    /// Spaces before it.
    pub(super) indent: usize,
    /// Without spaces around it.
    pub(super) text: &'t str,
}

impl<'t> Line<'t> {
    pub(super) fn is_item(&self) -> bool {
        self.text == "-" || self.text.starts_with("- ")
    }

    /// A key that is surely a text, and what stands behind it.
    pub(super) fn key(&self) -> Option<(&'t str, &'t str)> {
        let end = self.text.bytes().position(|byte| !is_of_key(byte))?;
        let (key, rest) = self.text.split_at_checked(end)?;
        let rest = rest.strip_prefix(':')?;
        let first = key.bytes().next()?;
        let is_text = first.is_ascii_alphabetic() || first == b'_';
        if !is_text || key.len() > KEY || super::scalar::is_special(key) {
            return None;
        }
        match rest.as_bytes().first() {
            None => Some((key, "")),
            Some(b' ') => Some((key, rest.trim_start_matches(' '))),
            Some(_) => None,
        }
    }
}

fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

pub(super) struct Lines<'t> {
    rest: &'t str,
    /// Of the line that `rest` begins with.
    number: usize,
    next: Option<Line<'t>>,
}

impl<'t> Lines<'t> {
    /// Nothing of a text with tabs or other characters that YAML treats by rules of their own, nor of
    /// one whose last line does not end.
    pub(super) fn new(text: &'t str) -> Option<Self> {
        let odd = |c: char| match c {
            '\n' => false,
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => true,
            _ => matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}'),
        };
        let is_odd = if text.is_ascii() {
            text.bytes().any(|byte| byte != b'\n' && byte.is_ascii_control())
        } else {
            text.contains(odd)
        };
        (!is_odd && text.ends_with('\n')).then_some(Self { rest: text, number: 1, next: None })
    }

    /// The next line that is neither empty nor a comment.
    pub(super) fn peek(&mut self) -> Option<Line<'t>> {
        while self.next.is_none() {
            let (number, line) = self.raw()?;
            let text = line.trim_start_matches(' ');
            let indent = line.len() - text.len();
            let text = text.trim_end_matches(' ');
            if !text.is_empty() && !text.starts_with('#') {
                self.next = Some(Line { number, indent, text });
            }
        }
        self.next
    }

    pub(super) fn take(&mut self) {
        self.next = None;
    }

    /// Goes on with this one, which is the rest of the one taken last.
    pub(super) fn put_back(&mut self, line: Line<'t>) {
        self.next = Some(line);
    }

    fn raw(&mut self) -> Option<(usize, &'t str)> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        let number = self.number;
        (self.rest, self.number) = (rest, number + 1);
        Some((number, line))
    }

    /// The literal block below a line at `indent`, the last line taken. Blank lines before it, and
    /// blank ones that are longer than its own indent, are left to others.
    pub(super) fn literal(&mut self, indent: usize, newline: bool) -> Option<String> {
        let (mut own, mut text, mut blank) = (None, String::new(), 0);
        loop {
            let before = (self.rest, self.number);
            let Some((_, line)) = self.raw() else { break };
            let depth = line.len() - line.trim_start_matches(' ').len();
            if depth == line.len() {
                if depth > own? {
                    return None;
                }
                blank += 1;
                continue;
            }
            if depth <= indent {
                (self.rest, self.number) = before;
                break;
            }
            let own = *own.get_or_insert(depth);
            let said = line.get(own..).filter(|_| depth >= own)?;
            if !text.is_empty() {
                text.push('\n');
            }
            text.extend(std::iter::repeat_n('\n', blank));
            blank = 0;
            text.push_str(said);
        }
        own?;
        if newline {
            text.push('\n');
        }
        Some(text)
    }
}
