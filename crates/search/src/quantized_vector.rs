//! Vectors of texts with one byte per number, and tables of them that are compared with a query.

/// A vector of length 1, one byte per number with a common scale.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedVector {
    bytes: Box<[i8]>,
    scale: f32,
}

impl QuantizedVector {
    /// Rounds a vector of length 1 to bytes; `None` if all its numbers are 0, or one is none.
    pub fn from_numbers(vector: &[f32]) -> Option<Self> {
        let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        if !largest.is_normal() || vector.iter().any(|x| x.is_nan()) {
            return None;
        }
        let scale = largest / 127.0;
        #[expect(clippy::cast_possible_truncation, reason = "rounded to -127 to 127")]
        let byte = |x: &f32| (x / scale).round() as i8;
        Some(Self { bytes: vector.iter().map(byte).collect(), scale })
    }

    /// Returns the built-in word vector of a text; `None` if it has no known word.
    pub(crate) fn of_words(text: &str) -> Option<Self> {
        Self::from_numbers(&word_vectors::embed(text).ok()?)
    }

    /// Returns the vector as bytes: its scale, then its numbers.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.bytes.iter().map(|number| number.cast_unsigned());
        self.scale.to_le_bytes().into_iter().chain(numbers).collect()
    }

    /// Reads a vector that [`to_bytes`](Self::to_bytes) wrote; `None` for any other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (scale, numbers) = bytes.split_first_chunk::<4>()?;
        let scale = Some(f32::from_le_bytes(*scale)).filter(|it| it.is_normal() && *it > 0.0)?;
        let bytes: Box<[i8]> = numbers.iter().map(|number| number.cast_signed()).collect();
        (!bytes.is_empty()).then_some(Self { bytes, scale })
    }

    /// Returns how many numbers it has.
    pub fn dimensions(&self) -> usize {
        self.bytes.len()
    }
}

/// Vectors of all tools of an index, one after the other.
#[derive(Debug, Default)]
pub struct VectorTable {
    dimensions: usize,
    bytes: Vec<i8>,
    /// Scale of each row; 0 for a tool without a vector.
    scales: Vec<f32>,
}

impl VectorTable {
    /// Creates a table of vectors with a number of dimensions, with room for a number of tools.
    pub fn with_capacity(dimensions: usize, tools: usize) -> Self {
        let (bytes, scales) = (Vec::with_capacity(tools * dimensions), Vec::with_capacity(tools));
        Self { dimensions, bytes, scales }
    }

    /// Appends the vector of the next tool. One of other dimensions counts as none.
    pub fn push(&mut self, vector: Option<&QuantizedVector>) {
        let vector = vector.filter(|vector| vector.dimensions() == self.dimensions);
        match vector {
            Some(vector) => self.bytes.extend_from_slice(&vector.bytes),
            None => self.bytes.resize(self.bytes.len() + self.dimensions, 0),
        }
        self.scales.push(vector.map_or(0.0, |vector| vector.scale));
    }

    /// Returns the cosine of the angle between a query and each tool; for a tool without vector the
    /// mean of the others, which tells nothing for or against it.
    pub(crate) fn cosines(&self, query: &QuantizedVector) -> Vec<f32> {
        let rows = self.bytes.chunks_exact(self.dimensions.max(1)).zip(&self.scales);
        let mut cosines: Vec<f32> =
            rows.map(|(row, scale)| dot_product(row, &query.bytes) * scale * query.scale).collect();
        let known = self.scales.iter().filter(|scale| **scale > 0.0).count();
        if known > 0 && known < cosines.len() {
            let mean = sum(&cosines) / small_number(known);
            let rows = cosines.iter_mut().zip(&self.scales);
            rows.filter(|(_, scale)| **scale <= 0.0).for_each(|(cosine, _)| *cosine = mean);
        }
        cosines
    }

    /// Returns the cosine of the angle between a query and one tool; 0 for a tool without vector.
    pub(crate) fn cosine_at(&self, position: usize, query: &QuantizedVector) -> f32 {
        let begin = position * self.dimensions;
        let row = self.bytes.get(begin..begin + self.dimensions).unwrap_or_default();
        let scale = self.scales.get(position).copied().unwrap_or(0.0);
        dot_product(row, &query.bytes) * scale * query.scale
    }
}

/// Returns the mean of numbers; 0 of none.
pub(crate) fn mean(numbers: &[f32]) -> f32 {
    sum(numbers) / small_number(numbers.len().max(1))
}

#[expect(clippy::cast_possible_truncation, reason = "a sum of numbers of this precision")]
fn sum(numbers: &[f32]) -> f32 {
    numbers.iter().map(|x| f64::from(*x)).sum::<f64>() as f32
}

#[expect(clippy::cast_precision_loss, reason = "numbers of tools or terms, far below 2^24")]
pub(crate) fn small_number(number: usize) -> f32 {
    number as f32
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred products of two bytes")]
fn dot_product(a: &[i8], b: &[i8]) -> f32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>() as f32
}
