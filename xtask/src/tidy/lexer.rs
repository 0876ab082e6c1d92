//! Lexer that separates Rust code, comments and string literals, precisely enough for word
//! searches.

/// One text as two masks: code and comments. Other characters are blanks, and all lines remain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MaskedSource {
    /// The code without comments and string contents.
    pub(crate) code: String,
    /// The comments only.
    pub(crate) comments: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Code,
    Comment,
    StringLiteral,
}

/// Splits `text` into its code and its comments.
pub(crate) fn mask_source(text: &str) -> MaskedSource {
    let mut masked = MaskedSource {
        code: String::with_capacity(text.len()),
        comments: String::with_capacity(text.len()),
    };
    let mut rest = text;
    let mut previous_char = ' ';
    while !rest.is_empty() {
        let (kind, length) = scan_token(rest, previous_char);
        let (this, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        for letter in this.chars() {
            let blank = if letter == '\n' { '\n' } else { ' ' };
            masked.code.push(if kind == TokenKind::Code { letter } else { blank });
            masked.comments.push(if kind == TokenKind::Comment { letter } else { blank });
        }
        previous_char = this.chars().next_back().unwrap_or(' ');
        rest = after;
    }
    masked
}

/// Returns the kind and the length in bytes of the first token.
fn scan_token(rest: &str, previous_char: char) -> (TokenKind, usize) {
    if rest.starts_with("//") {
        return (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (TokenKind::Comment, block_comment_len(rest));
    }
    let in_word = previous_char.is_alphanumeric() || previous_char == '_';
    if !in_word && let Some(length) = raw_string_len(rest) {
        return (TokenKind::StringLiteral, length);
    }
    if rest.starts_with('"') {
        return (TokenKind::StringLiteral, quoted_len(rest, '"'));
    }
    if rest.starts_with('\'') && is_char_literal(rest) {
        return (TokenKind::StringLiteral, quoted_len(rest, '\''));
    }
    (TokenKind::Code, rest.chars().next().map_or(1, char::len_utf8))
}

/// Returns the length of a block comment, including nested ones.
fn block_comment_len(rest: &str) -> usize {
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
fn raw_string_len(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('b').or_else(|| rest.strip_prefix('c')).unwrap_or(rest);
    let body = body.strip_prefix('r')?;
    let marks = body.len() - body.trim_start_matches('#').len();
    let text = body.get(marks..)?.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(marks));
    let end = text.find(&close).map_or(text.len(), |at| at + close.len());
    Some(rest.len() - text.len() + end)
}

fn quoted_len(rest: &str, quote: char) -> usize {
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
fn is_char_literal(rest: &str) -> bool {
    let mut letters = rest.chars().skip(1);
    match (letters.next(), letters.next()) {
        (Some('\\'), _) => true,
        (_, next) => next == Some('\''),
    }
}

#[cfg(test)]
mod tests {
    use super::mask_source;

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
            let masked = mask_source(text);
            assert_eq!(masked.code.trim_end(), code.trim_end(), "{text}");
            assert_eq!(masked.comments.trim_end(), comments.trim_end(), "{text}");
            assert_eq!(masked.code.chars().count(), text.chars().count(), "{text}");
        }
    }
}
