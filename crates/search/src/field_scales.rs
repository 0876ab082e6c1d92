//! Weights of occurrences in fields, by the lengths of the fields: the part of BM25F that depends on
//! the mean lengths of a view.

use crate::analyzed_tool::{FieldLengths, SearchField};
use crate::field_counts::FieldCounts;
use crate::quantized_vector::small_number;
use crate::ranking_weights::{FieldWeight, RankingWeights};

/// Lengths whose weights are in tables. Most fields are shorter.
const TABLE_LENGTHS: usize = 256;
/// Counts in one field whose frequencies are in tables: all.
const TABLE_COUNTS: usize = 3;

/// Weights of one field by its length.
#[derive(Debug)]
struct FieldScale {
    weight: FieldWeight,
    mean_length: f32,
    scales: [f32; TABLE_LENGTHS],
    /// Frequencies of a term that occurs in this field alone, by its count less one.
    frequencies: [[f32; TABLE_LENGTHS]; TABLE_COUNTS],
}

impl FieldScale {
    fn new(weight: FieldWeight, mean_length: f32, saturation: f32) -> Self {
        let (scales, frequencies) = ([0.0; TABLE_LENGTHS], [[0.0; TABLE_LENGTHS]; TABLE_COUNTS]);
        let mut scale = Self { weight, mean_length, scales, frequencies };
        scale.scales = std::array::from_fn(|length| scale.compute(small_number(length)));
        scale.frequencies = std::array::from_fn(|before| {
            scale.scales.map(|scale| saturate(small_number(before + 1) * scale, saturation))
        });
        scale
    }

    fn compute(&self, length: f32) -> f32 {
        let share = self.weight.length_share;
        self.weight.weight / (1.0 - share + share * length / self.mean_length)
    }

    fn at(&self, length: u16) -> f32 {
        let known = self.scales.get(usize::from(length)).copied();
        known.unwrap_or_else(|| self.compute(f32::from(length)))
    }
}

fn saturate(sum: f32, saturation: f32) -> f32 {
    sum / (saturation + sum)
}

/// Weights of the occurrences of a term in a tool.
#[derive(Debug)]
pub(crate) struct FieldScales {
    fields: Box<[FieldScale]>,
    saturation: f32,
}

impl FieldScales {
    /// Creates the weights for a view with these mean lengths.
    pub(crate) fn new(weights: &RankingWeights, means: [f32; SearchField::ALL.len()]) -> Self {
        let saturation = weights.saturation;
        let fields = weights.fields.iter().zip(means);
        let fields = fields.map(|(field, mean)| FieldScale::new(*field, mean, saturation));
        Self { fields: fields.collect(), saturation }
    }

    /// Returns the frequency of a term over all fields of a tool, weighted and saturated: 0 to 1.
    #[inline]
    pub(crate) fn frequency(&self, counts: FieldCounts, lengths: &FieldLengths) -> f32 {
        let single = counts.single().and_then(|it| self.single_frequency(it, lengths));
        single.unwrap_or_else(|| self.joint_frequency(counts, lengths))
    }

    fn single_frequency(
        &self,
        (field, count): (usize, u32),
        lengths: &FieldLengths,
    ) -> Option<f32> {
        let length = usize::from(*lengths.get(field)?);
        let frequencies = self.fields.get(field)?.frequencies.get(count as usize - 1)?;
        frequencies.get(length).copied()
    }

    fn joint_frequency(&self, counts: FieldCounts, lengths: &FieldLengths) -> f32 {
        let weighted = counts.iter().map(|(field, count)| {
            let scale = self.fields.get(field).zip(lengths.get(field));
            scale.map_or(0.0, |(scale, length)| small_number(count as usize) * scale.at(*length))
        });
        saturate(weighted.sum(), self.saturation)
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldScales, TABLE_LENGTHS};
    use crate::analyzed_tool::SearchField;
    use crate::field_counts::FieldCounts;
    use crate::ranking_weights::RankingWeights;

    #[test]
    fn tables_have_what_the_formula_says() {
        let weights = RankingWeights::default();
        let scales = FieldScales::new(&weights, [3.0, 2.5, 40.0, 6.0, 20.0, 4.0]);
        for (number, field) in SearchField::ALL.into_iter().enumerate() {
            let mut counts = FieldCounts::default();
            for _ in 0..3 {
                counts.add(field);
                for length in [1, 2, 255, 256, 60_000_u16] {
                    let lengths = [length; SearchField::ALL.len()];
                    let found = scales.frequency(counts, &lengths);
                    let expected = scales.joint_frequency(counts, &lengths);
                    assert_eq!(found.to_bits(), expected.to_bits(), "{field:?} {length}");
                    let single = scales.single_frequency(counts.single().unwrap(), &lengths);
                    assert_eq!(single.is_some(), usize::from(length) < TABLE_LENGTHS);
                    let scale = scales.fields[number].compute(f32::from(length));
                    assert_eq!(scales.fields[number].at(length).to_bits(), scale.to_bits());
                }
            }
        }
    }
}
