//! Numbers read from the text of the arguments, without a tree of them: for lists that are large.
//!
//! Only what is plainly right is read here. Whatever is not goes the long way, which says what is wrong.

use faer::Mat;
use tool::json::Look;

use super::Fields;

impl<'a> Fields<'a> {
    /// A list of finite numbers.
    pub(super) fn plain_numbers(self, name: &str) -> Option<Vec<f64>> {
        self.look(name).and_then(numbers)
    }

    /// Rows of equal length, at least one and at most `most`, and as long.
    pub(super) fn plain_matrix(self, name: &str, most: usize) -> Option<Mat<f64>> {
        let rows = self.look(name).filter(|rows| rows.kind() == "array")?;
        // One more than allowed is enough to see that there are too many.
        let rows: Vec<Vec<f64>> =
            rows.elements().take(most.saturating_add(1)).map(numbers).collect::<Option<_>>()?;
        let width = rows.first()?.len();
        let allowed = 1..=most;
        let even = rows.iter().all(|row| row.len() == width);
        let at = |i: usize, j: usize| rows.get(i).and_then(|row| row.get(j)).copied();
        (even && allowed.contains(&width) && allowed.contains(&rows.len()))
            .then(|| Mat::from_fn(rows.len(), width, |i, j| at(i, j).unwrap_or_default()))
    }

    fn look(self, name: &str) -> Option<Look<'a>> {
        let Self::Whole(args) = self else { return None };
        args.raw().look().members().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// What was checked to be JSON and is read as a number is one: text has quotes, and words are no numbers.
fn numbers(list: Look<'_>) -> Option<Vec<f64>> {
    let number = |it: Look<'_>| it.as_str().parse().ok().filter(|x: &f64| x.is_finite());
    (list.kind() == "array").then(|| list.elements().map(number).collect())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tool::Args;

    use super::Fields;

    fn args(value: &Value) -> Args {
        Args::check(serde_json::to_vec(value).unwrap()).unwrap()
    }

    #[test]
    fn what_is_not_plain_goes_the_long_way_and_says_so() {
        let args = args(&json!({
            "words": ["nan", "1"], "holes": [1, null], "ragged": [[1, 2], [3]], "flat": [1, 2],
            "none": [], "hollow": [[], []], "wide": [[1, 2, 3, 4]], "number": 1,
        }));
        let fields = Fields::of(&args);
        for name in ["words", "holes", "number", "missing"] {
            assert_eq!(fields.plain_numbers(name), None, "{name}");
            assert!(fields.numbers(name, 0..=9).is_err(), "{name}");
        }
        for name in ["ragged", "flat", "none", "hollow", "wide", "number", "missing"] {
            assert_eq!(fields.plain_matrix(name, 3), None, "{name}");
            assert!(fields.matrix(name, 3).is_err(), "{name}");
        }
    }

    proptest! {
        /// To the last bit what the tree has.
        #[test]
        fn the_text_has_the_numbers_of_the_tree(
            rows in (1_usize..5).prop_flat_map(|width| {
                prop::collection::vec(prop::collection::vec(prop::num::f64::NORMAL, width), 1..5)
            }),
            whole in prop::collection::vec(any::<i64>(), 0..9),
        ) {
            let value = json!({"A": rows, "b": whole});
            let args = args(&value);
            let (text, tree) = (Fields::of(&args), Fields::inside(&value));
            prop_assert_eq!(text.plain_matrix("A", 5).unwrap(), tree.matrix("A", 5).unwrap());
            prop_assert_eq!(text.plain_numbers("b").unwrap(), tree.numbers("b", 0..=9).unwrap());
        }
    }
}
