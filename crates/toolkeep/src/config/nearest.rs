//! The known word that is nearest to an unknown one.

/// The nearest of `known`, where it is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = simplify(word);
    let best = known.iter().map(|known| (distance(&plain, &simplify(known)), *known)).min()?;
    let near = best.0 <= (plain.len().max(best.1.len()) / 3).max(1);
    near.then_some(best.1)
}

/// `mcpServers`, `mcp-servers` and `mcp_servers` are one word.
fn simplify(word: &str) -> Vec<char> {
    // A word longer than any that is known needs no exact distance.
    let letters = word.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ')).take(64);
    letters.flat_map(char::to_lowercase).collect()
}

/// Insertions, removals, exchanges and swaps of neighbours (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at =
                |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
            let mut cost =
                (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                cost = cost.min(at(&before, j - 1) + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::nearest;

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
            assert_eq!(nearest(word, &known), found, "{word}");
        }
        assert_eq!(nearest("name", &[]), None);
        assert_eq!(nearest(&"é".repeat(100_000), &known), None);
    }
}
