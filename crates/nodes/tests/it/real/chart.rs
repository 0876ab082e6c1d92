//! The chart, as Helm renders it and as a Kubernetes API server judges that.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};
use testkit::installed_programs::render_chart;

use super::cluster::{Cluster, documents, manifest, place};
use super::kubernetes::{has, keys};

/// The API server's version of documents, by kind and name, without generated fields.
async fn judged(cluster: &Cluster, documents: &[String]) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for document in documents {
        let path = place(document);
        let (status, mut told) =
            cluster.create_object(&format!("{path}?dryRun=All"), document).await;
        if path == "/api/v1/namespaces" {
            continue;
        }
        assert_eq!(status, StatusCode::CREATED, "{told}\n{document}");
        for key in keys(document) {
            assert!(has(&told, &key), "it does not know `{key}`: {told}");
        }
        for (part, own) in [
            ("/metadata", &["uid", "creationTimestamp", "managedFields"][..]),
            ("/spec", &["clusterIP", "clusterIPs"]),
        ] {
            if let Some(part) = told.pointer_mut(part).and_then(Value::as_object_mut) {
                part.retain(|key, _| !own.contains(&key.as_str()));
            }
        }
        let called = format!("{} {}", text(&told, "/kind"), text(&told, "/metadata/name"));
        assert_eq!(all.insert(called.clone(), told), None, "{called}: twice");
    }
    all
}

fn text<'a>(of: &'a Value, pointer: &str) -> &'a str {
    of.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {of}"))
}

fn take(from: &mut BTreeMap<String, Value>, called: &str, pointer: &str) -> Value {
    let found = from.get_mut(called).and_then(|it| it.pointer_mut(pointer));
    found.unwrap_or_else(|| panic!("{called} {pointer}")).take()
}

async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: toolkeep}\n";
    let (status, told) = cluster.create_object("/api/v1/namespaces", space).await;
    assert_eq!(status, StatusCode::CREATED, "{told}");
    cluster
}

