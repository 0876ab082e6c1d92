//! Rendering of CAS expressions in Python notation.

use crate::lower::Names;

/// The expression as text, with the names that the caller gave. `whole` is what the algebra's own whole
/// number, if it made one, is to be called.
pub(crate) fn text(written: &str, names: &Names, whole: &str) -> String {
    let mut shown = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if first.is_alphabetic() || first == '_' {
            let (name, behind) = rest.split_at(word);
            shown.push_str(renamed(name, names, whole));
            rest = behind;
            continue;
        }
        if first == '^' {
            shown.push_str("**");
        } else {
            shown.push(first);
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    shown
}

fn renamed<'a>(name: &'a str, names: &'a Names, whole: &'a str) -> &'a str {
    let number = name.strip_prefix('v').and_then(|digits| digits.parse::<usize>().ok());
    if let Some((own, _)) = number.and_then(|at| names.all.get(at)) {
        return own;
    }
    match name {
        "n" => whole,
        "ln" => "log",
        "abs" => "Abs",
        "W" => "LambertW",
        name => name,
    }
}

/// What the whole number is called: a letter that the caller does not use.
pub(crate) fn whole(names: &Names) -> &'static str {
    let free = |letter: &&str| names.get(letter).is_none();
    ["n", "k", "m", "n1", "k1"].into_iter().find(free).unwrap_or("n_")
}
