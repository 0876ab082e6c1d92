//! The expression parser: compiles text to stack instructions.

use std::iter::Peekable;
use std::str::CharIndices;

use super::compiled_expression::{
    BinaryOperator, CompiledExpression, InstructionKind, StackInstruction,
};
use super::{ExpressionError, error_at, require_finite};
use crate::math::exact_number::ExactNumber;
use crate::math::function_table::{self, ExpressionFunction};

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

pub(super) fn parse_expression(
    text: &str,
    variable: &dyn Fn(&str) -> Option<usize>,
) -> Result<CompiledExpression> {
    let rest = text.char_indices().peekable();
    let mut reader = ExpressionParser { text, rest, depth: 0, instructions: Vec::new(), variable };
    reader.parse_operand(COMPARISON)?;
    match reader.peek() {
        None => Ok(CompiledExpression::new(reader.instructions)),
        Some(found) => Err(reader.error_here(format!("expected an operator, found `{found}`"))),
    }
}

struct ExpressionParser<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    depth: usize,
    instructions: Vec<StackInstruction>,
    variable: &'a dyn Fn(&str) -> Option<usize>,
}

impl ExpressionParser<'_> {
    /// Parses one operand and the operators after it whose binding power is at least `strength`.
    fn parse_operand(&mut self, strength: u8) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error_here(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.parse_primary()?;
        let mut compared = false;
        while let Some((sign, own, length)) =
            self.peek_operator().filter(|found| found.1 >= strength)
        {
            let place = self.position();
            if own == COMPARISON && std::mem::replace(&mut compared, true) {
                return Err(self.error_here("comparisons cannot be chained; multiply them instead"));
            }
            for _ in 0..length {
                self.rest.next();
            }
            // Powers are right-associative, all others left-associative.
            self.parse_operand(if own == POWER { SIGN } else { own + 1 })?;
            self.push_instruction(InstructionKind::Binary(sign), place);
        }
        self.depth -= 1;
        Ok(())
    }

    /// Returns the next operator, its binding power and its length in characters.
    fn peek_operator(&mut self) -> Option<(BinaryOperator, u8, usize)> {
        let first = self.peek()?;
        let mut ahead = self.rest.clone();
        ahead.next();
        let second = ahead.next().map(|(_, c)| c);
        Some(match (first, second) {
            ('*', Some('*')) => (BinaryOperator::Power, POWER, 2),
            ('<', Some('=')) => (BinaryOperator::LessOrEqual, COMPARISON, 2),
            ('>', Some('=')) => (BinaryOperator::GreaterOrEqual, COMPARISON, 2),
            ('=', Some('=')) => (BinaryOperator::Equal, COMPARISON, 2),
            ('!', Some('=')) => (BinaryOperator::Unequal, COMPARISON, 2),
            ('<', _) => (BinaryOperator::Less, COMPARISON, 1),
            ('>', _) => (BinaryOperator::Greater, COMPARISON, 1),
            ('+', _) => (BinaryOperator::Plus, SUM, 1),
            ('-', _) => (BinaryOperator::Minus, SUM, 1),
            ('*', _) => (BinaryOperator::Multiply, PRODUCT, 1),
            ('/', _) => (BinaryOperator::Divide, PRODUCT, 1),
            ('%', _) => (BinaryOperator::Modulo, PRODUCT, 1),
            ('^', _) => (BinaryOperator::Power, POWER, 1),
            _ => return None,
        })
    }

    fn parse_primary(&mut self) -> Result<()> {
        match self.peek() {
            Some('(') => {
                self.rest.next();
                self.parse_operand(COMPARISON)?;
                self.expect_char(')')
            }
            Some('-') => {
                let place = self.position();
                self.rest.next();
                self.parse_operand(SIGN)?;
                self.push_instruction(InstructionKind::Negate, place);
                Ok(())
            }
            Some('+') => {
                self.rest.next();
                self.parse_operand(SIGN)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.parse_number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.parse_name(),
            Some('/') => Err(self.error_here("`//` is not supported; write floor(a / b)")),
            Some(found) => Err(self.error_here(format!("expected a number, found `{found}`"))),
            None => Err(self.error_here("expected a number, found the end")),
        }
    }

    fn parse_number(&mut self) -> Result<()> {
        let (start, place) = (self.offset(), self.position());
        self.take_while(|c| c.is_ascii_digit());
        if self.rest.peek().is_some_and(|(_, c)| *c == '.') {
            self.rest.next();
            self.take_while(|c| c.is_ascii_digit());
        }
        self.skip_exponent();
        let text = self.text.get(start..self.offset()).unwrap_or_default();
        let value = if let Ok(whole) = text.parse() {
            ExactNumber::Integer(whole)
        } else {
            let real = text.parse::<f64>();
            let real = real.map_err(|_| error_at(place, format!("`{text}` is not a number")))?;
            require_finite(ExactNumber::Float(real), place)?
        };
        self.push_instruction(InstructionKind::Value(value), place);
        Ok(())
    }

    /// Skips an exponent such as `e5` or `E-5`; an `e` without digits is not consumed.
    fn skip_exponent(&mut self) {
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
            self.take_while(|c| c.is_ascii_digit());
        }
    }

    fn parse_name(&mut self) -> Result<()> {
        let mut place = self.position();
        let mut name = self.take_word();
        if MODULES.contains(&name.as_str()) && self.rest.next_if(|(_, c)| *c == '.').is_some() {
            place = self.position();
            name = self.take_word();
        }
        match self.peek() {
            Some('(') => return self.parse_call(&name, place),
            Some('[') => name.push_str(&self.parse_index()?),
            _ => {}
        }
        let variable = (self.variable)(&name).map(InstructionKind::Variable);
        let kind = variable
            .or_else(|| function_table::constant_by_name(&name).map(InstructionKind::Value));
        self.push_instruction(
            kind.ok_or_else(|| error_at(place, unknown_name_message(&name)))?,
            place,
        );
        Ok(())
    }

    /// Parses an index: `[0]` becomes `0`.
    fn parse_index(&mut self) -> Result<String> {
        self.rest.next();
        self.peek();
        let start = self.offset();
        self.take_while(|c| c.is_ascii_digit());
        let digits = self.text.get(start..self.offset()).unwrap_or_default().to_owned();
        if digits.is_empty() {
            return Err(self.error_here("expected the index of an element, such as `[0]`"));
        }
        self.expect_char(']')?;
        Ok(digits)
    }

    fn take_word(&mut self) -> String {
        let start = self.offset();
        self.take_while(|c| c.is_alphanumeric() || c == '_');
        self.text.get(start..self.offset()).unwrap_or_default().to_owned()
    }

    fn parse_call(&mut self, name: &str, place: usize) -> Result<()> {
        let function = ExpressionFunction::by_name(name)
            .ok_or_else(|| error_at(place, unknown_name_message(name)))?;
        self.rest.next();
        let count = if self.peek() == Some(')') { 0 } else { self.parse_arguments()? };
        self.expect_char(')')?;
        if let Err(words) = function.check_arity(count) {
            return Err(error_at(place, format!("`{name}` takes {words}, found {count}")));
        }
        self.push_instruction(InstructionKind::Call(function, count), place);
        Ok(())
    }

    /// Parses arguments and returns their number; a list in brackets stands for its elements.
    fn parse_arguments(&mut self) -> Result<usize> {
        let mut count = 0;
        let listed = self.peek() == Some('[');
        if listed {
            self.rest.next();
        }
        loop {
            self.parse_operand(COMPARISON)?;
            count += 1;
            if self.peek() != Some(',') {
                break;
            }
            self.rest.next();
        }
        if listed {
            self.expect_char(']')?;
        }
        Ok(count)
    }

    fn expect_char(&mut self, wanted: char) -> Result<()> {
        match self.peek() {
            Some(found) if found == wanted => {
                self.rest.next();
                Ok(())
            }
            Some(found) => Err(self.error_here(format!("expected `{wanted}`, found `{found}`"))),
            None => Err(self.error_here(format!("expected `{wanted}`, found the end"))),
        }
    }

    fn push_instruction(&mut self, kind: InstructionKind, place: usize) {
        self.instructions.push(StackInstruction { kind, position: place });
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) {
        while self.rest.next_if(|(_, c)| belongs(*c)).is_some() {}
    }

    /// Skips white space and returns the next character.
    fn peek(&mut self) -> Option<char> {
        self.take_while(char::is_whitespace);
        self.rest.peek().map(|(_, c)| *c)
    }

    fn offset(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(offset, _)| *offset)
    }

    fn position(&mut self) -> usize {
        let offset = self.offset();
        self.text.get(..offset).map_or(1, |before| before.chars().count() + 1)
    }

    fn error_here(&mut self, message: impl Into<String>) -> ExpressionError {
        error_at(self.position(), message)
    }
}

fn unknown_name_message(name: &str) -> String {
    let shown: String = name.chars().take(32).collect();
    match tool::find_nearest_name(name, function_table::NAMES.iter().copied()) {
        Some(near) if name.chars().count() > 1 => {
            format!("unknown name `{shown}`; did you mean `{near}`?")
        }
        _ => format!("unknown name `{shown}`"),
    }
}