/// Values with which the chart equals the manifests.
fn as_the_manifests() -> Value {
    json!({
        "mongoSecret": "toolkeep",
        "node": { "enabled": true, "registryUrl": "https://toolkeep.example" },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_comes_to_the_same_as_the_manifests() {
    let cluster = cluster().await;
    let chart = render_chart("toolkeep", &as_the_manifests()).unwrap();
    let mut chart = judged(&cluster, &chart).await;
    let files = ["rbac.yaml", "server.yaml", "node.yaml"];
    let plain: Vec<String> = files.iter().flat_map(|file| documents(&manifest(file))).collect();
    let mut plain = judged(&cluster, &plain).await;
    assert_eq!(plain.len(), 8);
    // The configuration is written otherwise; `toolkeep` reads it in its own tests.
    for of in [&mut chart, &mut plain] {
        let told = take(of, "ConfigMap toolkeep", "/data/toolkeep.yaml");
        assert!(told.as_str().is_some_and(|told| told.contains("behind_tls: true")), "{told}");
    }
    // Only the chart knows when it changes, and whether there is a MongoDB.
    let sum = take(&mut chart, "StatefulSet toolkeep", "/spec/template/metadata/annotations");
    assert_eq!(text(&sum, "/checksum~1config").len(), 64);
    let secret = "/spec/template/spec/containers/0/env/0/valueFrom/secretKeyRef/optional";
    assert_eq!(take(&mut plain, "StatefulSet toolkeep", secret), true);
    // True is the default.
    let token = "/spec/template/spec/automountServiceAccountToken";
    assert_eq!(take(&mut chart, "StatefulSet toolkeep", token), true);
    assert_eq!(chart.keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>());
    for (called, object) in chart {
        assert_eq!(without_nulls(object), without_nulls(plain[&called].clone()), "{called}");
    }
}

/// A removed value is as if it had never been set.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, it)| !it.is_null());
            kept.map(|(key, it)| (key, without_nulls(it))).collect()
        }
        Value::Array(all) => all.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_default_the_chart_is_the_server_alone() {
    let cluster = cluster().await;
    let all = judged(&cluster, &render_chart("toolkeep", &json!({})).unwrap()).await;
    let called: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(
        called,
        [
            "ClusterRole toolkeep-nodes",
            "ClusterRoleBinding toolkeep-nodes",
            "ConfigMap toolkeep",
            "NetworkPolicy toolkeep",
            "Service toolkeep",
            "ServiceAccount toolkeep",
            "StatefulSet toolkeep",
        ]
    );
    let rules = json!([{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"] }]);
    assert_eq!(all["ClusterRole toolkeep-nodes"]["rules"], rules);
    let pod = &all["StatefulSet toolkeep"]["spec"]["template"]["spec"];
    is_confined(pod);
    assert_eq!(pod["automountServiceAccountToken"], true);
    assert_eq!(pod["containers"][0]["env"], Value::Null);
    let probe = |which: &str| text(pod, &format!("/containers/0/{which}/httpGet/path"));
    assert_eq!((probe("livenessProbe"), probe("readinessProbe")), ("/healthz", "/readyz"));
}

fn is_confined(pod: &Value) {
    let (own, first) = (&pod["securityContext"], &pod["containers"][0]["securityContext"]);
    assert_eq!((&own["runAsNonRoot"], &own["runAsUser"]), (&json!(true), &json!(10001)));
    assert_eq!(own["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(first["allowPrivilegeEscalation"], false);
    assert_eq!(first["readOnlyRootFilesystem"], true);
    assert_eq!(first["capabilities"], json!({ "drop": ["ALL"] }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_set_counts_and_what_is_not_needed_is_not_there() {
    let cluster = cluster().await;
    let values = json!({
        "image": "registry.example/toolkeep:2", "storage": "5Gi", "findNodes": false,
        "resources": { "limits": { "memory": "2Gi" } }, "ingressNamespaceLabel": "in-front",
        "node": {
            "enabled": true, "registryUrl": "https://a.b", "image": "nodes:7", "hostPath": "/srv/node",
        },
    });
    // A name that YAML would read as a truth value.
    let all = judged(&cluster, &render_chart("on", &values).unwrap()).await;
    assert!(!all.keys().any(|called| called.starts_with("ClusterRole")), "{:?}", all.keys());
    for (called, object) in &all {
        let name = if called.starts_with("DaemonSet") { "on-node" } else { "on" };
        assert_eq!(text(object, "/metadata/name"), name);
        assert_eq!(text(object, "/metadata/namespace"), "toolkeep");
    }
    let server = &all["StatefulSet on"]["spec"];
    let (pod, first) = (&server["template"]["spec"], &server["template"]["spec"]["containers"][0]);
    is_confined(pod);
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(text(first, "/image"), "registry.example/toolkeep:2");
    assert_eq!(text(first, "/resources/limits/memory"), "2Gi");
    // Unset values stay as they are.
    assert_eq!(text(first, "/resources/requests/cpu"), "100m");
    assert_eq!(text(server, "/volumeClaimTemplates/0/spec/resources/requests/storage"), "5Gi");
    let from = "/spec/ingress/0/from/0/namespaceSelector/matchLabels";
    assert_eq!(all["NetworkPolicy on"].pointer(from), Some(&json!({ "in-front": "true" })));
    let node = &all["DaemonSet on-node"]["spec"]["template"]["spec"];
    is_confined(node);
    assert_eq!(text(node, "/containers/0/image"), "nodes:7");
    assert_eq!(text(node, "/containers/0/env/0/value"), "https://a.b");
    assert_eq!(text(node, "/volumes/0/hostPath/path"), "/srv/node");
    // Controls: incomplete values do not render, and the API server rejects invalid ones.
    let told = render_chart("on", &json!({ "node": { "enabled": true } })).unwrap_err();
    assert!(told.contains("node.registryUrl: where TLS ends"), "{told}");
    let wrong = render_chart("on", &json!({ "storage": "much" })).unwrap();
    let set = wrong.iter().find(|it| it.contains("kind: StatefulSet")).unwrap();
    let (status, told) = cluster.create_object(&format!("{}?dryRun=All", place(set)), set).await;
    assert!(status.is_client_error(), "{told}");
}
