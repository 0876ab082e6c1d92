//! The fast path for large number lists: parses them from the JSON text without a tree.
//!
//! The fast path accepts valid input only. Everything else takes the slow path, which reports the
//! error.

use faer::Mat;
use json::Pass;

use super::Fields;

impl Fields<'_> {
    /// A list of finite numbers.
    pub(super) fn plain_numbers(self, name: &str) -> Option<Vec<f64>> {
        self.passed(name, numbers)
    }

    /// Rows of equal length, at least one and at most `most`, and as long.
    pub(super) fn plain_matrix(self, name: &str, most: usize) -> Option<Mat<f64>> {
        let rows = self.passed(name, |pass| rows(pass, most))?;
        let width = rows.first()?.len();
        let even = rows.iter().all(|row| row.len() == width);
        let at = |i: usize, j: usize| rows.get(i).and_then(|row| row.get(j)).copied();
        (even && (1..=most).contains(&width))
            .then(|| Mat::from_fn(rows.len(), width, |i, j| at(i, j).unwrap_or_default()))
    }

    /// What `read` makes of the argument, on one pass over the text.
    fn passed<T>(self, name: &str, read: impl Fn(&mut Pass<'_>) -> Option<T>) -> Option<T> {
        let Self::Whole(args) = self else { return None };
        let mut found = None;
        // What stops the pass is that it was found.
        let gone = Pass::over(args.raw()).members(|pass, key| {
            if key != name {
                return Ok(());
            }
            found = read(pass);
            Err(())
        });
        gone.err().and(found)
    }
}

fn rows(pass: &mut Pass<'_>, most: usize) -> Option<Vec<Vec<f64>>> {
    let mut rows = Vec::new();
    let gone = (pass.kind() == "array").then(|| {
        pass.elements(|pass, place| {
            let row = numbers(pass).filter(|_| place < most).ok_or(())?;
            rows.push(row);
            Ok::<_, ()>(())
        })
    });
    gone?.ok().map(|()| rows)
}

/// What was checked to be JSON and is read as a number is one: text has quotes, and words are no numbers.
fn numbers(pass: &mut Pass<'_>) -> Option<Vec<f64>> {
    let mut numbers = Vec::new();
    let gone = (pass.kind() == "array").then(|| {
        pass.elements(|pass, _| {
            let number: f64 = pass.value().as_str().parse().map_err(drop)?;
            numbers.push(number);
            if number.is_finite() { Ok(()) } else { Err(()) }
        })
    });
    gone?.ok().map(|()| numbers)
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
