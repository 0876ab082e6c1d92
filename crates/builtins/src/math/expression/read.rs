//! The expression parser: compiles text to stack instructions.

use std::iter::Peekable;
use std::str::CharIndices;

use super::program::{Kind, Program, Sign, Step};
use super::{ExpressionError, at, finite};
use crate::math::functions::{self, Function};
use crate::math::number::Number;

/// Largest nesting of parentheses, signs and powers.
const MAX_DEPTH: usize = 64;

/// Binding power of operators.
const COMPARISON: u8 = 1;
const SUM: u8 = 2;
const PRODUCT: u8 = 3;
const SIGN: u8 = 4;
const POWER: u8 = 5;

/// Module prefixes that are accepted before a name.
const MODULES: &[&str] = &["np", "numpy", "math"];

type Result<T> = std::result::Result<T, ExpressionError>;

pub(super) fn read(text: &str, variable: &dyn Fn(&str) -> Option<usize>) -> Result<Program> {
    let rest = text.char_indices().peekable();
    let mut reader = Reader { text, rest, depth: 0, steps: Vec::new(), variable };
    reader.operand(COMPARISON)?;
    match reader.peek() {
        None => Ok(Program::new(reader.steps)),
        Some(found) => Err(reader.here(format!("expected an operator, found `{found}`"))),
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    depth: usize,
    steps: Vec<Step>,
    variable: &'a dyn Fn(&str) -> Option<usize>,
}

impl Reader<'_> {
    /// Parses one operand and the operators after it whose binding power is at least `strength`.
    fn operand(&mut self, strength: u8) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.here(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.first()?;
        let mut compared = false;
        while let Some((sign, own, length)) = self.operator().filter(|found| found.1 >= strength) {
            let place = self.position();
            if own == COMPARISON && std::mem::replace(&mut compared, true) {
                return Err(self.here("comparisons cannot be chained; multiply them instead"));
            }
            for _ in 0..length {
                self.rest.next();
            }
            // Powers are right-associative, all others left-associative.
            self.operand(if own == POWER { SIGN } else { own + 1 })?;
            self.step(Kind::Binary(sign), place);
        }
        self.depth -= 1;
        Ok(())
    }

    /// Returns the next operator, its binding power and its length in characters.
    fn operator(&mut self) -> Option<(Sign, u8, usize)> {
        let first = self.peek()?;
        let mut ahead = self.rest.clone();
        ahead.next();
        let second = ahead.next().map(|(_, c)| c);
        Some(match (first, second) {
            ('*', Some('*')) => (Sign::Power, POWER, 2),
            ('<', Some('=')) => (Sign::LessOrEqual, COMPARISON, 2),
            ('>', Some('=')) => (Sign::MoreOrEqual, COMPARISON, 2),
            ('=', Some('=')) => (Sign::Equal, COMPARISON, 2),
            ('!', Some('=')) => (Sign::Unequal, COMPARISON, 2),
            ('<', _) => (Sign::Less, COMPARISON, 1),
            ('>', _) => (Sign::More, COMPARISON, 1),
            ('+', _) => (Sign::Plus, SUM, 1),
            ('-', _) => (Sign::Minus, SUM, 1),
            ('*', _) => (Sign::Times, PRODUCT, 1),
            ('/', _) => (Sign::Over, PRODUCT, 1),
            ('%', _) => (Sign::Modulo, PRODUCT, 1),
            ('^', _) => (Sign::Power, POWER, 1),
            _ => return None,
        })
    }

    fn first(&mut self) -> Result<()> {
        match self.peek() {
            Some('(') => {
                self.rest.next();
                self.operand(COMPARISON)?;
                self.expect(')')
            }
            Some('-') => {
                let place = self.position();
                self.rest.next();
                self.operand(SIGN)?;
                self.step(Kind::Negate, place);
                Ok(())
            }
            Some('+') => {
                self.rest.next();
                self.operand(SIGN)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.named(),
            Some('/') => Err(self.here("`//` is not known here; write floor(a / b)")),
            Some(found) => Err(self.here(format!("expected a number, found `{found}`"))),
            None => Err(self.here("expected a number, found the end")),
        }
    }

    fn number(&mut self) -> Result<()> {
        let (start, place) = (self.offset(), self.position());
        self.take(|c| c.is_ascii_digit());
        if self.rest.peek().is_some_and(|(_, c)| *c == '.') {
            self.rest.next();
            self.take(|c| c.is_ascii_digit());
        }
        self.exponent();
        let text = self.text.get(start..self.offset()).unwrap_or_default();
        let value = if let Ok(whole) = text.parse() {
            Number::Whole(whole)
        } else {
            let real = text.parse::<f64>();
            let real = real.map_err(|_| at(place, format!("`{text}` is no number")))?;
            finite(Number::Real(real), place)?
        };
        self.step(Kind::Value(value), place);
        Ok(())
    }

    /// Skips an exponent such as `e5` or `E-5`; an `e` without digits is not consumed.
    fn exponent(&mut self) {
        let mut ahead = self.rest.clone();
        let mut next = || ahead.next().map(|(_, c)| c);
        if !matches!(next(), Some('e' | 'E')) {
            return;
        }
        let (first, second) = (next(), next());
        let sign = matches!(first, Some('+' | '-'));
        if (if sign { second } else { first }).is_some_and(|c| c.is_ascii_digit()) {
            self.rest.next();
            self.rest.next();
            self.take(|c| c.is_ascii_digit());
        }
    }

    fn named(&mut self) -> Result<()> {
        let mut place = self.position();
        let mut name = self.word();
        if MODULES.contains(&name.as_str()) && self.rest.next_if(|(_, c)| *c == '.').is_some() {
            place = self.position();
            name = self.word();
        }
        match self.peek() {
            Some('(') => return self.called(&name, place),
            Some('[') => name.push_str(&self.element()?),
            _ => {}
        }
        let variable = (self.variable)(&name).map(Kind::Variable);
        let kind = variable.or_else(|| functions::constant(&name).map(Kind::Value));
        self.step(kind.ok_or_else(|| at(place, unknown(&name)))?, place);
        Ok(())
    }

    /// Parses an index: `[0]` becomes `0`.
    fn element(&mut self) -> Result<String> {
        self.rest.next();
        self.peek();
        let start = self.offset();
        self.take(|c| c.is_ascii_digit());
        let digits = self.text.get(start..self.offset()).unwrap_or_default().to_owned();
        if digits.is_empty() {
            return Err(self.here("expected the number of an element, such as `[0]`"));
        }
        self.expect(']')?;
        Ok(digits)
    }

    fn word(&mut self) -> String {
        let start = self.offset();
        self.take(|c| c.is_alphanumeric() || c == '_');
        self.text.get(start..self.offset()).unwrap_or_default().to_owned()
    }

    fn called(&mut self, name: &str, place: usize) -> Result<()> {
        let function = Function::named(name).ok_or_else(|| at(place, unknown(name)))?;
        self.rest.next();
        let count = if self.peek() == Some(')') { 0 } else { self.arguments()? };
        self.expect(')')?;
        if let Err(words) = function.takes(count) {
            return Err(at(place, format!("`{name}` takes {words}, found {count}")));
        }
        self.step(Kind::Call(function, count), place);
        Ok(())
    }

    /// Parses arguments and returns their number; a list in brackets stands for its elements.
    fn arguments(&mut self) -> Result<usize> {
        let mut count = 0;
        let listed = self.peek() == Some('[');
        if listed {
            self.rest.next();
        }
        loop {
            self.operand(COMPARISON)?;
            count += 1;
            if self.peek() != Some(',') {
                break;
            }
            self.rest.next();
        }
        if listed {
            self.expect(']')?;
        }
        Ok(count)
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        match self.peek() {
            Some(found) if found == wanted => {
                self.rest.next();
                Ok(())
            }
            Some(found) => Err(self.here(format!("expected `{wanted}`, found `{found}`"))),
            None => Err(self.here(format!("expected `{wanted}`, found the end"))),
        }
    }

    fn step(&mut self, kind: Kind, place: usize) {
        self.steps.push(Step { kind, place });
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) {
        while self.rest.next_if(|(_, c)| belongs(*c)).is_some() {}
    }

    /// Skips white space and returns the next character.
    fn peek(&mut self) -> Option<char> {
        self.take(char::is_whitespace);
        self.rest.peek().map(|(_, c)| *c)
    }

    fn offset(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(offset, _)| *offset)
    }

    fn position(&mut self) -> usize {
        let offset = self.offset();
        self.text.get(..offset).map_or(1, |before| before.chars().count() + 1)
    }

    fn here(&mut self, message: impl Into<String>) -> ExpressionError {
        at(self.position(), message)
    }
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(32).collect();
    match tool::nearest_name(name, functions::NAMES.iter().copied()) {
        Some(near) if name.chars().count() > 1 => {
            format!("unknown name `{shown}`; did you mean `{near}`?")
        }
        _ => format!("unknown name `{shown}`"),
    }
}
