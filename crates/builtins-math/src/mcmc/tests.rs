use rand::RngExt as _;
use rand_distr::{Distribution as _, StandardNormal};
use serde_json::{Value, json};

use super::diagnostics::diagnose_split_chains;
use crate::random_streams::block_stream;
use crate::tool_execution::tests::{answer, endless, fault, given_up, outcome};

fn number(found: &Value, field: &str, index: usize) -> f64 {
    found[field][index].as_f64().unwrap()
}

#[test]
fn a_gaussian_is_recovered() {
    let args = json!({
        "log_density": "-0.5 * ((x0 - 3) / 2)**2 - 0.5 * x1**2", "x0": [0, 0], "n_samples": 40_000,
        "proposal_std": 2.0,
    });
    let found = answer("mcmc", &args);
    assert!((number(&found, "mean", 0) - 3.0).abs() < 0.2, "{}", found["mean"]);
    assert!((number(&found, "std_dev", 0) / 2.0 - 1.0).abs() < 0.08, "{}", found["std_dev"]);
    assert!((number(&found, "std_dev", 1) - 1.0).abs() < 0.08);
    assert!(
        number(&found, "r_hat", 0) < 1.02 && number(&found, "effective_sample_size", 0) > 1_000.0
    );
    let rate = found["acceptance_rate"].as_f64().unwrap();
    assert!((0.2..0.6).contains(&rate), "{rate}");
    assert_eq!((found["samples"].as_array().unwrap().len(), &found["dimension"]), (100, &json!(2)));
    assert_eq!(found["n_samples"], json!(40_000));
    assert_eq!(answer("mcmc", &args)["mean"], found["mean"], "the seed fixes it all");
}

/// Regression: 40,000 samples made an answer of a megabyte. The figures cover all samples in any
/// case.
#[test]
fn the_samples_returned_are_as_many_as_asked_for() {
    let args = |returned: usize| json!({ "log_density": "-0.5 * x**2", "x0": [0], "n_samples": 400, "max_returned": returned });
    let all = answer("mcmc", &args(400));
    let samples = |found: &Value| found["samples"].as_array().unwrap().clone();
    assert_eq!(samples(&all).len(), 400);
    let few = answer("mcmc", &args(4));
    let wanted: Vec<Value> =
        [0, 100, 200, 300].iter().map(|at| samples(&all)[*at].clone()).collect();
    assert_eq!(samples(&few), wanted);
    assert_eq!(samples(&answer("mcmc", &args(0))), [] as [Value; 0]);
    // Control: no other result depends on it.
    assert_eq!((&few["mean"], &few["covariance"]), (&all["mean"], &all["covariance"]));
}

#[test]
fn steps_are_fitted_where_asked() {
    // A long, thin and rotated density.
    let density = "-0.5 * (((x0 + x1) / 10)**2 + ((x0 - x1) / 0.1)**2)";
    let args = |adapt: bool| json!({ "log_density": density, "x0": [0, 0], "n_samples": 20_000, "burnin": 4_000, "adapt": adapt });
    let (with, without) = (answer("mcmc", &args(true)), answer("mcmc", &args(false)));
    let (with, without) =
        (number(&with, "effective_sample_size", 0), number(&without, "effective_sample_size", 0));
    assert!(with > 500.0 && with > 5.0 * without, "{with} {without}");
}

#[test]
fn chains_that_do_not_agree_are_told() {
    let wells = "log(exp(-0.5 * (x - 20)**2) + exp(-0.5 * (x + 20)**2))";
    let args = json!({ "log_density": wells, "x0": [0], "proposal_std": 1.0, "n_samples": 4_000 });
    let found = answer("mcmc", &args);
    assert!(number(&found, "r_hat", 0) > 1.5, "{}", found["r_hat"]);
    assert!(found["warning"].as_str().unwrap().contains("have not converged"));
    // Control: with steps that reach from one mode to the other.
    let args =
        json!({ "log_density": wells, "x0": [20], "proposal_std": 30.0, "n_samples": 40_000 });
    let found = answer("mcmc", &args);
    assert!(number(&found, "r_hat", 0) < 1.02, "{}", found["r_hat"]);
}

/// The effective size of an autoregressive chain is n (1 - ρ) / (1 + ρ).
#[test]
fn the_effective_size_of_a_known_chain_is_right() {
    for rho in [0.0, 0.5, 0.9, -0.4] {
        let mut draw = block_stream(1, 1);
        let mut halves = Vec::new();
        for _ in 0..4 {
            let mut x: f64 = draw.random();
            let step = |_| {
                let noise: f64 = StandardNormal.sample(&mut draw);
                x = rho * x + (1.0_f64 - rho * rho).sqrt() * noise;
                x
            };
            halves.push((0..20_000).map(step).collect::<Vec<f64>>());
        }
        let judged = diagnose_split_chains(&halves, &endless()).unwrap();
        let expected = 80_000.0 * (1.0 - rho) / (1.0 + rho);
        assert!(
            (judged.effective_sample_size / expected - 1.0).abs() < 0.15,
            "{rho}: {} {expected}",
            judged.effective_sample_size
        );
        assert!((judged.r_hat - 1.0).abs() < 0.005);
    }
}

#[test]
fn what_is_no_density_is_told() {
    for (args, expected) in [
        (
            json!({ "log_density": "log(x)", "x0": [-1] }),
            "`log_density` has no finite value at `x0`",
        ),
        (
            json!({ "log_density": "-x", "x0": [0], "n_samples": 9, "chains": 4 }),
            "at least 4 for each",
        ),
        (
            json!({ "log_density": "-x", "x0": [0], "thin": 10_000, "n_samples": 100_000 }),
            "steps in all",
        ),
        (
            json!({ "log_density": "-x", "x0": vec![0; 50], "n_samples": 10_000 }),
            "at most 8000 with 50",
        ),
        (json!({ "log_density": "-y", "x0": [0] }), "the variables are x or x0"),
    ] {
        let error = fault("mcmc", &args);
        assert!(error.contains(expected), "{error}");
    }
    let still =
        answer("mcmc", &json!({ "log_density": "-1e30 * x**2", "x0": [0], "n_samples": 100 }));
    assert!(still["warning"].as_str().unwrap().contains("smaller `proposal_std`"), "{still}");
    let args = json!({ "log_density": "-x**2", "x0": [0] });
    assert_eq!(outcome("mcmc", &args, &given_up()).unwrap_err(), "the call was cancelled");
}
