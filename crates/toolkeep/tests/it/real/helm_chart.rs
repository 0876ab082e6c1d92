//! Tests that the server accepts the configurations of the Helm chart and of the manifests.

use serde_json::{Value, json};
use testkit::installed_programs::render_chart;

use crate::real_support::{CommandOutput, toolkeep};
use crate::support::installation::Installation;

fn by_chart(values: &Value) -> (String, CommandOutput) {
    checked(&render_chart("toolkeep", values).unwrap())
}

/// Checked as the file that the pod mounts.
fn checked(documents: &[String]) -> (String, CommandOutput) {
    let map = documents.iter().find(|it| it.contains("kind: ConfigMap")).unwrap();
    let (_, text) = map.split_once("\n  toolkeep.yaml: |\n").unwrap();
    let lines = text.lines().map(|line| line.strip_prefix("    ").unwrap_or(line));
    let text = lines.collect::<Vec<_>>().join("\n");
    let home = Installation::new(&text);
    let mut command = toolkeep();
    command.args(["config", "check"]).arg(home.config()).args(["-o", "json"]);
    // Variables that Kubernetes and the chart set for every pod.
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", "9");
    command.env("MONGO_URL", "mongodb://127.0.0.1:9/tools_db");
    (text, CommandOutput::run_command(&mut command))
}

#[test]
fn the_charts_configuration_is_read_with_what_is_set_in_it() {
    let own = json!({
        "mongoSecret": "m", "allowedHosts": ["tools.example"],
        "config": { "limits": { "calls": 100_000 }, "sources": [{ "name": "docs", "mcp": { "url": "https://docs.example/mcp" } }] },
    });
    for (values, sources) in [(json!({}), 0), (json!({ "findNodes": false }), 0), (own, 1)] {
        let (text, ran) = by_chart(&values);
        let told = ran.json();
        assert_eq!(
            (ran.code, &told["listen"]),
            (Some(0), &json!("0.0.0.0:8080")),
            "{text}\n{told}"
        );
        assert_eq!(told["sources"].as_array().unwrap().len(), sources, "{told}");
        assert!(text.contains("toolkeep.toolkeep.svc"), "{text}");
        assert_eq!(text.contains("kubernetes: {}"), values["findNodes"] != false, "{text}");
        assert_eq!(text.contains("${MONGO_URL}"), values["mongoSecret"] == "m", "{text}");
    }
    // Control: the server reports an unknown setting.
    let (text, ran) = by_chart(&json!({ "config": { "sauces": [] } }));
    assert!(ran.code == Some(1) && ran.err.contains("sauces"), "{text}\n{ran:?}");
}

#[test]
fn the_manifests_configuration_is_read() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/server.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let documents: Vec<String> = text.split("\n---\n").map(str::to_owned).collect();
    let (text, ran) = checked(&documents);
    assert_eq!((ran.code, &ran.json()["listen"]), (Some(0), &json!("0.0.0.0:8080")), "{text}");
}
