//! Embedding vectors and their cosine similarity.

/// The embedding of a text, with length 1.
pub(crate) type Vector = Vec<f32>;

/// The same direction with length 1; nothing where there is no direction.
pub(crate) fn unit(vector: Vec<f32>) -> Option<Vector> {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let good = length.is_finite() && length > 0.0;
    #[expect(clippy::cast_possible_truncation, reason = "a vector of the model's own precision")]
    let scaled = |x: f32| (f64::from(x) / length) as f32;
    good.then(|| vector.into_iter().map(scaled).collect())
}

/// The cosine of the angle between two vectors of length 1.
pub(crate) fn likeness(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>().clamp(-1.0, 1.0)
}
