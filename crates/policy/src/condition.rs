//! Conditions on one call, in CEL.
//!
//! What a condition may say, and so what it can cost, is settled when it is read: the evaluator has no
//! step limit of its own. What cannot be worked out about a call is a fault, which denies it.

mod bound;
mod given;
mod wants;

use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, Program, Value};

use bound::Bound;
pub(crate) use given::Given;
pub(crate) use wants::Wants;

/// The most characters of a condition.
const LENGTH: usize = 1_000;
/// The deepest its brackets may nest: the parser takes a stack frame of some kilobytes for each.
const BRACKETS: usize = 16;

/// The functions and operators there are, made once.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// A condition that was read and found to be bounded.
pub(crate) struct Condition {
    program: Program,
    /// What of a call it names.
    pub(crate) wants: Wants,
}

/// The condition says nothing about this call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) String);

impl Condition {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub(crate) fn read(text: &str) -> Result<Self, (String, String)> {
        let bad = |message: String, fix: &str| Err((message, fix.to_owned()));
        let length = text.chars().count();
        if length > LENGTH {
            let told = format!("the condition has {length} characters; {LENGTH} are allowed");
            return bad(told, "make two rules of it");
        }
        if brackets(text) > BRACKETS {
            let told = format!("the condition nests deeper than {BRACKETS} brackets");
            return bad(told, "make two rules of it");
        }
        let program = Program::compile(text).map_err(|error| {
            let told = format!("the condition cannot be read: {}", syntax(&error.to_string()));
            (told, "write it in CEL, such as `args.path.startsWith('/srv/')`".to_owned())
        })?;
        Bound::check(program.expression())?;
        let wants = Wants::of(program.expression());
        Ok(Self { program, wants })
    }

    /// Whether it is true of a call.
    ///
    /// # Errors
    /// Where it cannot be worked out: a key that is not there, types that do not fit, no truth value.
    pub(crate) fn holds(&self, context: &Context<'_, '_>) -> Result<bool, Fault> {
        match self.program.execute(context) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err(Fault("the condition is neither true nor false".to_owned())),
            Err(error) => {
                // An error may quote the arguments whole.
                let told: String = error.to_string().chars().take(200).collect();
                Err(Fault(told.escape_debug().to_string()))
            }
        }
    }
}

/// A context for conditions, without anything in it.
pub(crate) fn context<'v>() -> Context<'v, 'v> {
    Context::with_env(Arc::clone(&ENV))
}

/// The first line of the parser's error, without what it says of a file; quotes stay as they are.
fn syntax(error: &str) -> String {
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

/// How deep brackets nest; those in texts count too, and are rare.
fn brackets(text: &str) -> usize {
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

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("wants", &self.wants).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
