//! Allowed functions of a condition, and an upper bound for its evaluation cost.

use cel::Program;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::ConditionError;
use super::condition_inputs::{self, MAX_LIST_ITEMS};
use crate::diagnostics::quote_excerpt;

/// Maximum cost of a condition in steps, with the worst arguments.
const MAX_COST: u64 = 200_000;
/// Maximum nesting of a condition.
const MAX_DEPTH: usize = 24;
/// Maximum number of characters of a regular expression.
const MAX_REGEX_CHARS: usize = 200;
/// Cost of compiling and running a regular expression.
const REGEX_COST: u64 = 5_000;
/// Cost of scanning a string or a list.
const SCAN_COST: u64 = 10;

/// Allowed functions and operators with their own cost.
const ALLOWED_FUNCTIONS: &[(&str, u64)] = &[
    ("_?_:_", 1),
    ("_&&_", 1),
    ("_||_", 1),
    ("!_", 1),
    ("-_", 1),
    ("_-_", 1),
    ("_+_", SCAN_COST),
    ("_*_", 1),
    ("_/_", 1),
    ("_%_", 1),
    ("_==_", SCAN_COST),
    ("_!=_", SCAN_COST),
    ("_>=_", SCAN_COST),
    ("_<=_", SCAN_COST),
    ("_>_", SCAN_COST),
    ("_<_", SCAN_COST),
    ("_[_]", 1),
    ("@in", SCAN_COST),
    ("@not_strictly_false", 1),
    ("size", SCAN_COST),
    ("contains", SCAN_COST),
    ("startsWith", SCAN_COST),
    ("endsWith", SCAN_COST),
    ("int", 1),
    ("double", 1),
    ("matches", REGEX_COST),
];

/// Computes the cost of a condition.
pub(super) struct CostEstimator<'a> {
    /// Enclosing loop of the current part.
    enclosing_loop: Option<&'a ComprehensionExpr>,
}

impl<'a> CostEstimator<'a> {
    /// Checks that the condition uses allowed functions only and is bounded.
    pub(super) fn check_cost(expression: &'a IdedExpr) -> Result<(), ConditionError> {
        let mut bound = CostEstimator { enclosing_loop: None };
        let steps = bound.expression_cost(expression, 0)?;
        if steps > MAX_COST {
            let told = format!("the condition may take {steps} steps; the maximum is {MAX_COST}");
            return Err(ConditionError::new(told, "reduce the work in its loops"));
        }
        Ok(())
    }

    fn expression_cost(
        &mut self,
        expression: &'a IdedExpr,
        depth: usize,
    ) -> Result<u64, ConditionError> {
        if depth > MAX_DEPTH {
            let told = format!("the condition nests deeper than {MAX_DEPTH} levels");
            return Err(ConditionError::new(told, "split it into two rules"));
        }
        match &expression.expr {
            Expr::Literal(_) => Ok(1),
            Expr::Ident(name) => self.variable_cost(name),
            Expr::Select(select) => self.select_cost(select, depth),
            Expr::List(list) if list.optional_indices.is_empty() => {
                self.total_cost(list.elements.iter(), depth)
            }
            Expr::Call(call) => self.call_cost(call, depth),
            Expr::Comprehension(over) => self.loop_cost(over, depth),
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => {
                Err(ConditionError::new(
                    "the condition constructs a map or a message, which is not allowed",
                    "compare with strings, numbers and lists",
                ))
            }
        }
    }

    fn total_cost(
        &mut self,
        parts: impl Iterator<Item = &'a IdedExpr>,
        depth: usize,
    ) -> Result<u64, ConditionError> {
        parts.into_iter().try_fold(1_u64, |sum, part| {
            Ok(sum.saturating_add(self.expression_cost(part, depth + 1)?))
        })
    }

    fn variable_cost(&mut self, name: &str) -> Result<u64, ConditionError> {
        let of_loop = |over: &&ComprehensionExpr| {
            over.iter_var == name
                || over.accu_var == name
                || over.iter_var2.as_deref() == Some(name)
        };
        if self.enclosing_loop.as_ref().is_some_and(of_loop)
            || condition_inputs::VARIABLES.iter().any(|(known, _)| *known == name)
        {
            return Ok(1);
        }
        let known: Vec<_> = condition_inputs::VARIABLES.iter().map(|(known, _)| *known).collect();
        Err(ConditionError::new(
            format!("unknown variable {}", quote_excerpt(name)),
            format!("use one of {}", known.join(", ")),
        ))
    }

