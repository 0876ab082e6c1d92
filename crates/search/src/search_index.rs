//! Index of the tools of one view, with statistics of these tools alone.

use std::collections::HashMap;
use std::sync::Arc;

use crate::analyzed_tool::{AnalyzedTool, SearchField, TermCounts};
use crate::name_vocabulary::NameVocabulary;
use crate::quantized_vector::VectorTable;
use crate::ranking_weights::RankingWeights;
use crate::tokenization::TermHash;

/// Occurrence of a term in a tool.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Posting {
    /// Position of the tool.
    pub(crate) tool: u32,
    /// Frequency over all fields, weighted and saturated: 0 to 1.
    pub(crate) frequency: f32,
}

/// Index of the tools of one view. Immutable; a changed view gets another index, and
/// unchanged [`AnalyzedTool`]s are shared between both.
#[derive(Debug)]
pub struct SearchIndex {
    pub(crate) tools: Vec<Arc<AnalyzedTool>>,
    pub(crate) weights: RankingWeights,
    /// Row of each term in `ends`.
    rows: HashMap<TermHash, u32>,
    /// End of each term's postings.
    ends: Vec<usize>,
    postings: Vec<Posting>,
    pub(crate) name_words: NameVocabulary,
    pub(crate) vectors: VectorTable,
}

impl SearchIndex {
    /// Builds the index of the tools of a view, in the view's order.
    pub fn build(tools: Vec<Arc<AnalyzedTool>>) -> Self {
        Self::build_with(tools, RankingWeights::default())
    }

    /// Builds an index with other weights than the default.
    pub fn build_with(tools: Vec<Arc<AnalyzedTool>>, weights: RankingWeights) -> Self {
        let mut rows: HashMap<TermHash, u32> = HashMap::new();
        let mut ends: Vec<usize> = Vec::new();
        for entry in tools.iter().flat_map(|tool| &tool.terms) {
            let row = *rows.entry(entry.term).or_insert_with(|| {
                ends.push(0);
                u32::try_from(ends.len() - 1).unwrap_or(u32::MAX)
            });
            if let Some(count) = ends.get_mut(row as usize) {
                *count += 1;
            }
        }
        // Counts become the beginnings of the rows, which become their ends as the rows fill.
        let mut begin = 0;
        for count in &mut ends {
            begin += std::mem::replace(count, begin);
        }
        let mut postings = vec![Posting::default(); begin];
        let average = average_lengths(&tools);
        let mut vectors = VectorTable::with_capacity(word_vectors::dimensions(), tools.len());
        for (position, tool) in (0..).zip(&tools) {
            let scale = field_scales(tool, &average, &weights);
            for entry in &tool.terms {
                let frequency = term_frequency(entry, &scale, weights.saturation);
                let end = rows.get(&entry.term).and_then(|row| ends.get_mut(*row as usize));
                if let Some(end) = end
                    && let Some(place) = postings.get_mut(*end)
                {
                    *place = Posting { tool: position, frequency };
                    *end += 1;
                }
            }
            if weights.uses_vectors() {
                vectors.push(tool.vector.as_ref());
            }
        }
        let words = tools.iter().flat_map(|tool| tool.name_words.iter().map(|word| &**word));
        let name_words = NameVocabulary::from_words(words);
        Self { tools, weights, rows, ends, postings, name_words, vectors }
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns true if there is no tool.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the occurrences of a term, in the order of the tools.
    pub(crate) fn postings_of(&self, term: TermHash) -> &[Posting] {
        let Some(row) = self.rows.get(&term).map(|row| *row as usize) else { return &[] };
        let end = self.ends.get(row).copied().unwrap_or(0);
        let begin = row.checked_sub(1).and_then(|row| self.ends.get(row)).copied().unwrap_or(0);
        self.postings.get(begin..end).unwrap_or_default()
    }

    /// Returns the inverse document frequency of a term that occurs in a number of tools.
    #[expect(clippy::cast_precision_loss, reason = "numbers of tools, far below 2^24")]
    pub(crate) fn rarity(&self, tools: usize) -> f32 {
        let (all, with) = (self.tools.len() as f32, tools as f32);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln().powf(self.weights.rarity_exponent)
    }
}

type FieldNumbers = [f32; SearchField::ALL.len()];

/// Returns the mean length of each field over the tools that have it: tools without parameters say
/// nothing about the length of others' parameters.
#[expect(clippy::cast_precision_loss, reason = "a mean needs no more digits")]
fn average_lengths(tools: &[Arc<AnalyzedTool>]) -> FieldNumbers {
    let mut sums = [(0_u64, 0_u64); SearchField::ALL.len()];
    for tool in tools {
        for ((sum, number), length) in sums.iter_mut().zip(tool.lengths) {
            *sum += u64::from(length);
            *number += u64::from(length > 0);
        }
    }
    sums.map(|(sum, number)| sum.max(1) as f32 / number.max(1) as f32)
}

/// Returns the weight of one occurrence in each field of a tool.
fn field_scales(
    tool: &AnalyzedTool,
    average: &FieldNumbers,
    weights: &RankingWeights,
) -> FieldNumbers {
    let mut scales = [0.0; SearchField::ALL.len()];
    let fields = weights.fields.iter().zip(tool.lengths).zip(average);
    for (scale, ((field, length), average)) in scales.iter_mut().zip(fields) {
        let share = field.length_share;
        *scale = field.weight / (1.0 - share + share * f32::from(length) / average);
    }
    scales
}

fn term_frequency(entry: &TermCounts, scales: &FieldNumbers, saturation: f32) -> f32 {
    let sum: f32 = entry.counts.iter().zip(scales).map(|(n, scale)| f32::from(*n) * scale).sum();
    sum / (saturation + sum)
}
