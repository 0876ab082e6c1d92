use serde_json::{Value, json};

use crate::tool_execution::tests::{answer, fault};

fn reals(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn near(found: &Value, expected: &[f64]) {
    let found = reals(found);
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{found:?} {expected:?}");
    }
}

fn hilbert(n: u32) -> Vec<Vec<f64>> {
    (1..=n).map(|i| (0..n).map(|j| 1.0 / f64::from(i + j)).collect()).collect()
}

#[test]
fn systems_are_solved() {
    let found = answer("matrix_solve", &json!({ "A": [[3, 1], [1, 2]], "b": [9, 8] }));
    near(&found["x"], &[2.0, 3.0]);
    assert!(found["relative_error"].as_f64().unwrap() < 1e-15);
    assert!((found["condition_number"].as_f64().unwrap() - 2.618_033_988_749_895).abs() < 1e-12);
    // More equations than unknowns: least squares.
    let a = json!([[1, 0], [1, 1], [1, 2]]);
    let found = answer("matrix_op", &json!({ "operation": "solve", "A": a, "b": [6, 0, 0] }));
    near(&found["x"], &[5.0, -3.0]);
    assert_eq!(found["least_squares"], true);
    assert_eq!(answer("matrix_solve", &json!({ "A": [[2]], "b": [0] }))["x"], json!([0.0]));
}

#[test]
fn singular_and_nearly_singular_systems_say_so_with_their_condition() {
    let error = fault("matrix_solve", &json!({ "A": [[1, 2], [2, 4]], "b": [1, 2] }));
    assert!(
        error.starts_with("`A` is singular to the precision of its numbers (rank 1 of 2"),
        "{error}"
    );
    let error = fault("matrix_op", &json!({ "operation": "inverse", "A": [[0, 0], [0, 0]] }));
    assert!(error.contains("condition number infinite"), "{error}");
    let found = answer("matrix_solve", &json!({ "A": hilbert(8), "b": [1, 1, 1, 1, 1, 1, 1, 1] }));
    let condition = found["condition_number"].as_f64().unwrap();
    assert!((condition / 1.525_757_5e10 - 1.0).abs() < 1e-5, "{condition}");
    assert!(found["warning"].as_str().unwrap().contains("about 5 digits"), "{found}");
    let error = fault("matrix_solve", &json!({ "A": hilbert(14), "b": vec![1; 14] }));
    assert!(error.contains("singular"), "{error}");
}

