//! `http` tools of version 2, before a server that notes what came.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use egress::{EgressClient, EgressOptions};
use serde_json::{Value, json};
use source_tool_files::{HttpToolDependencies, ImplementationRegistry, ToolFileSource};
use tool::{ErrorCode, Secret, Source as _, SourceName};

use testkit::executor_run::{find_offer, outcome_json, run_call};
use testkit::http_server::{MockResponse, MockServer};

fn source(folder: &tempfile::TempDir, implementation: &Value) -> ToolFileSource {
    let tool = json!({
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "tags": {"type": "array"},
            },
            "required": ["city"],
        },
        "implementation": implementation,
    });
    let path = folder.path().join("tools.json");
    fs::write(&path, json!({"version": 2, "tools": [tool]}).to_string()).unwrap();
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let secret = Arc::new(|name: &str| (name == "KEY").then(|| Secret::new("k-1")));
    let web = HttpToolDependencies { egress, resolve_secret: secret };
    let handlers = ImplementationRegistry {
        computing_builtins: Arc::default(),
        internal_handlers: Arc::new(HashMap::new()),
        http: web,
        code_host: None,
        installed_builtins: Arc::default(),
        own_categories: Arc::default(),
    };
    ToolFileSource::new(SourceName::new("file").unwrap(), path, handlers)
}

/// What a call answers, or why it failed.
async fn called(
    server: &MockServer,
    implementation: &Value,
    args: &Value,
) -> Result<Value, (ErrorCode, String)> {
    let folder = tempfile::tempdir().unwrap();
    let mut implementation = implementation.clone();
    let path = implementation["url"].as_str().unwrap_or("/");
    implementation["url"] = json!(format!("{}{path}", server.url()));
    implementation["type"] = json!("http");
    let listing = source(&folder, &implementation).list_offers().await.unwrap();
    assert_eq!(listing.problems, [], "{implementation}");
    let (tool, executor) = find_offer(&listing, "weather");
    let outcome = run_call(&tool, executor.as_ref(), &args.to_string()).await;
    outcome.map(|outcome| outcome_json(&outcome)).map_err(|error| (error.code, error.message))
}

#[tokio::test]
async fn arguments_go_into_the_path_and_the_query() {
    let server =
        MockServer::start_server(vec![MockResponse::from_json(&json!({"now": {"temp": 21}}))])
            .await;
    let implementation = json!({
        "url": "/v1/{city}/now?units=metric",
        "headers": {"x-key": {"env": "KEY"}, "x-plain": "yes"},
        "params_mapping": {"days": "n"},
        "response_path": "$.now.temp",
    });
    let args = json!({"city": "Zürich & Süd/West?#+ %2e", "days": 3, "tags": ["a b", "c"]});
    assert_eq!(called(&server, &implementation, &args).await.unwrap(), json!(21));
    let seen = server.received_requests().pop().unwrap();
    // The server notes in lower case.
    let path = "/v1/z%c3%bcrich%20%26%20s%c3%bcd%2fwest%3f%23%2b%20%252e/now";
    assert_eq!(seen.request_line, format!("get {path}?units=metric&n=3&tags=a+b&tags=c http/1.1"));
    assert!(seen.headers.contains(&"x-key: k-1".to_owned()), "{:?}", seen.headers);
    assert!(seen.headers.contains(&"x-plain: yes".to_owned()));
}

#[tokio::test]
async fn or_into_a_body_of_json() {
    let server =
        MockServer::start_server(vec![MockResponse::from_json(&json!([1, {"a": null}]))]).await;
    let implementation =
        json!({"url": "/v1/{city}", "method": "post", "params_mapping": {"days": "n"}});
    let args = json!({"city": "Bern", "days": 3, "tags": []});
    assert_eq!(called(&server, &implementation, &args).await.unwrap(), json!([1, {"a": null}]));
    let seen = server.received_requests().pop().unwrap();
    assert_eq!(seen.request_line, "post /v1/bern http/1.1");
    assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap(), json!({"n": 3, "tags": []}));
    assert!(seen.headers.contains(&"content-type: application/json".to_owned()));
}

#[tokio::test]
async fn no_argument_leads_anywhere_else() {
    let server = MockServer::start_server(vec![MockResponse::from_json(&json!(1))]).await;
    for city in ["", ".", ".."] {
        let refused = called(&server, &json!({"url": "/a/{city}/b"}), &json!({"city": city})).await;
        assert_eq!(refused.unwrap_err().0, ErrorCode::InvalidArguments, "{city}");
    }
    let refused = called(&server, &json!({"url": "/a/{city}./b"}), &json!({"city": "."})).await;
    assert_eq!(refused.unwrap_err().0, ErrorCode::InvalidArguments);
    assert_eq!(server.received_requests(), []);
    // Whatever else stands there is one segment of the path: the server sees as many as the file has.
    for city in [
        "../../admin",
        "%2e%2e",
        "a/../b",
        "x?y=1",
        "x#y",
        "@evil.test",
        "//evil.test",
        "\\..\\",
        "a\r\nHost: x",
    ] {
        called(&server, &json!({"url": "/a/{city}/b"}), &json!({"city": city})).await.unwrap();
        let line = server.received_requests().pop().unwrap().request_line;
        let path = line.split(' ').nth(1).unwrap();
        assert!(path.starts_with("/a/") && path.ends_with("/b"), "{city}: {line}");
        assert_eq!(path.matches('/').count(), 3, "{city}: {line}");
        assert!(!path.contains(['?', '#', '\\']), "{city}: {line}");
    }
    // The naive way, for comparison: the same argument put in as it is leads out of its place.
    let naive = url::Url::parse("http://h/a/../../admin/b").unwrap();
    assert_eq!(naive.path(), "/admin/b");
}

#[tokio::test]
async fn what_the_other_side_refuses_is_told() {
    let server = MockServer::start_server(vec![
        MockResponse::Body(404, "no such city".into()),
        MockResponse::Body(302, String::new()),
        MockResponse::Body(200, "{".into()),
        MockResponse::from_json(&json!({"a": 1})),
        MockResponse::Disconnect,
    ])
    .await;
    let args = json!({"city": "Bern"});
    let implementation = json!({"url": "/", "response_path": "$.b"});
    let mut told = Vec::new();
    for _ in 0..5 {
        let (code, message) = called(&server, &implementation, &args).await.unwrap_err();
        told.push((code, message));
    }
    let messages: Vec<_> = told.iter().map(|(_, message)| message.as_str()).collect();
    assert_eq!(messages[0], "HTTP 404 Not Found: no such city");
    assert_eq!(messages[1], "HTTP 302 Found: redirects are not followed");
    assert!(messages[2].starts_with("the response is not valid JSON: "), "{}", messages[2]);
    assert_eq!(messages[3], "the response has no value at `$.b`");
    assert!(messages[4].starts_with("the request failed: "), "{}", messages[4]);
    assert_eq!(told[4].0, ErrorCode::UpstreamFailed);
}
