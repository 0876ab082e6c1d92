//! The second tier: cosines of word vectors, one byte per number.

use word_vectors::{dimensions, embed};

/// A word vector of length 1, one byte per number with a common scale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WordVector {
    bytes: Box<[i8]>,
    scale: f32,
}

impl WordVector {
    /// Returns the vector of a text; `None` if it has no known word.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let vector = embed(text).ok()?;
        let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        if largest <= 0.0 {
            return None;
        }
        let scale = largest / 127.0;
        #[expect(clippy::cast_possible_truncation, reason = "rounded to -127 to 127")]
        let byte = |x: &f32| (x / scale).round() as i8;
        Some(Self { bytes: vector.iter().map(byte).collect(), scale })
    }
}

/// Vectors of all tools of an index, one after the other.
#[derive(Debug, Default)]
pub(crate) struct VectorTable {
    bytes: Vec<i8>,
    /// Scale of each row; 0 for a tool without a vector.
    scales: Vec<f32>,
}

impl VectorTable {
    /// Creates a table with room for a number of tools.
    pub(crate) fn with_capacity(tools: usize) -> Self {
        Self { bytes: Vec::with_capacity(tools * dimensions()), scales: Vec::with_capacity(tools) }
    }

    /// Appends the vector of the next tool.
    pub(crate) fn push(&mut self, vector: Option<&WordVector>) {
        match vector {
            Some(vector) => self.bytes.extend_from_slice(&vector.bytes),
            None => self.bytes.resize(self.bytes.len() + dimensions(), 0),
        }
        self.scales.push(vector.map_or(0.0, |vector| vector.scale));
    }

    /// Returns the cosine of the angle between a query and each tool; 0 for a tool without vector.
    pub(crate) fn cosines(&self, query: &WordVector) -> Vec<f32> {
        let rows = self.bytes.chunks_exact(dimensions()).zip(&self.scales);
        rows.map(|(row, scale)| dot_product(row, &query.bytes) * scale * query.scale).collect()
    }
}

impl VectorTable {
    /// Returns the cosine of the angle between a query and one tool.
    pub(crate) fn cosine_at(&self, position: usize, query: &WordVector) -> f32 {
        let begin = position * dimensions();
        let row = self.bytes.get(begin..begin + dimensions()).unwrap_or_default();
        let scale = self.scales.get(position).copied().unwrap_or(0.0);
        dot_product(row, &query.bytes) * scale * query.scale
    }
}

#[expect(clippy::cast_precision_loss, reason = "below 2^24: 192 products of two bytes")]
fn dot_product(a: &[i8], b: &[i8]) -> f32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>() as f32
}
