//! Expressions as people and models write them, evaluated while they are read.
//!
//! Precedence is that of mathjs: `-2^2` is -4, `2^3^2` is 2^9, `%` is the remainder with the
//! divisor's sign. Length and depth are bounded, nothing is stored, and an error names its position.

use std::iter::Peekable;
use std::str::CharIndices;

use super::functions::{self, Fault};
use super::number::Number;

/// The text of an expression.
#[derive(Debug, Clone, Copy)]
pub struct Expression<'a>(pub &'a str);

/// What is wrong with an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at position {position}")]
pub struct ExpressionError {
    /// What.
    pub message: String,
    /// The character, from 1; one past the last where the expression ends too early.
    pub position: usize,
}

/// Characters of an expression.
pub(crate) const MAX_LENGTH: usize = 2_000;
/// Parentheses, signs and powers inside each other.
const MAX_DEPTH: usize = 64;

/// How strongly an operator binds what stands to its right.
const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const SIGN: u8 = 3;
const POWER: u8 = 4;

type Result<T> = std::result::Result<T, ExpressionError>;

impl Expression<'_> {
    /// Its value, which is finite.
    ///
    /// # Errors
    /// [`ExpressionError`] with the position.
    pub fn evaluate(self) -> Result<Number> {
        let length = self.0.chars().count();
        if length > MAX_LENGTH {
            let message =
                format!("the expression has {length} characters, {MAX_LENGTH} are allowed");
            return Err(ExpressionError { message, position: MAX_LENGTH + 1 });
        }
        let mut reader = Reader { text: self.0, rest: self.0.char_indices().peekable(), depth: 0 };
        let value = reader.operand(SUM)?;
        match reader.peek() {
            None => Ok(value),
            Some(found) => Err(reader.here(format!("expected an operator, found `{found}`"))),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    depth: usize,
}

impl Reader<'_> {
    /// One operand and all operators behind it that bind at least as strongly as `strength`.
    fn operand(&mut self, strength: u8) -> Result<Number> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.here(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let mut value = self.first()?;
        while let Some((sign, own)) = self.operator().filter(|(_, own)| *own >= strength) {
            let place = self.position();
            self.rest.next();
            // A power takes what stands to its right first; all others what stands to their left.
            let right = self.operand(if own == POWER { SIGN } else { own + 1 })?;
            let result = match sign {
                '+' => Some(value.add(right)),
                '-' => Some(value.subtract(right)),
                '*' => Some(value.multiply(right)),
                '/' => value.divide(right),
                '%' => value.modulo(right),
                _ if value.is_zero() && right.real() < 0.0 => None,
                _ => Some(value.power(right)),
            };
            value = finite(result.ok_or_else(|| at(place, "division by zero"))?, place)?;
        }
        self.depth -= 1;
        Ok(value)
    }

    fn operator(&mut self) -> Option<(char, u8)> {
        let sign = self.peek()?;
        let strength = match sign {
            '+' | '-' => SUM,
            '*' | '/' | '%' => PRODUCT,
            '^' => POWER,
            _ => return None,
        };
        Some((sign, strength))
    }

    fn first(&mut self) -> Result<Number> {
        match self.peek() {
            Some('(') => {
                self.rest.next();
                let value = self.operand(SUM)?;
                self.expect(')')?;
                Ok(value)
            }
            Some('-') => {
                self.rest.next();
                self.operand(SIGN).map(Number::negate)
            }
            Some('+') => {
                self.rest.next();
                self.operand(SIGN)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.named(),
            Some(found) => Err(self.here(format!("expected a number, found `{found}`"))),
            None => Err(self.here("expected a number, found the end")),
        }
    }

    fn number(&mut self) -> Result<Number> {
        let (start, place) = (self.offset(), self.position());
        self.take(|c| c.is_ascii_digit());
        if self.rest.peek().is_some_and(|(_, c)| *c == '.') {
            self.rest.next();
            self.take(|c| c.is_ascii_digit());
        }
        self.exponent();
        let text = self.text.get(start..self.offset()).unwrap_or_default();
        if let Ok(whole) = text.parse() {
            return Ok(Number::Whole(whole));
        }
        let real = text.parse::<f64>();
        real.map_err(|_| at(place, format!("`{text}` is no number")))
            .and_then(|real| finite(Number::Real(real), place))
    }

    /// `e5`, `E-5`; an `e` with no digits behind it is left for what follows.
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

    fn named(&mut self) -> Result<Number> {
        let (start, place) = (self.offset(), self.position());
        self.take(|c| c.is_alphanumeric() || c == '_');
        let name = self.text.get(start..self.offset()).unwrap_or_default();
        if self.peek() != Some('(') {
            return functions::constant(name).ok_or_else(|| at(place, unknown(name)));
        }
        self.rest.next();
        let args = self.arguments()?;
        let value = functions::call(name, &args).map_err(|fault| match fault {
            Fault::Unknown => at(place, unknown(name)),
            Fault::Arity(words) => {
                at(place, format!("`{name}` takes {words}, found {}", args.len()))
            }
            Fault::Places => at(place, format!("`{name}` takes 0 to 15 places")),
        })?;
        finite(value, place)
    }

    fn arguments(&mut self) -> Result<Vec<Number>> {
        let mut args = Vec::new();
        if self.peek() != Some(')') {
            args.push(self.operand(SUM)?);
            while self.peek() == Some(',') {
                self.rest.next();
                args.push(self.operand(SUM)?);
            }
        }
        self.expect(')')?;
        Ok(args)
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

    fn take(&mut self, belongs: impl Fn(char) -> bool) {
        while self.rest.next_if(|(_, c)| belongs(*c)).is_some() {}
    }

    /// The next character that is no space.
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

fn at(position: usize, message: impl Into<String>) -> ExpressionError {
    ExpressionError { message: message.into(), position }
}

fn unknown(name: &str) -> String {
    let name: String = name.chars().take(32).collect();
    format!("unknown name `{name}`")
}

fn finite(value: Number, position: usize) -> Result<Number> {
    match value.real() {
        real if real.is_nan() => Err(at(position, "the result is no real number")),
        real if real.is_infinite() => Err(at(position, "the result is too large")),
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests;
