//! Indentation of JSON text for reading: only spaces and line ends are added, so that numbers,
//! strings and the order of members stay exactly as they are.

/// Spaces per level.
const INDENT: usize = 2;

/// Returns valid JSON text with one member or element per line.
pub(crate) fn indent_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let (mut level, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            out.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                out.push(character);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    level += 1;
                    push_line_end(&mut out, level);
                }
            }
            '}' | ']' => {
                level = level.saturating_sub(1);
                push_line_end(&mut out, level);
                out.push(character);
            }
            ',' => {
                out.push(character);
                push_line_end(&mut out, level);
            }
            ':' => out.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => {
                in_string = other == '"';
                out.push(other);
            }
        }
    }
    out
}

fn push_line_end(out: &mut String, level: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', level * INDENT));
}

#[cfg(test)]
mod tests {
    use super::indent_json;

    #[test]
    fn nothing_but_spaces_and_line_ends_is_added() {
        let text = r#"{"b":[1.0,-0,1e400,12345678901234567890123],"a":{},"c":[ ],"d":"x:{,\"\\"}"#;
        let expected = "{\n  \"b\": [\n    1.0,\n    -0,\n    1e400,\n    \
                        12345678901234567890123\n  ],\n  \"a\": {},\n  \"c\": [],\n  \
                        \"d\": \"x:{,\\\"\\\\\"\n}";
        assert_eq!(indent_json(text), expected);
        for scalar in ["1", "\"a b\"", "null", "[]", "{}"] {
            assert_eq!(indent_json(scalar), scalar);
        }
        assert_eq!(indent_json(" { \"a\" : [ 1 , 2 ] } "), indent_json("{\"a\":[1,2]}"));
    }
}
