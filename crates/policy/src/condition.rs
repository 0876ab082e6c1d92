//! Conditions on one call, in CEL.
//!
//! The cost of a condition is bounded when it is parsed, because the evaluator has no step limit. A
//! condition that cannot be evaluated denies the call.

mod call_inputs;
mod condition_inputs;
mod cost_limit;
mod operand;
mod referenced_fields;
mod simple_condition;

use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, Program, Value};

pub(crate) use call_inputs::CallInputs;
pub(crate) use condition_inputs::ConditionInputs;
use cost_limit::CostEstimator;
pub(crate) use operand::OperandTable;
pub(crate) use referenced_fields::ReferencedFields;
use simple_condition::SimpleCondition;

/// Maximum number of characters of a condition.
const MAX_CONDITION_CHARS: usize = 1_000;
/// Maximum nesting of brackets: the parser uses a stack frame of some kilobytes for each.
const MAX_BRACKET_DEPTH: usize = 16;

/// Environment of functions and operators, created once.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A parsed condition with bounded cost.
pub(crate) struct RuleCondition {
    program: Program,
    /// The condition for direct evaluation, as far as that is possible.
    simple: Option<SimpleCondition>,
    /// Fields of a call that it references.
    pub(crate) referenced_fields: ReferencedFields,
}

/// Error of a condition that cannot be used.
#[derive(Debug)]
pub(crate) struct ConditionError {
    /// Description of the problem.
    pub(crate) message: String,
    /// Help on the fix.
    pub(crate) help: String,
}

impl ConditionError {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

/// Error of evaluating a condition on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EvaluationError(pub(crate) String);

impl RuleCondition {
    /// Parses and checks a condition. `operands` are those of the policy's other conditions.
    ///
    /// # Errors
    /// [`ConditionError`] if it cannot be parsed, or may cost too much.
    pub(crate) fn parse(text: &str, operands: &mut OperandTable) -> Result<Self, ConditionError> {
        let bad = |message: String, help: &str| Err(ConditionError::new(message, help));
        let length = text.chars().count();
        if length > MAX_CONDITION_CHARS {
            let told = format!(
                "the condition has {length} characters; the maximum is \
                    {MAX_CONDITION_CHARS}"
            );
            return bad(told, "split it into two rules");
        }
        if bracket_depth(text) > MAX_BRACKET_DEPTH {
            let told = format!("the condition nests deeper than {MAX_BRACKET_DEPTH} brackets");
            return bad(told, "split it into two rules");
        }
        let program = Program::compile(text).map_err(|error| {
            ConditionError::new(
                format!("cannot parse the condition: {}", parser_message(&error.to_string())),
                "write it in CEL, such as `args.path.startsWith('/srv/')`",
            )
        })?;
        CostEstimator::check_cost(program.expression())?;
        let wants = ReferencedFields::from_expression(program.expression());
        let simple = SimpleCondition::from_expression(program.expression(), operands);
        Ok(Self { program, simple, referenced_fields: wants })
    }

    /// Evaluates the condition on a call.
    ///
    /// # Errors
    /// If it cannot be evaluated: a missing key, mismatched types, no boolean result.
    pub(crate) fn evaluate(&self, context: &Context<'_, '_>) -> Result<bool, EvaluationError> {
        match self.program.execute(context) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err(EvaluationError(
                "the condition does not evaluate to true or \
                false"
                    .to_owned(),
            )),
            Err(error) => {
                // An error may quote all arguments.
                let told: String = error.to_string().chars().take(200).collect();
                Err(EvaluationError(told.escape_debug().to_string()))
            }
        }
    }
}

/// Returns an empty context for conditions.
pub(crate) fn empty_context<'v>() -> Context<'v, 'v> {
    Context::with_env(Arc::clone(&ENV))
}

/// Returns the first line of the parser's error without its file name; quotes stay as they are.
fn parser_message(error: &str) -> String {
    let line = error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let told = || {
        let (row, rest) = line.strip_prefix("ERROR: <input>:")?.split_once(':')?;
        let (column, told) = rest.split_once(": ")?;
        let row = if row == "1" { String::new() } else { format!("line {row}, ") };
        Some(format!("{row}column {column}: {told}"))
    };
    told().unwrap_or(line)
}

/// Returns the maximum nesting of brackets; those in strings count too, and are rare.
fn bracket_depth(text: &str) -> usize {
    let depths = text.chars().scan(0_usize, |depth, c| {
        match c {
            '(' | '[' | '{' => *depth += 1,
            ')' | ']' | '}' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    });
    depths.max().unwrap_or(0)
}

impl fmt::Debug for RuleCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("wants", &self.referenced_fields).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
