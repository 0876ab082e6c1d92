//! Embedding vectors and their cosine similarity.

/// Embedding of a text, with length 1.
pub type TextEmbedding = Vec<f32>;

/// Scales a vector to length 1; `None` if it has no direction.
pub fn normalize_vector(vector: Vec<f32>) -> Option<TextEmbedding> {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let good = length.is_finite() && length > 0.0;
    #[expect(clippy::cast_possible_truncation, reason = "a vector of the model's own precision")]
    let scaled = |x: f32| (f64::from(x) / length) as f32;
    good.then(|| vector.into_iter().map(scaled).collect())
}

/// Returns the cosine of the angle between two vectors of length 1.
pub fn cosine_similarity(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>().clamp(-1.0, 1.0)
}
