//! Vectors of texts with one byte per number.

/// A vector of length 1, one byte per number with a common scale.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedVector {
    pub(crate) bytes: Box<[i8]>,
    pub(crate) scale: f32,
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

/// Returns the mean of numbers; 0 of none.
pub(crate) fn mean(numbers: &[f32]) -> f32 {
    sum(numbers) / small_number(numbers.len().max(1))
}

#[expect(clippy::cast_possible_truncation, reason = "a sum of numbers of this precision")]
pub(crate) fn sum(numbers: &[f32]) -> f32 {
    numbers.iter().map(|x| f64::from(*x)).sum::<f64>() as f32
}

#[expect(clippy::cast_precision_loss, reason = "numbers of tools or terms, far below 2^24")]
pub(crate) fn small_number(number: usize) -> f32 {
    number as f32
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred products of two bytes")]
pub(crate) fn dot_product(a: &[i8], b: &[i8]) -> f32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>() as f32
}
