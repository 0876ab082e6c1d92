//! The budget of one evaluation: how much it may compute and store.

use num_bigint::BigInt;

use super::value::Value;

/// Elements of one list or array.
pub(super) const MAX_ELEMENTS: usize = 100_000;
/// About a second of arithmetic, and about 100 MB of values.
const UNITS: u64 = 100_000_000;
/// An element of a list, which has a tag and may have an allocation.
const ELEMENT: u64 = 40;
/// An element of an array, or a word of a whole number.
const WORD: u64 = 8;
/// One node of the tree.
const NODE: u64 = 20;

/// Counts the work of one evaluation: no expression takes more time or memory than this allows.
#[derive(Debug)]
pub(super) struct Budget(u64);

impl Budget {
    pub(super) fn new() -> Self {
        Self(UNITS)
    }

    /// So many elements are about to be stored.
    ///
    /// # Errors
    /// Words for the model, where they are too many.
    pub(super) fn elements(&mut self, count: usize) -> Result<(), String> {
        if count > MAX_ELEMENTS {
            return Err(format!("a list of {count} elements; {MAX_ELEMENTS} are allowed"));
        }
        self.spend((count as u64).saturating_mul(ELEMENT))
    }

    /// One more element for a list that has `count`.
    pub(super) fn push(&mut self, count: usize) -> Result<(), String> {
        if count >= MAX_ELEMENTS {
            return self.elements(count + 1);
        }
        self.spend(ELEMENT)
    }

    /// A node is evaluated.
    pub(super) fn node(&mut self) -> Result<(), String> {
        self.spend(NODE)
    }

    /// An array of so many elements.
    pub(super) fn vector(&mut self, count: usize) -> Result<(), String> {
        if count > MAX_ELEMENTS {
            return self.elements(count);
        }
        self.spend((count as u64).saturating_mul(WORD))
    }

    /// A value is stored so many times.
    pub(super) fn copies(&mut self, value: &Value, count: usize) -> Result<(), String> {
        self.spend(value.size().saturating_mul(WORD).saturating_mul(count as u64))
    }

    /// A product, quotient or power of such numbers.
    pub(super) fn product(&mut self, left: &BigInt, right: &BigInt) -> Result<(), String> {
        let limbs = |number: &BigInt| number.bits() / 64 + 1;
        self.spend(limbs(left).saturating_mul(limbs(right)) + WORD * (limbs(left) + limbs(right)))
    }

    /// So many units.
    pub(super) fn spend(&mut self, units: u64) -> Result<(), String> {
        let left = self.0.checked_sub(units);
        self.0 =
            left.ok_or("the expression computes too much; ask for fewer elements or digits")?;
        Ok(())
    }
}
