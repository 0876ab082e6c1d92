//! JMESPath evaluation with a step budget.
//!
//! Values are shared, so nested `[@, @]` pipelines are cheap to build but exceed any memory when
//! written, flattened or compared. Every traversal charges for the whole value first.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use jmespath::ast::Ast;
use jmespath::{Context, ErrorReason, JmespathError, Rcvar, Runtime, RuntimeError, Variable};

use super::{error_message, expression_functions};

/// Steps of one query: about a fifth of a second.
const MAX_EVAL_STEPS: usize = 5_000_000;
/// Bytes of text that count as one step.
const TEXT_BYTES_PER_STEP: usize = 16;

static FUNCTIONS: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    runtime
});

/// An evaluator with its remaining steps.
pub(super) struct BoundedEvaluator<'a> {
    query: &'a str,
    steps_left: Cell<usize>,
}

impl<'a> BoundedEvaluator<'a> {
    pub(super) fn new(query: &'a str) -> Self {
        Self { query, steps_left: Cell::new(MAX_EVAL_STEPS) }
    }

    fn charge_steps(&self, steps: usize) -> Result<(), String> {
        let left = self.steps_left.get().checked_sub(steps).ok_or_else(|| {
            format!(
                "query: it takes more than {MAX_EVAL_STEPS} steps; select less, or query the parts \
                 one by one"
            )
        })?;
        self.steps_left.set(left);
        Ok(())
    }

    /// Charges for a traversal of a value.
    pub(super) fn charge_value(&self, value: &Variable) -> Result<(), String> {
        match value {
            Variable::String(text) => self.charge_steps(1 + text.len() / TEXT_BYTES_PER_STEP),
            Variable::Array(all) => {
                self.charge_steps(1)?;
                all.iter().try_for_each(|value| self.charge_value(value))
            }
            Variable::Object(all) => {
                self.charge_steps(1)?;
                all.iter().try_for_each(|(key, value)| {
                    self.charge_steps(1 + key.len() / TEXT_BYTES_PER_STEP)?;
                    self.charge_value(value)
                })
            }
            _ => self.charge_steps(1),
        }
    }

    pub(super) fn eval_node(&self, data: &Rcvar, node: &Ast) -> Result<Rcvar, String> {
        self.charge_steps(1)?;
        match node {
            Ast::Identity { .. } => Ok(data.clone()),
            Ast::Literal { value, .. } => Ok(value.clone()),
            Ast::Field { name, .. } => Ok(data.get_field(name)),
            Ast::Index { idx, .. } => Ok(index_value(data, *idx)),
            Ast::Expref { ast, .. } => Ok(Rcvar::new(Variable::Expref(ast.as_ref().clone()))),
            Ast::Subexpr { lhs, rhs, .. } => self.eval_node(&self.eval_node(data, lhs)?, rhs),
            Ast::Slice { start, stop, step, offset } => {
                self.eval_slice(data, (*start, *stop, *step), *offset)
            }
            Ast::Function { name, args, offset } => self.eval_call(data, name, args, *offset),
            Ast::Or { .. }
            | Ast::And { .. }
            | Ast::Not { .. }
            | Ast::Condition { .. }
            | Ast::Comparison { .. } => self.eval_condition(data, node),
            _ => self.eval_projection(data, node),
        }
    }

    /// Evaluates conditions, comparisons and logical operators.
    fn eval_condition(&self, data: &Rcvar, node: &Ast) -> Result<Rcvar, String> {
        match node {
            Ast::Or { lhs, rhs, .. } => {
                let left = self.eval_node(data, lhs)?;
                if left.is_truthy() { Ok(left) } else { self.eval_node(data, rhs) }
            }
            Ast::And { lhs, rhs, .. } => {
                let left = self.eval_node(data, lhs)?;
                if left.is_truthy() { self.eval_node(data, rhs) } else { Ok(left) }
            }
            Ast::Not { node, .. } => {
                let holds = self.eval_node(data, node)?.is_truthy();
                Ok(Rcvar::new(Variable::Bool(!holds)))
            }
            Ast::Condition { predicate, then, .. } => {
                if self.eval_node(data, predicate)?.is_truthy() {
                    return self.eval_node(data, then);
                }
                Ok(null_value())
            }
            Ast::Comparison { comparator, lhs, rhs, .. } => {
                let (left, right) = (self.eval_node(data, lhs)?, self.eval_node(data, rhs)?);
                self.charge_value(&left)?;
                let holds = left.compare(comparator, &right);
                Ok(holds.map_or_else(null_value, |holds| Rcvar::new(Variable::Bool(holds))))
            }
            _ => Ok(null_value()),
        }
    }

