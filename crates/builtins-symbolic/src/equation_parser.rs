//! Parser of equations in Python notation, with limits of length, depth and exponents.

mod tokenizer;

use tokenizer::{EquationToken, EquationTokenizer};

/// Maximum nesting of calls, parentheses and powers.
const DEPTH: u32 = 60;
/// Largest integer exponent.
const POWER: f64 = 100.0;

/// Name of a function of one argument, as written in answers.
pub(crate) type FunctionName = &'static str;

/// Syntax tree of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EquationNode {
    /// Number: its digits and its value.
    Number(String, f64),
    /// Named constant: `pi`, `E`, `I`.
    Constant(&'static str),
    Symbol(String),
    Negate(Box<Self>),
    Binary(char, Box<Self>, Box<Self>),
    Call(FunctionName, Box<Self>),
}

/// Functions by the name in the input, with their canonical name.
const FUNCTIONS: &[(&str, FunctionName)] = &[
    ("sin", "sin"),
    ("cos", "cos"),
    ("tan", "tan"),
    ("cot", "cot"),
    ("sec", "sec"),
    ("csc", "csc"),
    ("asin", "asin"),
    ("arcsin", "asin"),
    ("acos", "acos"),
    ("arccos", "acos"),
    ("atan", "atan"),
    ("arctan", "atan"),
    ("sinh", "sinh"),
    ("cosh", "cosh"),
    ("tanh", "tanh"),
    ("asinh", "asinh"),
    ("arcsinh", "asinh"),
    ("acosh", "acosh"),
    ("arccosh", "acosh"),
    ("atanh", "atanh"),
    ("arctanh", "atanh"),
    ("exp", "exp"),
    ("log", "log"),
    ("ln", "log"),
    ("sqrt", "sqrt"),
    ("cbrt", "cbrt"),
    ("abs", "Abs"),
    ("Abs", "Abs"),
    ("sign", "sign"),
];

impl EquationNode {
    pub(crate) fn binary(sign: char, left: Self, right: Self) -> Self {
        Self::Binary(sign, Box::new(left), Box::new(right))
    }

    /// Adds every name in the expression to `symbols`, once, in alphabetical order.
    pub(crate) fn collect_symbols(&self, symbols: &mut Vec<String>) {
        match self {
            Self::Symbol(name) => {
                if let Err(at) = symbols.binary_search(name) {
                    symbols.insert(at, name.clone());
                }
            }
            Self::Negate(inner) | Self::Call(_, inner) => inner.collect_symbols(symbols),
            Self::Binary(_, left, right) => {
                left.collect_symbols(symbols);
                right.collect_symbols(symbols);
            }
            Self::Number(..) | Self::Constant(_) => {}
        }
    }

    /// Whether the expression calls any of these functions.
    pub(crate) fn calls_any(&self, functions: &[&str]) -> bool {
        match self {
            Self::Call(name, inner) => functions.contains(name) || inner.calls_any(functions),
            Self::Negate(inner) => inner.calls_any(functions),
            Self::Binary(_, left, right) => left.calls_any(functions) || right.calls_any(functions),
            _ => false,
        }
    }
}

/// Parses up to `max_equations` equations, each converted to an expression that equals zero.
pub(crate) fn parse_equations(
    text: &str,
    max_equations: usize,
) -> Result<Vec<EquationNode>, String> {
    let mut scan = EquationTokenizer::new(text);
    let listed = scan.accept_token(&EquationToken::Operator('[')).is_some();
    let mut found = Vec::new();
    loop {
        if found.len() == max_equations {
            return Err(format!("more than {max_equations} equations"));
        }
        found.push(parse_equation(&mut scan)?);
        let next = [EquationToken::Operator(';'), EquationToken::Operator(',')]
            .iter()
            .any(|it| scan.accept_token(it).is_some());
        let more =
            next && !matches!(scan.peek(), EquationToken::End | EquationToken::Operator(']'));
        if !more {
            break;
        }
    }
    if listed && scan.accept_token(&EquationToken::Operator(']')).is_none() {
        return Err(scan.unexpected_error("`]`"));
    }
    match scan.peek() {
        EquationToken::End => Ok(found),
        EquationToken::Operator('=') => {
            Err(format!("{}: there is one `=` too many", scan.position_text()))
        }
        _ => Err(scan.unexpected_error("a sign of arithmetic, `=` or `;`")),
    }
}

/// Parses a text that is a single expression.
pub(crate) fn parse_expression(text: &str) -> Result<EquationNode, String> {
    let mut scan = EquationTokenizer::new(text);
    let found = parse_sum(&mut scan, 0)?;
    match scan.peek() {
        EquationToken::End => Ok(found),
        _ => Err(scan.unexpected_error("the end")),
    }
}

fn parse_equation(scan: &mut EquationTokenizer<'_>) -> Result<EquationNode, String> {
    if *scan.peek() == EquationToken::Name("Eq".to_owned()) {
        scan.advance_token();
        scan.expect_sign('(')?;
        let left = parse_sum(scan, 0)?;
        scan.expect_sign(',')?;
        let right = parse_sum(scan, 0)?;
        scan.expect_sign(')')?;
        return Ok(EquationNode::binary('-', left, right));
    }
    let left = parse_sum(scan, 0)?;
    if scan.accept_token(&EquationToken::Operator('=')).is_none() {
        return Ok(left);
    }
    let right = parse_sum(scan, 0)?;
    let zero = matches!(&right, EquationNode::Number(_, value) if *value == 0.0);
    Ok(if zero { left } else { EquationNode::binary('-', left, right) })
}

