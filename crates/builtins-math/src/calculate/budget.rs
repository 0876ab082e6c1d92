//! Budget of one evaluation: limits its computation and memory.

use num_bigint::BigInt;

use super::value::PythonValue;

/// Maximum elements of one list or array.
pub(super) const MAX_ELEMENTS: usize = 100_000;
/// Total budget: about a second of arithmetic, and about 100 MB of values.
const UNITS: u64 = 100_000_000;
/// Cost of a list element, which has a tag and may have an allocation.
const ELEMENT: u64 = 40;
/// Cost of an array element, or of a word of an integer.
const WORD: u64 = 8;
/// Cost of one syntax tree node.
const NODE: u64 = 20;

/// Counts the cost of one evaluation, so that no expression exceeds its limits of time and memory.
#[derive(Debug)]
pub(super) struct EvalBudget(u64);

impl EvalBudget {
    pub(super) fn new() -> Self {
        Self(UNITS)
    }

    /// Charges this many list elements before they are stored.
    ///
    /// # Errors
    /// Describes for the model if there are too many.
    pub(super) fn charge_elements(&mut self, count: usize) -> Result<(), String> {
        if count > MAX_ELEMENTS {
            return Err(format!("a list has {count} elements; the maximum is {MAX_ELEMENTS}"));
        }
        self.charge_units((count as u64).saturating_mul(ELEMENT))
    }

    /// Charges one more element for a list that has `count`.
    pub(super) fn charge_push(&mut self, count: usize) -> Result<(), String> {
        if count >= MAX_ELEMENTS {
            return self.charge_elements(count + 1);
        }
        self.charge_units(ELEMENT)
    }

    /// Charges the evaluation of one node.
    pub(super) fn charge_node(&mut self) -> Result<(), String> {
        self.charge_units(NODE)
    }

    /// Charges an array of this many elements.
    pub(super) fn charge_array(&mut self, count: usize) -> Result<(), String> {
        if count > MAX_ELEMENTS {
            return self.charge_elements(count);
        }
        self.charge_units((count as u64).saturating_mul(WORD))
    }

    /// Charges this many copies of a value.
    pub(super) fn charge_copies(
        &mut self,
        value: &PythonValue,
        count: usize,
    ) -> Result<(), String> {
        self.charge_units(value.size().saturating_mul(WORD).saturating_mul(count as u64))
    }

    /// Charges a product, quotient or power of these integers.
    pub(super) fn charge_product(&mut self, left: &BigInt, right: &BigInt) -> Result<(), String> {
        let limbs = |number: &BigInt| number.bits() / 64 + 1;
        self.charge_units(
            limbs(left).saturating_mul(limbs(right)) + WORD * (limbs(left) + limbs(right)),
        )
    }

    /// Charges this many units of the budget.
    pub(super) fn charge_units(&mut self, units: u64) -> Result<(), String> {
        let left = self.0.checked_sub(units);
        self.0 = left.ok_or("the expression is too expensive; use fewer elements or digits")?;
        Ok(())
    }
}