    fn select_cost(&mut self, select: &'a SelectExpr, depth: usize) -> Result<u64, ConditionError> {
        if let Expr::Ident(name) = &select.operand.expr
            && let Some((_, fields)) =
                condition_inputs::VARIABLES.iter().find(|(known, _)| known == name)
            && !fields.is_empty()
            && !fields.contains(&select.field.as_str())
        {
            let told = format!("`{name}` has no field {}", quote_excerpt(&select.field));
            return Err(ConditionError::new(told, format!("use one of {}", fields.join(", "))));
        }
        Ok(self.expression_cost(&select.operand, depth + 1)?.saturating_add(1))
    }

    fn call_cost(&mut self, call: &'a CallExpr, depth: usize) -> Result<u64, ConditionError> {
        let name = call.func_name.as_str();
        let Some((_, steps)) = ALLOWED_FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let functions = ALLOWED_FUNCTIONS
                .iter()
                .map(|(known, _)| *known)
                .filter(|known| is_function_name(known));
            let known = functions.collect::<Vec<_>>().join(", ");
            return Err(ConditionError::new(
                format!("unknown function {}", quote_excerpt(name)),
                format!("use one of {known}, exists, all, has"),
            ));
        };
        if name == "_+_" && self.enclosing_loop.is_some() {
            return Err(ConditionError::new(
                "`+` is not allowed in a loop",
                "move the addition out of the loop",
            ));
        }
        if name == "matches" {
            check_regex(call)?;
        }
        let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
        Ok(self.total_cost(parts, depth)?.saturating_add(*steps))
    }

    fn loop_cost(
        &mut self,
        over: &'a ComprehensionExpr,
        depth: usize,
    ) -> Result<u64, ConditionError> {
        if !matches!(over.accu_init.expr, Expr::Literal(LiteralValue::Boolean(_))) {
            return Err(ConditionError::new(
                "the condition has a loop other than `exists` and `all`",
                "use `LIST.exists(x, …)` or `LIST.all(x, …)`",
            ));
        }
        let range = self.expression_cost(&over.iter_range, depth + 1)?;
        if self.enclosing_loop.replace(over).is_some() {
            return Err(ConditionError::new(
                "the condition has a nested loop",
                "iterate over one list only",
            ));
        }
        let parts = [&over.loop_cond, &over.loop_step, &over.result];
        let each = self.total_cost(parts.into_iter(), depth);
        self.enclosing_loop = None;
        // The range of a loop is a list of the arguments or of the file.
        let most = u64::try_from(MAX_LIST_ITEMS).unwrap_or(u64::MAX);
        Ok(range.saturating_add(each?.saturating_mul(most)))
    }
}

/// Checks a regular expression, which is compiled for each call: it must be small and a literal.
fn check_regex(call: &CallExpr) -> Result<(), ConditionError> {
    let pattern = call.args.last().map(|arg| &arg.expr);
    let Some(Expr::Literal(LiteralValue::String(pattern))) = pattern else {
        return Err(ConditionError::new(
            "`matches` requires a literal regular expression",
            "write it in the rule: `args.name.matches('^[a-z]+$')`",
        ));
    };
    let text = pattern.inner();
    if text.chars().count() > MAX_REGEX_CHARS || text.matches('{').count() > 1 {
        let told = format!(
            "the regular expression is too large; the maximum is {MAX_REGEX_CHARS} characters and \
             one `{{…}}`"
        );
        return Err(ConditionError::new(told, "use `startsWith`, `contains` or a list"));
    }
    let mut tried = super::empty_context();
    tried.add_variable_from_value("expression", text);
    let program = Program::compile("''.matches(expression)");
    let result = program.ok().and_then(|program| program.execute(&tried).ok());
    let bad = || {
        ConditionError::new(
            format!("invalid regular expression {}", quote_excerpt(text)),
            "use the syntax of the Rust crate `regex`: no look-around, no backreferences",
        )
    };
    result.map(drop).ok_or_else(bad)
}

fn is_function_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
}