fn parse_sum(scan: &mut EquationTokenizer<'_>, depth: u32) -> Result<EquationNode, String> {
    if depth > DEPTH {
        return Err(format!("{}: it is nested deeper than {DEPTH} levels", scan.position_text()));
    }
    let mut left = parse_product(scan, depth + 1)?;
    while let EquationToken::Operator(sign @ ('+' | '-')) = *scan.peek() {
        scan.advance_token();
        left = EquationNode::binary(sign, left, parse_product(scan, depth + 1)?);
    }
    Ok(left)
}

fn parse_product(scan: &mut EquationTokenizer<'_>, depth: u32) -> Result<EquationNode, String> {
    let mut left = parse_unary(scan, depth)?;
    loop {
        // A number before a name or parenthesis is a factor: `2x`.
        let beside = matches!(left, EquationNode::Number(..))
            && matches!(scan.peek(), EquationToken::Name(_) | EquationToken::Operator('(' | '√'));
        let sign = match *scan.peek() {
            EquationToken::Operator(sign @ ('*' | '/')) => {
                scan.advance_token();
                sign
            }
            _ if beside => '*',
            _ => return Ok(left),
        };
        left = EquationNode::binary(sign, left, parse_unary(scan, depth)?);
    }
}

fn parse_unary(scan: &mut EquationTokenizer<'_>, depth: u32) -> Result<EquationNode, String> {
    if depth > DEPTH {
        return Err(format!("{}: it is nested deeper than {DEPTH} levels", scan.position_text()));
    }
    if scan.accept_token(&EquationToken::Operator('+')).is_some() {
        return parse_unary(scan, depth + 1);
    }
    if scan.accept_token(&EquationToken::Operator('-')).is_some() {
        return Ok(EquationNode::Negate(Box::new(parse_unary(scan, depth + 1)?)));
    }
    let base = parse_atom(scan, depth)?;
    let (place, power) = match scan.peek().clone() {
        EquationToken::Raised(digits, value) => {
            let place = scan.position_text();
            scan.advance_token();
            (place, EquationNode::Number(digits, value))
        }
        EquationToken::Operator('^') => {
            scan.advance_token();
            (scan.position_text(), parse_unary(scan, depth + 1)?)
        }
        _ => return Ok(base),
    };
    let large =
        |node: &EquationNode| matches!(node, EquationNode::Number(_, value) if *value > POWER);
    let inner = if let EquationNode::Negate(inner) = &power { inner } else { &power };
    if large(inner) {
        return Err(format!("{place}: powers above {POWER} are too large"));
    }
    Ok(EquationNode::binary('^', base, power))
}

fn parse_atom(scan: &mut EquationTokenizer<'_>, depth: u32) -> Result<EquationNode, String> {
    match scan.peek().clone() {
        EquationToken::Number(digits, value) => {
            scan.advance_token();
            Ok(EquationNode::Number(digits, value))
        }
        EquationToken::Operator('(') => {
            scan.advance_token();
            let inner = parse_sum(scan, depth + 1)?;
            scan.expect_sign(')')?;
            Ok(inner)
        }
        EquationToken::Name(name) => parse_name_or_call(scan, name, depth),
        EquationToken::Operator('√') => {
            if depth > DEPTH {
                return Err(format!(
                    "{}: it is nested deeper than {DEPTH} \
                    levels",
                    scan.position_text()
                ));
            }
            scan.advance_token();
            let inner = parse_atom(scan, depth + 1)?;
            Ok(EquationNode::Call("sqrt", Box::new(inner)))
        }
        _ => Err(scan.unexpected_error("a number, a name or `(`")),
    }
}

fn parse_name_or_call(
    scan: &mut EquationTokenizer<'_>,
    name: String,
    depth: u32,
) -> Result<EquationNode, String> {
    let place = scan.position_text();
    scan.advance_token();
    if scan.accept_token(&EquationToken::Operator('(')).is_none() {
        return Ok(match name.as_str() {
            "pi" | "Pi" | "PI" | "π" => EquationNode::Constant("pi"),
            "E" | "e" => EquationNode::Constant("E"),
            "I" => EquationNode::Constant("I"),
            "oo" | "inf" | "nan" | "zoo" => {
                return Err(format!("{place}: `{name}` is not a number"));
            }
            _ => EquationNode::Symbol(name),
        });
    }
    let inner = parse_sum(scan, depth + 1)?;
    let second = scan.accept_token(&EquationToken::Operator(',')).is_some();
    let second = if second { Some(parse_sum(scan, depth + 1)?) } else { None };
    scan.expect_sign(')')?;
    build_call(&name, inner, second).ok_or_else(|| {
        let known = FUNCTIONS.iter().any(|(known, _)| *known == name);
        let known = known || matches!(name.as_str(), "log10" | "log2");
        let why = if known { "takes one number" } else { "is not a known function" };
        format!("{place}: `{name}` {why}")
    })
}

fn build_call(
    name: &str,
    inner: EquationNode,
    second: Option<EquationNode>,
) -> Option<EquationNode> {
    let log = |node: EquationNode| EquationNode::Call("log", Box::new(node));
    let to_base = |inner, base| Some(EquationNode::binary('/', log(inner), log(base)));
    let number = |value: u8| EquationNode::Number(value.to_string(), f64::from(value));
    match (name, second) {
        ("log" | "ln", Some(base)) => to_base(inner, base),
        ("log10", None) => to_base(inner, number(10)),
        ("log2", None) => to_base(inner, number(2)),
        ("pow" | "Pow", Some(power)) => Some(EquationNode::binary('^', inner, power)),
        (name, None) => {
            let (_, function) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
            Some(EquationNode::Call(function, Box::new(inner)))
        }
        _ => None,
    }
}
