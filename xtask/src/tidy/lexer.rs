//! Tells Rust code, comments and strings apart, as far as searching for words needs it.

/// The same text twice, each with the other's characters blanked and all lines kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Masked {
    /// Without comments and without what stands in strings.
    pub(crate) code: String,
    /// Only comments.
    pub(crate) comments: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Quoted,
}

/// Splits `text`.
pub(crate) fn mask(text: &str) -> Masked {
    let mut masked = Masked {
        code: String::with_capacity(text.len()),
        comments: String::with_capacity(text.len()),
    };
    let mut rest = text;
    let mut before = ' ';
    while !rest.is_empty() {
        let (kind, length) = token(rest, before);
        let (this, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        for letter in this.chars() {
            let blank = if letter == '\n' { '\n' } else { ' ' };
            masked.code.push(if kind == Kind::Code { letter } else { blank });
            masked.comments.push(if kind == Kind::Comment { letter } else { blank });
        }
        before = this.chars().next_back().unwrap_or(' ');
        rest = after;
    }
    masked
}

/// What `rest` begins with, and how many bytes of it.
fn token(rest: &str, before: char) -> (Kind, usize) {
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block(rest));
    }
    let in_word = before.is_alphanumeric() || before == '_';
    if !in_word && let Some(length) = raw(rest) {
        return (Kind::Quoted, length);
    }
    if rest.starts_with('"') {
        return (Kind::Quoted, quoted(rest, '"'));
    }
    if rest.starts_with('\'') && is_char(rest) {
        return (Kind::Quoted, quoted(rest, '\''));
    }
    (Kind::Code, rest.chars().next().map_or(1, char::len_utf8))
}

/// A block comment, which may hold others.
fn block(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(ahead) = rest.get(at..).filter(|ahead| !ahead.is_empty()) {
        let step = if ahead.starts_with("/*") {
            depth += 1;
            2
        } else if ahead.starts_with("*/") {
            depth -= 1;
            2
        } else {
            ahead.chars().next().map_or(1, char::len_utf8)
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// A raw string: `r"…"`, `br#"…"#` and so on.
fn raw(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('b').or_else(|| rest.strip_prefix('c')).unwrap_or(rest);
    let body = body.strip_prefix('r')?;
    let marks = body.len() - body.trim_start_matches('#').len();
    let text = body.get(marks..)?.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(marks));
    let end = text.find(&close).map_or(text.len(), |at| at + close.len());
    Some(rest.len() - text.len() + end)
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return at + 1;
        }
    }
    rest.len()
}

/// Whether a quote begins a character and not a lifetime.
fn is_char(rest: &str) -> bool {
    let mut letters = rest.chars().skip(1);
    match (letters.next(), letters.next()) {
        (Some('\\'), _) => true,
        (_, next) => next == Some('\''),
    }
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn each_letter_is_in_one_of_them() {
        for (text, code, comments) in [
            ("a // b\nc", "a     \nc", "  // b\n "),
            ("/* a /* b */ c */d", "                 d", "/* a /* b */ c */ "),
            (r#"x("// no", 'y')"#, "x(       ,    )", ""),
            (r##"r#"a"b"# + var"x""##, "         + var   ", ""),
            (r#"'"' & "'""#, "    &    ", ""),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}", ""),
            (r#""a\"b" c"#, "       c", ""),
            ("'\\'' // é", "     ", "     // é"),
            ("\"open", "", ""),
        ] {
            let masked = mask(text);
            assert_eq!(masked.code.trim_end(), code.trim_end(), "{text}");
            assert_eq!(masked.comments.trim_end(), comments.trim_end(), "{text}");
            assert_eq!(masked.code.chars().count(), text.chars().count(), "{text}");
        }
    }
}
