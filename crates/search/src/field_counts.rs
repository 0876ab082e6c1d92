//! Counts of a term in the fields of a tool, as bits.

use crate::analyzed_tool::SearchField;

/// Occurrences of a term in one field that count; the length of the field counts all. A description
/// that repeats keywords gains nothing by more of them.
const MAX_REPEATS: u32 = 3;
/// Bits of the count in one field.
const COUNT_BITS: u32 = 2;

/// How often a term occurs in each field, at most [`MAX_REPEATS`] times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FieldCounts(u32);

impl FieldCounts {
    /// Number of bits that it has: two for each of the fields.
    pub(crate) const BITS: u32 = COUNT_BITS * 6;

    /// Counts one more occurrence in a field.
    pub(crate) fn add(&mut self, field: SearchField) {
        let shift = COUNT_BITS * field as u32;
        if (self.0 >> shift) & MAX_REPEATS < MAX_REPEATS {
            self.0 += 1 << shift;
        }
    }

    /// Returns the counts as bits.
    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    /// Reads the counts from the lowest bits of a number.
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// Returns the number of the only field in which the term occurs, with the count; `None` if there are
    /// several.
    pub(crate) fn single(self) -> Option<(usize, u32)> {
        let field = self.0.trailing_zeros() / COUNT_BITS;
        let count = self.0.checked_shr(COUNT_BITS * field)?;
        (count <= MAX_REPEATS).then_some((field as usize, count))
    }

    /// Iterates over the numbers of the fields in which the term occurs, with the counts.
    pub(crate) fn iter(self) -> impl Iterator<Item = (usize, u32)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let field = (rest != 0).then(|| rest.trailing_zeros() / COUNT_BITS)?;
            let shift = COUNT_BITS * field;
            let count = (rest >> shift) & MAX_REPEATS;
            rest &= !(MAX_REPEATS << shift);
            Some((field as usize, count))
        })
    }

    /// Returns the fields in which the term occurs.
    pub(crate) fn fields(self) -> impl Iterator<Item = SearchField> {
        self.iter().filter_map(|(field, _)| SearchField::ALL.get(field).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::FieldCounts;
    use crate::analyzed_tool::SearchField;

    #[test]
    fn each_field_counts_up_to_three_of_its_own() {
        assert_eq!(FieldCounts::BITS as usize, 2 * SearchField::ALL.len());
        let mut counts = FieldCounts::default();
        for (field, times) in
            [(SearchField::Name, 1), (SearchField::Title, 9), (SearchField::Source, 2)]
        {
            (0..times).for_each(|_| counts.add(field));
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(0, 1), (1, 3), (5, 2)]);
        let fields = [SearchField::Name, SearchField::Title, SearchField::Source];
        assert!(counts.fields().eq(fields));
        assert_eq!((counts.single(), FieldCounts::default().single()), (None, None));
        for field in SearchField::ALL {
            let mut counts = FieldCounts::default();
            counts.add(field);
            counts.add(field);
            assert_eq!(counts.single(), Some((field as usize, 2)));
        }
        assert_eq!(FieldCounts::from_bits(counts.to_bits() | 7 << FieldCounts::BITS), counts);
    }
}
