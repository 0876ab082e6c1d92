//! The known name that is nearest to an unknown one.

/// The nearest of `known`, where it is near enough to be meant.
pub fn nearest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A name longer than any that is known needs no distance.
    let short = name.len() <= 64;
    // Of those that are equally near, one that begins alike.
    let distance = |known: &'a str| {
        let begins_otherwise = known.chars().next() != name.chars().next();
        (strsim::damerau_levenshtein(name, known), begins_otherwise, known)
    };
    let (edits, _, nearest) = known.into_iter().filter(|_| short).map(distance).min()?;
    let allowed = (name.chars().count().max(nearest.len()) / 3).max(1);
    (edits <= allowed).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::nearest_name;

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
            assert_eq!(nearest_name(name, known), found, "{name}");
        }
        assert_eq!(nearest_name(&"é".repeat(100_000), known), None);
    }
}
