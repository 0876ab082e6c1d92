//! The fast path for large number lists: parses them from the JSON text without a tree.
//!
//! The fast path accepts valid input only. Everything else takes the slow path, which reports the
//! error.

use faer::Mat;
use json::JsonCursor;

use super::ToolArguments;

impl ToolArguments<'_> {
    /// Parses a list of finite numbers.
    pub(super) fn try_f64_list(self, name: &str) -> Option<Vec<f64>> {
        self.with_cursor(name, read_numbers)
    }

    /// Parses rows of equal length: at least one, and at most `max_size` rows and columns.
    pub(super) fn try_matrix(self, name: &str, max_size: usize) -> Option<Mat<f64>> {
        let rows = self.with_cursor(name, |pass| read_rows(pass, max_size))?;
        let width = rows.first()?.len();
        let even = rows.iter().all(|row| row.len() == width);
        let at = |i: usize, j: usize| rows.get(i).and_then(|row| row.get(j)).copied();
        (even && (1..=max_size).contains(&width))
            .then(|| Mat::from_fn(rows.len(), width, |i, j| at(i, j).unwrap_or_default()))
    }

    /// Applies `read` to the argument in one pass over the text.
    fn with_cursor<T>(
        self,
        name: &str,
        read: impl Fn(&mut JsonCursor<'_>) -> Option<T>,
    ) -> Option<T> {
        let Self::Whole(args) = self else { return None };
        let mut found = None;
        // The pass stops with an error once the argument is found.
        let gone = JsonCursor::from_json(args.as_json()).for_each_member(|pass, key| {
            if key != name {
                return Ok(());
            }
            found = read(pass);
            Err(())
        });
        gone.err().and(found)
    }
}

fn read_rows(pass: &mut JsonCursor<'_>, most: usize) -> Option<Vec<Vec<f64>>> {
    let mut rows = Vec::new();
    let gone = (pass.kind() == "array").then(|| {
        pass.for_each_element(|pass, place| {
            let row = read_numbers(pass).filter(|_| place < most).ok_or(())?;
            rows.push(row);
            Ok::<_, ()>(())
        })
    });
    gone?.ok().map(|()| rows)
}

/// Text that was validated as JSON and parses as a number is one: strings have quotes, and keywords
/// are no numbers.
fn read_numbers(pass: &mut JsonCursor<'_>) -> Option<Vec<f64>> {
    let mut numbers = Vec::new();
    let gone = (pass.kind() == "array").then(|| {
        pass.for_each_element(|pass, _| {
            let number: f64 = pass.next_value().as_str().parse().map_err(drop)?;
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
    use tool::CallArguments;

    use super::ToolArguments;

    fn args(value: &Value) -> CallArguments {
        CallArguments::parse(serde_json::to_vec(value).unwrap()).unwrap()
    }

    #[test]
    fn what_is_not_plain_goes_the_long_way_and_says_so() {
        let args = args(&json!({
            "words": ["nan", "1"], "holes": [1, null], "ragged": [[1, 2], [3]], "flat": [1, 2],
            "none": [], "hollow": [[], []], "wide": [[1, 2, 3, 4]], "number": 1,
        }));
        let fields = ToolArguments::from_args(&args);
        for name in ["words", "holes", "number", "missing"] {
            assert_eq!(fields.try_f64_list(name), None, "{name}");
            assert!(fields.f64_list(name, 0..=9).is_err(), "{name}");
        }
        for name in ["ragged", "flat", "none", "hollow", "wide", "number", "missing"] {
            assert_eq!(fields.try_matrix(name, 3), None, "{name}");
            assert!(fields.matrix_value(name, 3).is_err(), "{name}");
        }
    }

    proptest! {
        /// Equal to the tree's numbers to the last bit.
        #[test]
        fn the_text_has_the_numbers_of_the_tree(
            rows in (1_usize..5).prop_flat_map(|width| {
                prop::collection::vec(prop::collection::vec(prop::num::f64::NORMAL, width), 1..5)
            }),
            whole in prop::collection::vec(any::<i64>(), 0..9),
        ) {
            let value = json!({"A": rows, "b": whole});
            let args = args(&value);
            let (text, tree) = (ToolArguments::from_args(&args), ToolArguments::from_value(&value));
            prop_assert_eq!(text.try_matrix("A", 5).unwrap(), tree.matrix_value("A", 5).unwrap());
            prop_assert_eq!(text.try_f64_list("b").unwrap(), tree.f64_list("b", 0..=9).unwrap());
        }
    }
}
