//! Rendering of CAS expressions in Python notation.

use crate::cas_lowering::SymbolTable;

/// Renders an expression with the caller's names. `integer_name` names the integer that the CAS may
/// have introduced.
pub(crate) fn to_python(expression: &str, symbols: &SymbolTable, integer_name: &str) -> String {
    let mut shown = String::with_capacity(expression.len());
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if first.is_alphabetic() || first == '_' {
            let (name, behind) = rest.split_at(word);
            shown.push_str(python_name(name, symbols, integer_name));
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

fn python_name<'a>(name: &'a str, names: &'a SymbolTable, whole: &'a str) -> &'a str {
    let number = name.strip_prefix('v').and_then(|digits| digits.parse::<usize>().ok());
    if let Some((own, _)) = number.and_then(|at| names.symbols.get(at)) {
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

/// Chooses the name of the integer: a letter that the caller does not use.
pub(crate) fn integer_symbol(symbols: &SymbolTable) -> &'static str {
    let free = |letter: &&str| symbols.find_symbol(letter).is_none();
    ["n", "k", "m", "n1", "k1"].into_iter().find(free).unwrap_or("n_")
}
