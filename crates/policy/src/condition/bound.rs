//! Allowed functions of a condition, and an upper bound for its evaluation cost.

use cel::Program;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::given::{self, ITEMS};
use crate::at::shown;

/// Maximum cost of a condition in steps, with the worst arguments.
const STEPS: u64 = 200_000;
/// Maximum nesting of a condition.
const DEPTH: usize = 24;
/// Maximum number of characters of a regular expression.
const REGEX: usize = 200;
/// Cost of compiling and running a regular expression.
const REGEX_STEPS: u64 = 5_000;
/// Cost of scanning a string or a list.
const SCAN_STEPS: u64 = 10;

/// Allowed functions and operators with their own cost.
const CALLS: &[(&str, u64)] = &[
    ("_?_:_", 1),
    ("_&&_", 1),
    ("_||_", 1),
    ("!_", 1),
    ("-_", 1),
    ("_-_", 1),
    ("_+_", SCAN_STEPS),
    ("_*_", 1),
    ("_/_", 1),
    ("_%_", 1),
    ("_==_", SCAN_STEPS),
    ("_!=_", SCAN_STEPS),
    ("_>=_", SCAN_STEPS),
    ("_<=_", SCAN_STEPS),
    ("_>_", SCAN_STEPS),
    ("_<_", SCAN_STEPS),
    ("_[_]", 1),
    ("@in", SCAN_STEPS),
    ("@not_strictly_false", 1),
    ("size", SCAN_STEPS),
    ("contains", SCAN_STEPS),
    ("startsWith", SCAN_STEPS),
    ("endsWith", SCAN_STEPS),
    ("int", 1),
    ("double", 1),
    ("matches", REGEX_STEPS),
];

type Told = (String, String);

/// Computes the cost of a condition.
pub(super) struct Bound<'a> {
    /// Enclosing loop of the current part.
    within: Option<&'a ComprehensionExpr>,
}

impl<'a> Bound<'a> {
    /// Checks that the condition uses allowed functions only and is bounded.
    pub(super) fn check(expression: &'a IdedExpr) -> Result<(), Told> {
        let mut bound = Bound { within: None };
        let steps = bound.steps(expression, 0)?;
        if steps > STEPS {
            let told = format!("the condition may take {steps} steps; {STEPS} are allowed");
            return Err((told, "look at fewer things in its loops".to_owned()));
        }
        Ok(())
    }

    fn steps(&mut self, expression: &'a IdedExpr, depth: usize) -> Result<u64, Told> {
        if depth > DEPTH {
            let told = format!("the condition nests deeper than {DEPTH}");
            return Err((told, "make two rules of it".to_owned()));
        }
        match &expression.expr {
            Expr::Literal(_) => Ok(1),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select, depth),
            Expr::List(list) if list.optional_indices.is_empty() => {
                self.all(list.elements.iter(), depth)
            }
            Expr::Call(call) => self.call(call, depth),
            Expr::Comprehension(over) => self.comprehension(over, depth),
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => Err((
                "the condition makes a value that no condition may make".to_owned(),
                "compare with texts, numbers and lists".to_owned(),
            )),
        }
    }

    fn all(
        &mut self,
        parts: impl Iterator<Item = &'a IdedExpr>,
        depth: usize,
    ) -> Result<u64, Told> {
        parts
            .into_iter()
            .try_fold(1_u64, |sum, part| Ok(sum.saturating_add(self.steps(part, depth + 1)?)))
    }

    fn variable(&mut self, name: &str) -> Result<u64, Told> {
        let of_loop = |over: &&ComprehensionExpr| {
            over.iter_var == name
                || over.accu_var == name
                || over.iter_var2.as_deref() == Some(name)
        };
        if self.within.as_ref().is_some_and(of_loop)
            || given::VARIABLES.iter().any(|(known, _)| *known == name)
        {
            return Ok(1);
        }
        let known: Vec<_> = given::VARIABLES.iter().map(|(known, _)| *known).collect();
        Err((
            format!("unknown variable {}", shown(name)),
            format!("known are {}", known.join(", ")),
        ))
    }

    fn select(&mut self, select: &'a SelectExpr, depth: usize) -> Result<u64, Told> {
        if let Expr::Ident(name) = &select.operand.expr
            && let Some((_, fields)) = given::VARIABLES.iter().find(|(known, _)| known == name)
            && !fields.is_empty()
            && !fields.contains(&select.field.as_str())
        {
            let told = format!("`{name}` has no field {}", shown(&select.field));
            return Err((told, format!("known are {}", fields.join(", "))));
        }
        Ok(self.steps(&select.operand, depth + 1)?.saturating_add(1))
    }

    fn call(&mut self, call: &'a CallExpr, depth: usize) -> Result<u64, Told> {
        let name = call.func_name.as_str();
        let Some((_, steps)) = CALLS.iter().find(|(known, _)| *known == name) else {
            let functions = CALLS.iter().map(|(known, _)| *known).filter(|known| is_word(known));
            let known = functions.collect::<Vec<_>>().join(", ");
            return Err((
                format!("unknown function {}", shown(name)),
                format!("known are {known}, exists, all, has"),
            ));
        };
        if name == "_+_" && self.within.is_some() {
            return Err(("`+` within a loop".to_owned(), "add outside of the loop".to_owned()));
        }
        if name == "matches" {
            expression(call)?;
        }
        let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
        Ok(self.all(parts, depth)?.saturating_add(*steps))
    }

    fn comprehension(&mut self, over: &'a ComprehensionExpr, depth: usize) -> Result<u64, Told> {
        if !matches!(over.accu_init.expr, Expr::Literal(LiteralValue::Boolean(_))) {
            let told = "the condition has a loop other than `exists` and `all`".to_owned();
            return Err((told, "use `LIST.exists(x, …)` or `LIST.all(x, …)`".to_owned()));
        }
        let range = self.steps(&over.iter_range, depth + 1)?;
        if self.within.replace(over).is_some() {
            let told = "the condition has a loop within a loop".to_owned();
            return Err((told, "look at one list".to_owned()));
        }
        let parts = [&over.loop_cond, &over.loop_step, &over.result];
        let each = self.all(parts.into_iter(), depth);
        self.within = None;
        // The range of a loop is a list of the arguments or of the file.
        let most = u64::try_from(ITEMS).unwrap_or(u64::MAX);
        Ok(range.saturating_add(each?.saturating_mul(most)))
    }
}

/// Checks a regular expression, which is compiled for each call: it must be small and a literal.
fn expression(call: &CallExpr) -> Result<(), Told> {
    let pattern = call.args.last().map(|arg| &arg.expr);
    let Some(Expr::Literal(LiteralValue::String(pattern))) = pattern else {
        let told = "`matches` takes its regular expression as a text in the rule".to_owned();
        return Err((told, "write it there: `args.name.matches('^[a-z]+$')`".to_owned()));
    };
    let text = pattern.inner();
    if text.chars().count() > REGEX || text.matches('{').count() > 1 {
        let told = format!(
            "the regular expression is too large: {REGEX} characters and one `{{…}}` are allowed"
        );
        return Err((told, "use `startsWith`, `contains` or a list".to_owned()));
    }
    let mut tried = super::context();
    tried.add_variable_from_value("expression", text);
    let program = Program::compile("''.matches(expression)");
    let result = program.ok().and_then(|program| program.execute(&tried).ok());
    let bad = || {
        (
            format!("{} is no regular expression", shown(text)),
            "write it for the crate `regex`: no look-around, no references back".to_owned(),
        )
    };
    result.map(drop).ok_or_else(bad)
}

fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
}