#[test]
fn eigenvalues_of_both_kinds() {
    let args = json!({ "A": [[2, 1], [1, 2]], "vectors": true });
    let found = answer("matrix_eigenvalues", &args);
    near(&found["eigenvalues"], &[1.0, 3.0]);
    let vectors: Vec<Vec<f64>> =
        found["eigenvectors"].as_array().unwrap().iter().map(reals).collect();
    assert!((vectors[0][1] - vectors[1][1]).abs() < 1e-15, "the second column is (1, 1)");
    // A rotation has no real eigenvalues.
    let found = answer("matrix_eigenvalues", &json!({ "A": [[0, -1], [1, 0]] }));
    assert_eq!(found["complex"], true);
    let imaginary: Vec<f64> = found["eigenvalues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|z| z["im"].as_f64().unwrap())
        .collect();
    assert!((imaginary[0] + 1.0).abs() < 1e-15 && (imaginary[1] - 1.0).abs() < 1e-15);
    let found = answer("matrix_eigenvalues", &json!({ "A": [[1, 5], [0, -2]] }));
    near(&found["eigenvalues"], &[-2.0, 1.0]);
}

#[test]
fn singular_values_and_what_they_are_made_of() {
    let a = [[3.0, 0.0], [4.0, 5.0], [0.0, 0.0]];
    for full in [false, true] {
        let found = answer("matrix_svd", &json!({ "A": a, "full": full }));
        near(&found["singular_values"], &[45.0_f64.sqrt(), 5.0_f64.sqrt()]);
        assert_eq!(found["rank"], 2);
        let u: Vec<Vec<f64>> = found["U"].as_array().unwrap().iter().map(reals).collect();
        let v: Vec<Vec<f64>> = found["V"].as_array().unwrap().iter().map(reals).collect();
        assert_eq!((u[0].len(), v.len()), (if full { 3 } else { 2 }, 2));
        let s = reals(&found["singular_values"]);
        for (i, row) in a.iter().enumerate() {
            for (j, expected) in row.iter().enumerate() {
                let product: f64 = (0..2).map(|k| u[i][k] * s[k] * v[j][k]).sum();
                assert!((product - expected).abs() < 1e-13);
            }
        }
    }
    let found = answer("matrix_svd", &json!({ "A": [[1, 2], [2, 4]] }));
    assert_eq!(found["rank"], 1);
    assert_eq!(answer("matrix_svd", &json!({ "A": [[0]] }))["condition_number"], Value::Null);
}

#[test]
fn inverses_and_determinants() {
    let found = answer("matrix_op", &json!({ "operation": "inverse", "A": [[4, 7], [2, 6]] }));
    near(&found["inverse"][0], &[0.6, -0.7]);
    near(&found["inverse"][1], &[-0.2, 0.4]);
    let det = |a: Value| {
        answer("matrix_op", &json!({ "operation": "det", "A": a }))["determinant"].as_f64().unwrap()
    };
    for (a, expected) in [
        (json!([[5]]), 5.0),
        (json!([[1, 2], [3, 4]]), -2.0),
        (json!([[0, 1], [1, 0]]), -1.0),
        (json!([[0, 1, 0], [0, 0, 1], [1, 0, 0]]), 1.0),
        (json!([[1, 2], [2, 4]]), 0.0),
        (json!([[0, 0], [0, 0]]), 0.0),
        (json!([[2, 0, 0], [0, 0, 3], [0, 4, 0]]), -24.0),
        (json!([[1e200, 0, 0], [0, 1e200, 0], [0, 0, 1e-300]]), 1e100),
    ] {
        assert!(
            (det(a.clone()) - expected).abs() <= 1e-12 * expected.abs(),
            "{a} {}",
            det(a.clone())
        );
    }
    let error = fault("matrix_op", &json!({ "operation": "det", "A": [[1e200, 0], [0, -1e200]] }));
    assert!(error.starts_with("the determinant is too large"), "{error}");
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    for (tool, args, expected) in [
        (
            "matrix_solve",
            json!({ "A": [[1, 2], [3]], "b": [1, 2] }),
            "row 2 of `A` has 1 numbers, but row 1 has 2; all rows must have the same length",
        ),
        (
            "matrix_solve",
            json!({ "A": [[1, 2], [3, 4]], "b": [1] }),
            "`b` has 1 numbers, `A` has 2 rows; they must be as many",
        ),
        (
            "matrix_solve",
            json!({ "A": [[1, 2]], "b": [1] }),
            "`A` is 1 × 2: with fewer equations than unknowns there is no single answer",
        ),
        ("matrix_eigenvalues", json!({ "A": [[1, 2]] }), "`A` is 1 × 2; it must be square"),
        (
            "matrix_svd",
            json!({ "A": [] }),
            "`A` is empty; it must have at least one row and one column",
        ),
        ("matrix_svd", json!({ "A": [[1, "x"]] }), "`A[0][1]` is text, it must be a number"),
        ("matrix_svd", json!({ "A": [1, 2] }), "`A[0]` is a number, it must be a row of numbers"),
        ("matrix_op", json!({ "A": [[1]] }), "`operation` is missing"),
        (
            "matrix_op",
            json!({ "A": [[1]], "operation": "rank" }),
            "`operation` is `rank`; it must be one of solve, eigen, svd, inverse, det",
        ),
        (
            "matrix_svd",
            json!({ "A": vec![vec![1]; 513] }),
            "`A` is 513 × 1; at most 512 × 512 are allowed",
        ),
    ] {
        assert_eq!(fault(tool, &args), expected);
    }
}
