//! Formats untrusted text for display: one line, no control characters, bounded length.

/// Returns `text` with control and invisible characters escaped, truncated to `max_chars`
/// characters.
pub fn escape_and_truncate(text: &str, max_chars: usize) -> String {
    let mut out = String::new();
    let mut left = max_chars;
    for character in text.trim().chars() {
        if left == 0 {
            out.push('…');
            break;
        }
        left -= 1;
        if is_printable(character) {
            out.push(character);
        } else {
            out.extend(character.escape_unicode());
        }
    }
    out
}

/// Returns at most `max_chars` characters of `text`, each as [`char::escape_debug`] writes it.
/// Quotes and backslashes are escaped too, and no mark shows that text is missing.
pub fn truncate_and_escape_debug(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).flat_map(char::escape_debug).collect()
}

/// Returns true for characters that can be displayed. Direction and joining marks hide content, and
/// `escape_debug` leaves some of them in place.
pub fn is_printable(character: char) -> bool {
    let hidden = matches!(character,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    !character.is_control() && !hidden
}

/// Returns the first line and the last `max_lines` lines of a child's output, escaped and joined by
/// ` | `. `…` stands for omitted lines.
pub fn first_and_last_lines(text: &str, max_lines: usize, width: usize) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(max_lines);
    let first = lines.first().filter(|_| from > 0).map(|line| escape_and_truncate(line, width));
    let between = (from > 1).then(|| "…".to_owned());
    let last = lines.iter().skip(from).map(|line| escape_and_truncate(line, width));
    first.into_iter().chain(between).chain(last).collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::{escape_and_truncate, first_and_last_lines, truncate_and_escape_debug};

    #[test]
    fn what_could_deceive_is_escaped_and_length_is_bounded() {
        assert_eq!(
            escape_and_truncate("a\u{1b}[2J\u{202e}b\u{200b}é", 99),
            "a\\u{1b}[2J\\u{202e}b\\u{200b}é"
        );
        assert_eq!(escape_and_truncate("abcdef", 3), "abc…");
        assert_eq!(escape_and_truncate("  a\nb ", 9), "a\\u{a}b");
    }

    #[test]
    fn a_quote_of_client_input_counts_characters_before_it_escapes_them() {
        assert_eq!(truncate_and_escape_debug(" a\n\"é\u{301}b", 6), " a\\n\\\"é\\u{301}");
        assert_eq!(truncate_and_escape_debug("abc", 9), "abc");
    }

    #[test]
    fn the_first_line_and_the_last_stand_on_one() {
        assert_eq!(first_and_last_lines("one\n\ntwo\r\nthree\n", 2, 9), "one | two | three");
        assert_eq!(first_and_last_lines("one\n\ntwo\r\nthree\n", 1, 9), "one | … | three");
        assert_eq!(first_and_last_lines("one\ntwo\n", 2, 9), "one | two");
        assert_eq!(first_and_last_lines("", 2, 9), "");
    }
}
