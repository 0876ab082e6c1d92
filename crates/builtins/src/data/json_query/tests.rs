use serde_json::{Value, json};

use super::{parsed_text, run_query};

fn found(data: &Value, query: &str) -> Value {
    run_query(data, query).unwrap_or_else(|told| panic!("{query}: {told}")).to_value()
}

#[test]
fn json_that_comes_as_a_text_is_queried_and_any_other_text_stays_one() {
    let queried = |data: Value, query: &str| {
        found(&parsed_text(&data).unwrap_or_else(|| data.clone()), query)
    };
    assert_eq!(queried(json!("[1,2]"), "[0]"), json!(1));
    assert_eq!(queried(json!(" {\"a\": {\"b\": 3}}"), "a.b"), json!(3));
    for text in ["plain", "[draft] of it", "{broken", "\"quoted\"", "12"] {
        assert_eq!(queried(json!(text), "length(@)"), json!(text.chars().count()), "{text}");
    }
}

#[test]
fn the_language_is_there() {
    let data = json!({
        "people": [
            {"name": "Ann", "age": 41, "tags": ["a", "b"]},
            {"name": "Bo", "age": 17, "tags": []},
            {"name": "Cy", "age": 30, "tags": ["b", "c"]},
        ],
        "by_id": {"x": {"n": 1}, "y": {"n": 2}},
    });
    for (query, wanted) in [
        ("people[?age > `18`].name", json!(["Ann", "Cy"])),
        ("people[].tags[]", json!(["a", "b", "b", "c"])),
        ("people[-1].name", json!("Cy")),
        ("people[:2].age", json!([41, 17])),
        ("by_id.*.n", json!([1, 2])),
        ("sort_by(people, &age)[].name", json!(["Bo", "Cy", "Ann"])),
        ("max_by(people, &age).name", json!("Ann")),
        ("min_by(people, &length(tags)).name", json!("Bo")),
        ("map(&length(tags), people)", json!([2, 0, 2])),
        (
            "people[?contains(tags, 'c')] | [0].{who: name, old: age}",
            json!({"who": "Cy", "old": 30}),
        ),
        ("sum(people[*].age)", json!(88.0)),
        ("join(', ', people[*].name)", json!("Ann, Bo, Cy")),
        ("length(people) == `3` && !missing", json!(true)),
        ("missing.deeper[0]", Value::Null),
        ("not_null(missing, people[0].name)", json!("Ann")),
        ("max_by(`[]`, &a)", Value::Null),
    ] {
        assert_eq!(found(&data, query), wanted, "{query}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let data = json!({"a": [1, "x"], "s": "x"});
    for (query, told) in [
        ("a[", "query: "),
        ("nope(a)", "query: "),
        ("length(`1`)", "query: "),
        ("sort_by(a, &@)", "query: "),
        ("a[::0]", "query: "),
        ("sort_by(s, &@)", "query: "),
        ("map(s, a)", "query: "),
    ] {
        let error = run_query(&data, query).unwrap_err();
        assert!(
            error.starts_with(told) && error.contains(" at character ") && !error.contains('\n'),
            "{query}: {error}"
        );
    }
}

/// Each would exceed the available memory; the crate alone would attempt it.
#[test]
fn what_would_never_end_is_refused() {
    let many = |part: &str| vec![part; 90 / part.matches(['[', '(', '&']).count()].join(" | ");
    let long = json!({"glue": "x".repeat(100_000), "list": vec!["y"; 50_000]});
    for (data, query) in [
        (&json!(1), many("[@, @]")),
        (&json!([1]), many("[@, @][]")),
        (&json!(1), format!("{} | to_string(@)", many("[@, @]"))),
        (&json!(1), format!("{} | @ == @", many("[@, @]"))),
        (&json!(1), format!("{} | contains(@, @)", many("[@, @]"))),
        (&json!([1, 2]), many("map(&[@, @], @)[]")),
        (&long, "join(glue, list)".to_owned()),
    ] {
        let told = run_query(data, &query).unwrap_err();
        assert!(told.contains("steps"), "{query}: {told}");
    }
}

#[test]
fn what_is_too_long_or_too_nested_is_refused_before_it_is_read() {
    for query in [
        "!".repeat(999),
        "[".repeat(101),
        "a.".repeat(600),
        format!("{}@{}", "(".repeat(400), ")".repeat(400)),
    ] {
        let told = run_query(&json!(1), &query).unwrap_err();
        assert!(told.contains("split it"), "{told}");
    }
    // The maximum permitted depth.
    assert_eq!(found(&json!(1), &format!("a{}", ".a".repeat(490))), Value::Null);
    assert_eq!(found(&json!(1), &format!("{}@{}", "(".repeat(100), ")".repeat(100))), json!(1));
    assert_eq!(found(&json!(true), &format!("{}@", "!".repeat(100))), json!(true));
}

/// Returns the folder of the JMESPath compliance tests, which the crate `jmespath` contains.
#[expect(
    clippy::disallowed_methods,
    reason = "cargo is asked where a crate lies; no tool runs here"
)]
fn cases() -> std::path::PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut ask = std::process::Command::new(cargo);
    ask.args(["metadata", "--format-version", "1", "--offline"]);
    let told = ask.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let crates = told["packages"].as_array().unwrap();
    let found = crates.iter().find(|package| package["name"] == "jmespath").unwrap();
    let manifest = std::path::Path::new(found["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().join("tests/compliance")
}

#[test]
fn the_languages_own_cases_hold() {
    let (mut held, mut broken) = (0, Vec::new());
    for file in std::fs::read_dir(cases()).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let suites: Value = serde_json::from_str(&text).unwrap();
        for suite in suites.as_array().unwrap() {
            for case in suite["cases"].as_array().unwrap() {
                let Some(query) =
                    case["expression"].as_str().filter(|_| case.get("bench").is_none())
                else {
                    continue;
                };
                let found = run_query(&suite["given"], query).map(|json| json.to_value());
                let fits = match (&found, case.get("result")) {
                    (Ok(found), Some(wanted)) => same(found, wanted),
                    (found, None) => found.is_err(),
                    (Err(_), Some(_)) => false,
                };
                held += usize::from(fits);
                if !fits {
                    broken.push(format!("{query}: {found:?}, {:?}", case.get("result")));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(held > 800, "{held} cases");
    println!("{held} cases");
}

/// Compares values; numbers are equal with or without a decimal point.
fn same(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => found == wanted,
    }
}
