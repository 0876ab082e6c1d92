//! Evaluator of an expression's syntax tree.

use builtins::ExpressionError;
use num_bigint::BigInt;
use ruff_python_ast::{
    BoolOp, Comprehension, Expr, ExprBinOp, ExprCompare, ExprNumberLiteral, Number,
};
use ruff_text_size::Ranged as _;

use super::budget::EvalBudget;
use super::operators;
use super::sequence::{self, SliceBounds};
use super::value::PythonValue;
use super::{big_integer, functions, names};

/// Maximum nesting of subscripts and calls, such as `x[0][0]`.
const MAX_DEPTH: usize = 100;

type Result<T> = std::result::Result<T, ExpressionError>;

/// Evaluator of a single expression.
pub(super) struct Evaluator<'a> {
    pub(super) text: &'a str,
    pub(super) budget: EvalBudget,
    /// Variables of comprehensions, innermost last.
    variables: Vec<(String, PythonValue)>,
    depth: usize,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, budget: EvalBudget::new(), variables: Vec::new(), depth: 0 }
    }

    pub(super) fn evaluate_value(&mut self, expr: &Expr) -> Result<PythonValue> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error_at(expr, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.budget.charge_node().map_err(|message| self.error_at(expr, message))?;
        let value = self.node(expr);
        self.depth -= 1;
        value
    }

    fn node(&mut self, expr: &Expr) -> Result<PythonValue> {
        match expr {
            Expr::NumberLiteral(number) => {
                self.literal(number).map_err(|message| self.error_at(expr, message))
            }
            Expr::BooleanLiteral(literal) => Ok(PythonValue::Bool(literal.value)),
            Expr::NoneLiteral(_) => Ok(PythonValue::None),
            Expr::StringLiteral(text) => Ok(PythonValue::Text(text.value.to_str().to_owned())),
            Expr::Name(_) | Expr::Attribute(_) => self.named(expr),
            Expr::BinOp(operation) => self.operation(operation),
            Expr::UnaryOp(operation) => {
                let value = self.evaluate_value(&operation.operand)?;
                let value = operators::apply_unary(operation.op, &value);
                value.map_err(|message| self.error_at(expr, message))
            }
            Expr::BoolOp(operation) => self.decision(operation.op, &operation.values),
            Expr::Compare(comparison) => self.comparison(comparison),
            Expr::If(choice) => {
                let chosen = self.evaluate_condition(&choice.test)?;
                self.evaluate_value(if chosen { &choice.body } else { &choice.orelse })
            }
            Expr::List(list) => self.items(expr, &list.elts),
            Expr::Tuple(tuple) => self.items(expr, &tuple.elts),
            Expr::Subscript(subscript) => {
                let value = self.evaluate_value(&subscript.value)?;
                self.subscript(&value, &subscript.slice)
            }
            Expr::ListComp(list) => self.comprehension(expr, &list.elt, &list.generators),
            Expr::Generator(list) => self.comprehension(expr, &list.elt, &list.generators),
            Expr::Call(call) => functions::evaluate_call(self, call),
            other => Err(self.error_at(
                other,
                "calculate reads numbers, lists, operators, comparisons, `a if c else b`, \
                 comprehensions and calls of functions; use python_eval for more",
            )),
        }
    }

    fn literal(&self, literal: &ExprNumberLiteral) -> std::result::Result<PythonValue, String> {
        match &literal.value {
            Number::Float(number) => Ok(PythonValue::Float(*number)),
            Number::Complex { .. } => Err("calculate has no complex numbers".to_owned()),
            Number::Int(number) => {
                if let Some(small) = number.as_i64() {
                    return Ok(PythonValue::Int(BigInt::from(small)));
                }
                let range = literal.range.start().to_usize()..literal.range.end().to_usize();
                let text = self.text.get(range).unwrap_or_default().replace('_', "");
                let radix = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
                    Some("0x") => 16,
                    Some("0o") => 8,
                    Some("0b") => 2,
                    _ => 10,
                };
                let digits = if radix == 10 { Some(text.as_str()) } else { text.get(2..) };
                let number = digits.and_then(|it| BigInt::parse_bytes(it.as_bytes(), radix));
                number
                    .ok_or_else(|| format!("`{text}` is not a number"))
                    .and_then(big_integer::check_digits)
                    .map(PythonValue::Int)
            }
        }
    }

    fn named(&mut self, expr: &Expr) -> Result<PythonValue> {
        let Some(path) = names::parse_path(expr) else {
            return Err(self.error_at(
                expr,
                "attributes of values are not supported; call np.mean(x), \
                np.sort(x), …",
            ));
        };
        if let Expr::Name(name) = expr {
            let variable = self.variables.iter().rev().find(|(own, _)| own == name.id.as_str());
            if let Some((_, value)) = variable {
                self.budget
                    .charge_copies(value, 1)
                    .map_err(|message| self.error_at(expr, message))?;
                return Ok(value.clone());
            }
        }
        names::constant_value(&path)
            .map(PythonValue::Float)
            .ok_or_else(|| self.error_at(expr, names::unknown_value(&path)))
    }

    /// The tree of a long sum is as deep as the sum is long, so its left side is walked in a loop.
    fn operation(&mut self, operation: &ExprBinOp) -> Result<PythonValue> {
        let mut chain = vec![operation];
        while let Some(Expr::BinOp(inner)) = chain.last().map(|last| &*last.left) {
            chain.push(inner);
        }
        let Some(first) = chain.last() else { return Ok(PythonValue::None) };
        let mut left = self.evaluate_value(&first.left)?;
        for operation in chain.into_iter().rev() {
            let right = self.evaluate_value(&operation.right)?;
            let value = operators::apply_binary(operation.op, &left, &right, &mut self.budget);
            left = value.map_err(|message| self.at_operator(operation, message))?;
        }
        Ok(left)
    }

    fn decision(&mut self, op: BoolOp, operands: &[Expr]) -> Result<PythonValue> {
        let mut value = PythonValue::None;
        for operand in operands {
            value = self.evaluate_value(operand)?;
            let truth = value.truth().map_err(|message| self.error_at(operand, message))?;
            if truth == matches!(op, BoolOp::Or) {
                break;
            }
        }
        Ok(value)
    }

    fn comparison(&mut self, comparison: &ExprCompare) -> Result<PythonValue> {
        let mut left = self.evaluate_value(&comparison.left)?;
        let mut value = PythonValue::Bool(true);
        for (op, operand) in comparison.ops.iter().zip(&comparison.comparators) {
            let right = self.evaluate_value(operand)?;
            let found = operators::compare_values(*op, &left, &right);
            value = found.map_err(|message| self.error_at(operand, message))?;
            let last = comparison.comparators.last().is_some_and(|it| std::ptr::eq(it, operand));
            if last || !value.truth().map_err(|message| self.error_at(operand, message))? {
                break;
            }
            left = right;
        }
        Ok(value)
    }

    pub(super) fn evaluate_condition(&mut self, expr: &Expr) -> Result<bool> {
        let value = self.evaluate_value(expr)?;
        value.truth().map_err(|message| self.error_at(expr, message))
    }

    fn items(&mut self, place: &Expr, exprs: &[Expr]) -> Result<PythonValue> {
        self.budget
            .charge_elements(exprs.len())
            .map_err(|message| self.error_at(place, message))?;
        exprs
            .iter()
            .map(|expr| self.evaluate_value(expr))
            .collect::<Result<_>>()
            .map(PythonValue::List)
    }

    fn subscript(&mut self, value: &PythonValue, index: &Expr) -> Result<PythonValue> {
        let found = if let Expr::Slice(slice) = index {
            let mut bound = |expr: &Option<Box<Expr>>| -> Result<Option<i64>> {
                let Some(expr) = expr else { return Ok(None) };
                let bound = self.evaluate_value(expr)?.index("a bound");
                bound.map(Some).map_err(|message| self.error_at(expr, message))
            };
            let (lower, upper) = (bound(&slice.lower)?, bound(&slice.upper)?);
            let slice = SliceBounds { lower, upper, step: bound(&slice.step)? };
            sequence::slice_list(value, slice, &mut self.budget)
        } else {
            let index = self.evaluate_value(index)?;
            sequence::get_element(value, &index)
        };
        found.map_err(|message| self.error_at(index, message))
    }

    fn comprehension(
        &mut self,
        place: &Expr,
        element: &Expr,
        loops: &[Comprehension],
    ) -> Result<PythonValue> {
        let mut found = Vec::new();
        self.pass(place, element, loops, &mut found)?;
        Ok(PythonValue::List(found))
    }

    fn pass(
        &mut self,
        place: &Expr,
        element: &Expr,
        loops: &[Comprehension],
        found: &mut Vec<PythonValue>,
    ) -> Result<()> {
        let Some((first, inner)) = loops.split_first() else {
            self.budget
                .charge_push(found.len())
                .map_err(|message| self.error_at(place, message))?;
            found.push(self.evaluate_value(element)?);
            return Ok(());
        };
        let items = self.evaluate_value(&first.iter)?.items();
        let items = items.map_err(|message| self.error_at(&first.iter, message))?;
        for item in items {
            let count = self.variables.len();
            self.bind(&first.target, item)?;
            let mut wanted = true;
            for condition in &first.ifs {
                wanted = wanted && self.evaluate_condition(condition)?;
            }
            if wanted {
                self.pass(place, element, inner, found)?;
            }
            self.variables.truncate(count);
        }
        Ok(())
    }

    fn bind(&mut self, target: &Expr, value: PythonValue) -> Result<()> {
        match target {
            Expr::Name(name) => self.variables.push((name.id.as_str().to_owned(), value)),
            Expr::Tuple(tuple) => {
                let items = value.items().map_err(|message| self.error_at(target, message))?;
                if items.len() != tuple.elts.len() {
                    let (found, wanted) = (items.len(), tuple.elts.len());
                    return Err(self.error_at(target, format!("{found} values for {wanted} names")));
                }
                for (target, item) in tuple.elts.iter().zip(items) {
                    self.bind(target, item)?;
                }
            }
            other => return Err(self.error_at(other, "expected a name")),
        }
        Ok(())
    }

    /// Creates an error at the beginning of `expr`.
    pub(super) fn error_at(&self, expr: &Expr, message: impl Into<String>) -> ExpressionError {
        let position = position(self.text, expr.range().start().to_usize());
        ExpressionError { message: message.into(), position }
    }

    /// Creates an error at the operator.
    fn at_operator(&self, operation: &ExprBinOp, message: String) -> ExpressionError {
        let end = operation.left.range().end().to_usize();
        let between = self.text.get(end..).unwrap_or_default();
        let skipped = between.find(|c: char| !c.is_whitespace() && c != ')').unwrap_or(0);
        ExpressionError { message, position: position(self.text, end + skipped) }
    }
}

/// Converts a byte offset to a character position, counted from 1.
pub(super) fn position(text: &str, offset: usize) -> usize {
    text.get(..offset).unwrap_or(text).chars().count() + 1
}
