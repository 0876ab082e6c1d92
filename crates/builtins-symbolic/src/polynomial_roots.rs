//! Roots of polynomials that have no closed form: `RootOf(polynomial, index)`.
//!
//! The CAS numbers the roots of a polynomial by their real parts. sympy, whose notation the answers
//! use, numbers the real ones first, then the others by real and imaginary part.

use std::fmt::Write as _;

use symplex::prelude::{Complex64, Ex};

use crate::cas_lowering::SymbolTable;

const NAME: &str = "RootOf(";

/// Replaces the index of each root by sympy's index.
pub(crate) fn renumber_roots(expression: &str, symbols: &SymbolTable) -> String {
    let (mut out, mut rest) = (String::with_capacity(expression.len()), expression);
    while let Some(at) = rest.find(NAME) {
        let (before, found) = rest.split_at(at);
        let Some((polynomial, index, behind)) = split_root(found) else { break };
        let place = sympy_index(polynomial, index, symbols).unwrap_or(index);
        out.push_str(before);
        let _written = write!(out, "{NAME}{polynomial}, {place})");
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Splits a root into polynomial, index and the text after the parenthesis.
fn split_root(text: &str) -> Option<(&str, usize, &str)> {
    let inside = text.strip_prefix(NAME)?;
    let mut depth = 0_u32;
    let (mut comma, mut end) = (None, None);
    for (at, letter) in inside.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => {
                end = Some(at);
                break;
            }
            ')' => depth -= 1,
            ',' if depth == 0 => comma = Some(at),
            _ => {}
        }
    }
    let (comma, end) = (comma?, end?);
    let index = inside.get(comma + 1..end)?.trim().parse().ok()?;
    Some((inside.get(..comma)?, index, inside.get(end + 1..)?))
}

/// Returns sympy's index of the root that has `index` in the CAS.
fn sympy_index(polynomial: &str, index: usize, names: &SymbolTable) -> Option<usize> {
    let polynomial = names.cas.parse(polynomial).ok()?;
    let symbols = polynomial.free_symbols();
    let [variable] = symbols.as_slice() else { return None };
    // An assumption on the variable would remove roots.
    let free = names.cas.try_symbol("free").ok()?;
    let roots = polynomial.subs(variable, &free).solve(&free).ok()?;
    let mut numbered = Vec::new();
    for root in roots {
        let text = root.to_string();
        let (_, own, behind) = split_root(&text)?;
        if !behind.is_empty() {
            return None;
        }
        numbered.push((own, root.eval_complex64().ok()?));
    }
    // Conjugate roots have the same real part except for the last digits.
    let largest = numbered.iter().map(|(_, at)| at.norm()).fold(0.0, f64::max);
    let step = (largest * 1e-10).max(f64::MIN_POSITIVE);
    let key = |at: &Complex64| {
        let real = is_real(at);
        (!real, if real { at.re } else { (at.re / step).round() * step })
    };
    numbered.sort_by(|(_, a), (_, b)| {
        let ((first, x), (second, y)) = (key(a), key(b));
        first.cmp(&second).then(x.total_cmp(&y)).then(a.im.total_cmp(&b.im))
    });
    numbered.iter().position(|(own, _)| *own == index)
}

fn is_real(number: &Complex64) -> bool {
    number.im.abs() <= 1e-12 * number.norm()
}

/// Returns a constant value in Python notation; `None` if it depends on a symbol.
pub(crate) fn numeric_text(value: &Ex) -> Option<String> {
    if !value.free_symbols().is_empty() {
        return None;
    }
    let number = value.eval_complex64().ok().filter(|number| number.norm().is_finite())?;
    if is_real(&number) {
        return Some(number.re.to_string());
    }
    let sign = if number.im < 0.0 { '-' } else { '+' };
    Some(format!("{} {sign} {}*I", number.re, number.im.abs()))
}