    /// Evaluates nodes that produce arrays and objects.
    fn eval_projection(&self, data: &Rcvar, node: &Ast) -> Result<Rcvar, String> {
        match node {
            Ast::MultiList { elements, .. } if !data.is_null() => {
                let all = elements.iter().map(|node| self.eval_node(data, node));
                self.charge_list(all.collect::<Result<_, _>>()?)
            }
            Ast::MultiHash { elements, .. } if !data.is_null() => {
                let all = elements
                    .iter()
                    .map(|pair| Ok((pair.key.clone(), self.eval_node(data, &pair.value)?)));
                let all = all.collect::<Result<BTreeMap<_, _>, String>>()?;
                Ok(Rcvar::new(Variable::Object(all)))
            }
            Ast::ObjectValues { node, .. } => {
                let object = self.eval_node(data, node)?;
                object.as_object().map_or_else(
                    || Ok(null_value()),
                    |all| self.charge_list(all.values().cloned().collect()),
                )
            }
            Ast::Flatten { node, .. } => {
                let list = self.eval_node(data, node)?;
                list.as_array().map_or_else(|| Ok(null_value()), |all| self.flatten_list(all))
            }
            Ast::Projection { lhs, rhs, .. } => {
                let list = self.eval_node(data, lhs)?;
                let Some(all) = list.as_array() else { return Ok(null_value()) };
                let mut found = Vec::new();
                for value in all {
                    let value = self.eval_node(value, rhs)?;
                    if !value.is_null() {
                        found.push(value);
                    }
                }
                self.charge_list(found)
            }
            _ => Ok(null_value()),
        }
    }

    /// Charges for an array of existing values and returns it.
    pub(super) fn charge_list(&self, values: Vec<Rcvar>) -> Result<Rcvar, String> {
        self.charge_steps(values.len())?;
        Ok(Rcvar::new(Variable::Array(values)))
    }

    fn flatten_list(&self, all: &[Rcvar]) -> Result<Rcvar, String> {
        let mut flat = Vec::new();
        for value in all {
            if let Some(inner) = value.as_array() {
                self.charge_steps(inner.len())?;
                flat.extend(inner.iter().cloned());
            } else {
                flat.push(value.clone());
            }
        }
        self.charge_list(flat)
    }

    fn eval_slice(
        &self,
        data: &Rcvar,
        (start, stop, step): (Option<i32>, Option<i32>, i32),
        offset: usize,
    ) -> Result<Rcvar, String> {
        if step == 0 {
            return Err(self.error_at(offset, RuntimeError::InvalidSlice));
        }
        self.charge_steps(data.as_array().map_or(0, Vec::len))?;
        Ok(data
            .slice(start, stop, step)
            .map_or_else(null_value, |all| Rcvar::new(Variable::Array(all))))
    }

    fn eval_call(
        &self,
        data: &Rcvar,
        name: &str,
        args: &[Ast],
        at: usize,
    ) -> Result<Rcvar, String> {
        let args = args.iter().map(|arg| self.eval_node(data, arg));
        let args = args.collect::<Result<Vec<_>, _>>()?;
        args.iter().try_for_each(|arg| self.charge_value(arg))?;
        if let Some(found) = expression_functions::call_expression_function(self, name, &args, at) {
            return found;
        }
        // All other functions produce at most their input, except for the separator of `join`.
        if let ("join", [glue, list]) = (name, &*args) {
            let (glue, many) =
                (glue.as_string().map_or(0, String::len), list.as_array().map_or(0, Vec::len));
            self.charge_steps(glue.saturating_mul(many) / TEXT_BYTES_PER_STEP)?;
        }
        let mut context = Context::new(self.query, &FUNCTIONS);
        context.offset = at;
        let Some(function) = FUNCTIONS.get_function(name) else {
            return Err(self.error_at(at, RuntimeError::UnknownFunction(name.to_owned())));
        };
        function.evaluate(&args, &mut context).map_err(|error| error_message(&error))
    }

    pub(super) fn error_at(&self, offset: usize, reason: RuntimeError) -> String {
        error_message(&JmespathError::new(self.query, offset, ErrorReason::Runtime(reason)))
    }
}

pub(super) fn null_value() -> Rcvar {
    Rcvar::new(Variable::Null)
}

fn index_value(data: &Rcvar, at: i32) -> Rcvar {
    let place = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    if at >= 0 { data.get_index(place) } else { data.get_negative_index(place) }
}
