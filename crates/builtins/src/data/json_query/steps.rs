//! JMESPath evaluation with a step budget.
//!
//! Values are shared, so nested `[@, @]` pipelines are cheap to build but exceed any memory when
//! written, flattened or compared. Every traversal charges for the whole value first.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use jmespath::ast::Ast;
use jmespath::{Context, ErrorReason, JmespathError, Rcvar, Runtime, RuntimeError, Variable};

use super::{by, told};

/// Steps of one query: about a fifth of a second.
const STEPS: usize = 5_000_000;
/// Bytes of text that count as one step.
const TEXT: usize = 16;

static FUNCTIONS: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    runtime
});

/// An evaluator with its remaining steps.
pub(super) struct Steps<'a> {
    query: &'a str,
    left: Cell<usize>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(query: &'a str) -> Self {
        Self { query, left: Cell::new(STEPS) }
    }

    fn pay(&self, steps: usize) -> Result<(), String> {
        let left = self.left.get().checked_sub(steps).ok_or_else(|| {
            format!(
                "query: it takes over {STEPS} steps; select less, or ask for the parts one by one"
            )
        })?;
        self.left.set(left);
        Ok(())
    }

    /// Charges for a traversal of a value.
    pub(super) fn weigh(&self, value: &Variable) -> Result<(), String> {
        match value {
            Variable::String(text) => self.pay(1 + text.len() / TEXT),
            Variable::Array(all) => {
                self.pay(1)?;
                all.iter().try_for_each(|value| self.weigh(value))
            }
            Variable::Object(all) => {
                self.pay(1)?;
                all.iter().try_for_each(|(key, value)| {
                    self.pay(1 + key.len() / TEXT)?;
                    self.weigh(value)
                })
            }
            _ => self.pay(1),
        }
    }

    pub(super) fn evaluate(&self, data: &Rcvar, node: &Ast) -> Result<Rcvar, String> {
        self.pay(1)?;
        match node {
            Ast::Identity { .. } => Ok(data.clone()),
            Ast::Literal { value, .. } => Ok(value.clone()),
            Ast::Field { name, .. } => Ok(data.get_field(name)),
            Ast::Index { idx, .. } => Ok(index(data, *idx)),
            Ast::Expref { ast, .. } => Ok(Rcvar::new(Variable::Expref(ast.as_ref().clone()))),
            Ast::Subexpr { lhs, rhs, .. } => self.evaluate(&self.evaluate(data, lhs)?, rhs),
            Ast::Slice { start, stop, step, offset } => {
                self.slice(data, (*start, *stop, *step), *offset)
            }
            Ast::Function { name, args, offset } => self.call(data, name, args, *offset),
            Ast::Or { .. }
            | Ast::And { .. }
            | Ast::Not { .. }
            | Ast::Condition { .. }
            | Ast::Comparison { .. } => self.judge(data, node),
            _ => self.many(data, node),
        }
    }

    /// Evaluates conditions, comparisons and logical operators.
    fn judge(&self, data: &Rcvar, node: &Ast) -> Result<Rcvar, String> {
        match node {
            Ast::Or { lhs, rhs, .. } => {
                let left = self.evaluate(data, lhs)?;
                if left.is_truthy() { Ok(left) } else { self.evaluate(data, rhs) }
            }
            Ast::And { lhs, rhs, .. } => {
                let left = self.evaluate(data, lhs)?;
                if left.is_truthy() { self.evaluate(data, rhs) } else { Ok(left) }
            }
            Ast::Not { node, .. } => {
                let holds = self.evaluate(data, node)?.is_truthy();
                Ok(Rcvar::new(Variable::Bool(!holds)))
            }
            Ast::Condition { predicate, then, .. } => {
                if self.evaluate(data, predicate)?.is_truthy() {
                    return self.evaluate(data, then);
                }
                Ok(null())
            }
            Ast::Comparison { comparator, lhs, rhs, .. } => {
                let (left, right) = (self.evaluate(data, lhs)?, self.evaluate(data, rhs)?);
                self.weigh(&left)?;
                let holds = left.compare(comparator, &right);
                Ok(holds.map_or_else(null, |holds| Rcvar::new(Variable::Bool(holds))))
            }
            _ => Ok(null()),
        }
    }

    /// Evaluates nodes that produce arrays and objects.
    fn many(&self, data: &Rcvar, node: &Ast) -> Result<Rcvar, String> {
        match node {
            Ast::MultiList { elements, .. } if !data.is_null() => {
                let all = elements.iter().map(|node| self.evaluate(data, node));
                self.list(all.collect::<Result<_, _>>()?)
            }
            Ast::MultiHash { elements, .. } if !data.is_null() => {
                let all = elements
                    .iter()
                    .map(|pair| Ok((pair.key.clone(), self.evaluate(data, &pair.value)?)));
                let all = all.collect::<Result<BTreeMap<_, _>, String>>()?;
                Ok(Rcvar::new(Variable::Object(all)))
            }
            Ast::ObjectValues { node, .. } => {
                let object = self.evaluate(data, node)?;
                object
                    .as_object()
                    .map_or_else(|| Ok(null()), |all| self.list(all.values().cloned().collect()))
            }
            Ast::Flatten { node, .. } => {
                let list = self.evaluate(data, node)?;
                list.as_array().map_or_else(|| Ok(null()), |all| self.flat(all))
            }
            Ast::Projection { lhs, rhs, .. } => {
                let list = self.evaluate(data, lhs)?;
                let Some(all) = list.as_array() else { return Ok(null()) };
                let mut found = Vec::new();
                for value in all {
                    let value = self.evaluate(value, rhs)?;
                    if !value.is_null() {
                        found.push(value);
                    }
                }
                self.list(found)
            }
            _ => Ok(null()),
        }
    }

    /// Charges for an array of existing values and returns it.
    pub(super) fn list(&self, all: Vec<Rcvar>) -> Result<Rcvar, String> {
        self.pay(all.len())?;
        Ok(Rcvar::new(Variable::Array(all)))
    }

    fn flat(&self, all: &[Rcvar]) -> Result<Rcvar, String> {
        let mut flat = Vec::new();
        for value in all {
            if let Some(inner) = value.as_array() {
                self.pay(inner.len())?;
                flat.extend(inner.iter().cloned());
            } else {
                flat.push(value.clone());
            }
        }
        self.list(flat)
    }

    fn slice(
        &self,
        data: &Rcvar,
        (start, stop, step): (Option<i32>, Option<i32>, i32),
        offset: usize,
    ) -> Result<Rcvar, String> {
        if step == 0 {
            return Err(self.fault(offset, RuntimeError::InvalidSlice));
        }
        self.pay(data.as_array().map_or(0, Vec::len))?;
        Ok(data.slice(start, stop, step).map_or_else(null, |all| Rcvar::new(Variable::Array(all))))
    }

    fn call(&self, data: &Rcvar, name: &str, args: &[Ast], at: usize) -> Result<Rcvar, String> {
        let args = args.iter().map(|arg| self.evaluate(data, arg));
        let args = args.collect::<Result<Vec<_>, _>>()?;
        args.iter().try_for_each(|arg| self.weigh(arg))?;
        if let Some(found) = by::call(self, name, &args, at) {
            return found;
        }
        // All other functions produce at most their input, except for the separator of `join`.
        if let ("join", [glue, list]) = (name, &*args) {
            let (glue, many) =
                (glue.as_string().map_or(0, String::len), list.as_array().map_or(0, Vec::len));
            self.pay(glue.saturating_mul(many) / TEXT)?;
        }
        let mut context = Context::new(self.query, &FUNCTIONS);
        context.offset = at;
        let Some(function) = FUNCTIONS.get_function(name) else {
            return Err(self.fault(at, RuntimeError::UnknownFunction(name.to_owned())));
        };
        function.evaluate(&args, &mut context).map_err(|error| told(&error))
    }

    pub(super) fn fault(&self, offset: usize, reason: RuntimeError) -> String {
        told(&JmespathError::new(self.query, offset, ErrorReason::Runtime(reason)))
    }
}

pub(super) fn null() -> Rcvar {
    Rcvar::new(Variable::Null)
}

fn index(data: &Rcvar, at: i32) -> Rcvar {
    let place = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    if at >= 0 { data.get_index(place) } else { data.get_negative_index(place) }
}
