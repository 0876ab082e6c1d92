//! A part of an index: the postings, words and vectors of neighbouring tools.

use std::sync::Arc;

use crate::analyzed_tool::{AnalyzedTool, FieldLengths, SearchField};
use crate::name_vocabulary::NameVocabulary;
use crate::term_postings::{MAX_TOOLS, TermPostings};
use crate::vector_table::VectorTable;

/// Index of neighbouring tools of a view. Immutable, and shared by all indexes whose views have
/// these tools side by side: it has nothing that depends on other tools.
#[derive(Debug)]
pub struct IndexSegment {
    pub(crate) terms: TermPostings,
    /// Lengths of the fields of each tool.
    pub(crate) lengths: Box<[FieldLengths]>,
    pub(crate) length_sums: LengthSums,
    pub(crate) name_words: NameVocabulary,
    pub(crate) vectors: VectorTable,
}

impl IndexSegment {
    /// Indexes tools in their order, at most 1,048,576.
    pub fn build(tools: &[Arc<AnalyzedTool>]) -> Self {
        let tools = tools.get(..MAX_TOOLS).unwrap_or(tools);
        let words = tools.iter().flat_map(|tool| tool.name_words.iter().map(|word| &**word));
        let mut vectors = VectorTable::with_capacity(word_vectors::dimensions(), tools.len());
        for tool in tools {
            vectors.push(tool.vector.as_ref());
        }
        let lengths: Box<[FieldLengths]> = tools.iter().map(|tool| tool.lengths).collect();
        let mut length_sums = LengthSums::default();
        for lengths in &lengths {
            length_sums.add_tool(lengths);
        }
        Self {
            terms: TermPostings::from_tools(tools.iter().map(AsRef::as_ref)),
            lengths,
            length_sums,
            name_words: NameVocabulary::from_words(words),
            vectors,
        }
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns true if there is no tool.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.terms.memory_bytes()
            + size_of_val(&*self.lengths)
            + self.name_words.memory_bytes()
            + self.vectors.memory_bytes()
    }
}

/// Sums of the lengths of fields, over the tools that have the field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LengthSums([LengthSum; SearchField::ALL.len()]);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LengthSum {
    words: u64,
    tools: u64,
}

impl LengthSums {
    fn add_tool(&mut self, lengths: &FieldLengths) {
        for (sum, length) in self.0.iter_mut().zip(lengths) {
            sum.words += u64::from(*length);
            sum.tools += u64::from(*length > 0);
        }
    }

    /// Adds those of other tools.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, other) in self.0.iter_mut().zip(other.0) {
            sum.words += other.words;
            sum.tools += other.tools;
        }
    }

    /// Returns the mean length of each field. Tools without parameters say nothing about the length of
    /// others' parameters.
    #[expect(clippy::cast_precision_loss, reason = "a mean needs no more digits")]
    pub(crate) fn means(&self) -> [f32; SearchField::ALL.len()] {
        self.0.map(|sum| sum.words.max(1) as f32 / sum.tools.max(1) as f32)
    }
}
