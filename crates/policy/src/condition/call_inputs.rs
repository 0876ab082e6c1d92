//! Evaluation of several conditions on one call: the limits of the arguments are checked once, and
//! the variables of CEL are built only for a condition that needs them.

use super::condition_inputs::{ConditionInputs, check_argument_limits};
use super::operand::OperandCache;
use super::{EvaluationError, ReferencedFields, RuleCondition};
use crate::PolicyRequest;

/// The inputs of one call for all conditions that are evaluated on it.
pub(crate) struct CallInputs<'c, 'v> {
    request: PolicyRequest<'v>,
    /// Fields that any of the conditions references.
    references: &'c ReferencedFields,
    limits: Option<Result<(), EvaluationError>>,
    variables: Option<ConditionInputs<'v>>,
    operands: OperandCache<'v>,
}

impl<'c, 'v> CallInputs<'c, 'v> {
    pub(crate) fn new(request: &PolicyRequest<'v>, references: &'c ReferencedFields) -> Self {
        Self {
            request: *request,
            references,
            limits: None,
            variables: None,
            operands: OperandCache::default(),
        }
    }

    /// Checks the arguments that any condition references against the limits of a condition.
    ///
    /// # Errors
    /// If they exceed them: then no condition can be evaluated.
    pub(crate) fn check_limits(&mut self) -> Result<(), EvaluationError> {
        let Self { request, references, limits, .. } = self;
        limits.get_or_insert_with(|| check_argument_limits(request.arguments, references)).clone()
    }

    /// Evaluates one condition on the call.
    ///
    /// # Errors
    /// If the arguments exceed the limits, or the condition cannot be evaluated on them.
    pub(crate) fn evaluate(&mut self, condition: &RuleCondition) -> Result<bool, EvaluationError> {
        self.check_limits()?;
        let simple = condition.simple.as_ref();
        if let Some(result) =
            simple.and_then(|simple| simple.decide(&self.request, &mut self.operands))
        {
            return Ok(result);
        }
        let Self { request, references, variables, .. } = self;
        let variables = match variables {
            Some(built) => built,
            None => variables.insert(ConditionInputs::from_request(request, references)?),
        };
        condition.evaluate(variables.cel_context())
    }

    /// Returns true if a condition was left to CEL.
    #[cfg(test)]
    pub(crate) fn has_used_cel(&self) -> bool {
        self.variables.is_some()
    }
}
