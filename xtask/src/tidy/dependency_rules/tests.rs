use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{DependencyGraph, check_banned, check_package, check_purity};

fn found(name: &str, dependencies: &[(&str, Option<&str>)]) -> Vec<String> {
    let list: Vec<Value> =
        dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
    let package = json!({"name": name, "dependencies": list});
    let ours: BTreeSet<&str> = ["tool", "gateway", "egress", "server", "store", "testkit"].into();
    check_package(&package, &ours).iter().map(ToString::to_string).collect()
}

#[test]
fn arrows_point_down() {
    assert_eq!(found("store", &[("tool", None), ("egress", None), ("serde", None)]), [""; 0]);
    assert_eq!(found("toolkeep", &[("server", None), ("store", None)]), [""; 0]);
    let fix =
        "turn the arrow round with a port in `tool`, or decide it in docs/design and the table";
    assert_eq!(
        found("store", &[("gateway", None)]),
        [format!("crates/store/Cargo.toml: `store` may not see `gateway`; {fix}")]
    );
    assert_eq!(found("store", &[("gateway", Some("dev"))]), [""; 0]);
    assert_eq!(found("store", &[("server", Some("dev"))]).len(), 1);
    assert_eq!(found("tool", &[("egress", Some("build"))]).len(), 1);
}

#[test]
fn the_fakes_stay_in_tests() {
    for name in ["store", "toolkeep"] {
        assert_eq!(found(name, &[("testkit", Some("dev"))]), [""; 0]);
        assert_eq!(found(name, &[("testkit", None)]).len(), 1, "{name}");
    }
}

#[test]
fn a_new_crate_needs_a_place() {
    assert_eq!(found("novel", &[]).len(), 1);
}

#[test]
fn a_pure_crate_has_no_runtime_at_any_depth() {
    let fine = "0 catalog v0.1.0 (x)\n1 jsonschema v0.60.0\n0 gateway v0.1.0 (x)\n1 tokio v1.0.0\n";
    assert_eq!(check_purity(&DependencyGraph::parse_tree(fine)), []);
    let fault = "0 catalog v0.1.0 (x)\n1 serde v1.0.0\n1 jsonschema v0.60.0 (*)\n0 tool v0.1.0 (x)\n\
                 0 x v0.1.0 (x)\n1 jsonschema v0.60.0\n2 reqwest v0.13.0\n3 catalog v0.1.0 (x) (*)\n";
    let found = check_purity(&DependencyGraph::parse_tree(fault));
    assert_eq!(found.len(), 1);
    assert!(found[0].problem.ends_with("reaches catalog → jsonschema → reqwest"), "{found:?}");
}

#[test]
fn banned_crates_are_found_where_they_come_in() {
    let fine = "0 upstreams v0.1.0\n1 rmcp v3.9.0\n2 async-trait v0.1.0\n1 rustls v0.23.0\n";
    assert_eq!(check_banned(&DependencyGraph::parse_tree(fine)), []);
    let fault = "0 egress v0.1.0\n1 async-trait v0.1.0\n1 reqwest v0.13.0\n2 native-tls v0.2.0\n";
    assert_eq!(check_banned(&DependencyGraph::parse_tree(fault)).len(), 2);
}
