//! Finds the known name that is most similar to an unknown one, for suggestions.

/// Maximum number of characters that are compared; longer words match no known name.
const MAX_COMPARED_CHARS: usize = 64;

/// Returns the most similar of `known`, if it is similar enough to be a suggestion.
pub fn find_nearest_name<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let plain = simplify_word(name);
    // Among equal distances, prefers a name with the same first letter.
    let distance = |known: &'a str| {
        let other = simplify_word(known);
        let begins_otherwise = other.chars().next() != plain.chars().next();
        let longest = plain.chars().count().max(other.chars().count());
        (strsim::damerau_levenshtein(&plain, &other), begins_otherwise, known, longest)
    };
    let (edits, _, nearest, longest) = known.into_iter().map(distance).min()?;
    (edits <= (longest / 3).max(1)).then_some(nearest)
}

/// Normalises a word, so that `mcpServers`, `mcp-servers` and `mcp_servers` are equal.
fn simplify_word(word: &str) -> String {
    let letters =
        word.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ')).take(MAX_COMPARED_CHARS);
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::find_nearest_name;

    #[test]
    fn a_slip_finds_its_name_and_another_word_none() {
        let known = ["median", "mean", "sqrt", "factorial"];
        for (name, found) in [
            ("medain", Some("median")),
            ("factoral", Some("factorial")),
            ("sqr", Some("sqrt")),
            ("integrate", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(find_nearest_name(name, known), found, "{name}");
        }
        assert_eq!(find_nearest_name(&"é".repeat(100_000), known), None);
    }

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["name", "tools", "module", "mcp", "mcp_servers", "trust", "timeout"];
        for (word, found) in [
            ("nmae", Some("name")),
            ("Name", Some("name")),
            ("mcpServers", Some("mcp_servers")),
            ("modul", Some("module")),
            ("turst", Some("trust")),
            ("time_out", Some("timeout")),
            ("", None),
            ("description", None),
            ("xyzzy", None),
        ] {
            assert_eq!(find_nearest_name(word, known), found, "{word}");
        }
        assert_eq!(find_nearest_name("name", []), None);
    }
}
