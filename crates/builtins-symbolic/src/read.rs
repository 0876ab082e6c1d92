//! The parser for equations in Python notation, bounded in length, depth and exponents.

mod scan;

use scan::{Scan, Token};

/// Calls, parentheses and powers inside of each other.
const DEPTH: u32 = 60;
/// The largest whole number as a power.
const POWER: f64 = 100.0;

/// A function of one number, by the name that it is written with in answers.
pub(crate) type Function = &'static str;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// Its digits, and what they come to.
    Number(String, f64),
    /// A number by its letter: `pi`, `E`, `I`.
    Constant(&'static str),
    Name(String),
    Negative(Box<Self>),
    Binary(char, Box<Self>, Box<Self>),
    Call(Function, Box<Self>),
}

/// What functions may be called, and what they are here.
const FUNCTIONS: &[(&str, Function)] = &[
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

impl Node {
    pub(crate) fn binary(sign: char, left: Self, right: Self) -> Self {
        Self::Binary(sign, Box::new(left), Box::new(right))
    }

    /// Every name in it, once, in the order of the alphabet.
    pub(crate) fn names(&self, into: &mut Vec<String>) {
        match self {
            Self::Name(name) => {
                if let Err(at) = into.binary_search(name) {
                    into.insert(at, name.clone());
                }
            }
            Self::Negative(inner) | Self::Call(_, inner) => inner.names(into),
            Self::Binary(_, left, right) => {
                left.names(into);
                right.names(into);
            }
            Self::Number(..) | Self::Constant(_) => {}
        }
    }

    /// Whether it calls any of these.
    pub(crate) fn calls(&self, functions: &[&str]) -> bool {
        match self {
            Self::Call(name, inner) => functions.contains(name) || inner.calls(functions),
            Self::Negative(inner) => inner.calls(functions),
            Self::Binary(_, left, right) => left.calls(functions) || right.calls(functions),
            _ => false,
        }
    }
}

/// The equations of a text, each as what is to be 0. `most` of them.
pub(crate) fn equations(text: &str, most: usize) -> Result<Vec<Node>, String> {
    let mut scan = Scan::new(text);
    let listed = scan.take(&Token::Sign('[')).is_some();
    let mut found = Vec::new();
    loop {
        if found.len() == most {
            return Err(format!("there are more than {most} equations"));
        }
        found.push(equation(&mut scan)?);
        let next = [Token::Sign(';'), Token::Sign(',')].iter().any(|it| scan.take(it).is_some());
        let more = next && !matches!(scan.peek(), Token::End | Token::Sign(']'));
        if !more {
            break;
        }
    }
    if listed && scan.take(&Token::Sign(']')).is_none() {
        return Err(scan.expected("`]`"));
    }
    match scan.peek() {
        Token::End => Ok(found),
        Token::Sign('=') => Err(format!("{}: there is one `=` too many", scan.place())),
        _ => Err(scan.expected("a sign of arithmetic, `=` or `;`")),
    }
}

/// One expression, alone.
pub(crate) fn expression(text: &str) -> Result<Node, String> {
    let mut scan = Scan::new(text);
    let found = sum(&mut scan, 0)?;
    match scan.peek() {
        Token::End => Ok(found),
        _ => Err(scan.expected("the end")),
    }
}

fn equation(scan: &mut Scan<'_>) -> Result<Node, String> {
    if *scan.peek() == Token::Name("Eq".to_owned()) {
        scan.next();
        scan.wanted('(')?;
        let left = sum(scan, 0)?;
        scan.wanted(',')?;
        let right = sum(scan, 0)?;
        scan.wanted(')')?;
        return Ok(Node::binary('-', left, right));
    }
    let left = sum(scan, 0)?;
    if scan.take(&Token::Sign('=')).is_none() {
        return Ok(left);
    }
    let right = sum(scan, 0)?;
    let zero = matches!(&right, Node::Number(_, value) if *value == 0.0);
    Ok(if zero { left } else { Node::binary('-', left, right) })
}

fn sum(scan: &mut Scan<'_>, depth: u32) -> Result<Node, String> {
    if depth > DEPTH {
        return Err(format!("{}: it nests deeper than {DEPTH}", scan.place()));
    }
    let mut left = product(scan, depth + 1)?;
    while let Token::Sign(sign @ ('+' | '-')) = *scan.peek() {
        scan.next();
        left = Node::binary(sign, left, product(scan, depth + 1)?);
    }
    Ok(left)
}

fn product(scan: &mut Scan<'_>, depth: u32) -> Result<Node, String> {
    let mut left = signed(scan, depth)?;
    loop {
        // A number before a name or a parenthesis is a factor: `2x`.
        let beside = matches!(left, Node::Number(..))
            && matches!(scan.peek(), Token::Name(_) | Token::Sign('(' | '√'));
        let sign = match *scan.peek() {
            Token::Sign(sign @ ('*' | '/')) => {
                scan.next();
                sign
            }
            _ if beside => '*',
            _ => return Ok(left),
        };
        left = Node::binary(sign, left, signed(scan, depth)?);
    }
}

fn signed(scan: &mut Scan<'_>, depth: u32) -> Result<Node, String> {
    if depth > DEPTH {
        return Err(format!("{}: it nests deeper than {DEPTH}", scan.place()));
    }
    if scan.take(&Token::Sign('+')).is_some() {
        return signed(scan, depth + 1);
    }
    if scan.take(&Token::Sign('-')).is_some() {
        return Ok(Node::Negative(Box::new(signed(scan, depth + 1)?)));
    }
    let base = atom(scan, depth)?;
    let (place, power) = match scan.peek().clone() {
        Token::Raised(digits, value) => {
            let place = scan.place();
            scan.next();
            (place, Node::Number(digits, value))
        }
        Token::Sign('^') => {
            scan.next();
            (scan.place(), signed(scan, depth + 1)?)
        }
        _ => return Ok(base),
    };
    let large = |node: &Node| matches!(node, Node::Number(_, value) if *value > POWER);
    let inner = if let Node::Negative(inner) = &power { inner } else { &power };
    if large(inner) {
        return Err(format!("{place}: powers above {POWER} are too large"));
    }
    Ok(Node::binary('^', base, power))
}

fn atom(scan: &mut Scan<'_>, depth: u32) -> Result<Node, String> {
    match scan.peek().clone() {
        Token::Number(digits, value) => {
            scan.next();
            Ok(Node::Number(digits, value))
        }
        Token::Sign('(') => {
            scan.next();
            let inner = sum(scan, depth + 1)?;
            scan.wanted(')')?;
            Ok(inner)
        }
        Token::Name(name) => named(scan, name, depth),
        Token::Sign('√') => {
            if depth > DEPTH {
                return Err(format!("{}: it nests deeper than {DEPTH}", scan.place()));
            }
            scan.next();
            let inner = atom(scan, depth + 1)?;
            Ok(Node::Call("sqrt", Box::new(inner)))
        }
        _ => Err(scan.expected("a number, a name or `(`")),
    }
}

fn named(scan: &mut Scan<'_>, name: String, depth: u32) -> Result<Node, String> {
    let place = scan.place();
    scan.next();
    if scan.take(&Token::Sign('(')).is_none() {
        return Ok(match name.as_str() {
            "pi" | "Pi" | "PI" | "π" => Node::Constant("pi"),
            "E" | "e" => Node::Constant("E"),
            "I" => Node::Constant("I"),
            "oo" | "inf" | "nan" | "zoo" => {
                return Err(format!("{place}: `{name}` is no number to compute with"));
            }
            _ => Node::Name(name),
        });
    }
    let inner = sum(scan, depth + 1)?;
    let second = scan.take(&Token::Sign(',')).is_some();
    let second = if second { Some(sum(scan, depth + 1)?) } else { None };
    scan.wanted(')')?;
    call(&name, inner, second).ok_or_else(|| {
        let known = FUNCTIONS.iter().any(|(known, _)| *known == name);
        let known = known || matches!(name.as_str(), "log10" | "log2");
        let why = if known { "takes one number" } else { "is no function known here" };
        format!("{place}: `{name}` {why}")
    })
}

fn call(name: &str, inner: Node, second: Option<Node>) -> Option<Node> {
    let log = |node: Node| Node::Call("log", Box::new(node));
    let to_base = |inner, base| Some(Node::binary('/', log(inner), log(base)));
    let number = |value: u8| Node::Number(value.to_string(), f64::from(value));
    match (name, second) {
        ("log" | "ln", Some(base)) => to_base(inner, base),
        ("log10", None) => to_base(inner, number(10)),
        ("log2", None) => to_base(inner, number(2)),
        ("pow" | "Pow", Some(power)) => Some(Node::binary('^', inner, power)),
        (name, None) => {
            let (_, function) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
            Some(Node::Call(function, Box::new(inner)))
        }
        _ => None,
    }
}
