use std::sync::Arc;

use egress::{EgressClient, EgressOptions};
use serde_json::{Value, json};
use tool::{AccessScope, Json, Secret, SideEffect, SideEffects, ToolTraits};

use super::{EntryFields, HttpToolDependencies, parse_http_tool};

fn made(implementation: &Value) -> Result<ToolTraits, String> {
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let web = HttpToolDependencies {
        egress,
        resolve_secret: Arc::new(|name| (name == "KEY").then(|| Secret::new("s"))),
    };
    let input = Json::encode(&json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    }));
    let made =
        parse_http_tool(&web, &EntryFields::from_object(&Json::encode(implementation)), &input);
    made.map(|made| made.traits)
        .map_err(|fault| format!("{} [{}]", fault.message, fault.help.unwrap_or_default()))
}

#[test]
fn a_method_says_what_it_does() {
    for (method, read_only, idempotent, destructive) in [
        ("get", true, true, false),
        ("HEAD", true, true, false),
        ("POST", false, false, false),
        ("PATCH", false, false, false),
        ("PUT", false, true, false),
        ("DELETE", false, true, true),
    ] {
        let traits = made(&json!({"url": "http://h/", "method": method})).unwrap();
        let first = if read_only { SideEffect::ReadOnly } else { SideEffect::SystemState };
        assert_eq!(
            traits.effects,
            SideEffects::Declared(vec![first, SideEffect::NetworkAccess]),
            "{method}"
        );
        assert_eq!(
            (traits.is_idempotent, traits.is_destructive),
            (idempotent, destructive),
            "{method}"
        );
        assert_eq!(traits.scopes, [AccessScope::Network]);
    }
}

#[test]
fn what_cannot_work_is_refused_with_its_place_and_a_fix() {
    for (implementation, told) in [
        (json!({}), "an http tool needs a `url` [add `url: https://host/path/{parameter}`]"),
        (json!({"url": "http://h"}), "`url` is not normalized [write it as `http://h/`]"),
        (json!({"url": "http://h/a/../b"}), "`url` is not normalized [write it as `http://h/b`]"),
        (
            json!({"url": "http://{city}/"}),
            "`url`: a placeholder is only allowed after the host and a `/` [write a separate tool \
             for each host]",
        ),
        (
            json!({"url": "http://h{city}/"}),
            "`url`: a placeholder is only allowed after the host and a `/` [write a separate tool \
             for each host]",
        ),
        (
            json!({"url": "http://h/?q={city}"}),
            "`url`: a placeholder is only allowed in the path [parameters that are not in the path \
             are added to the query automatically]",
        ),
        (
            json!({"url": "http://h/{town}"}),
            "`url`: `{town}` is not a parameter [use the names in `parameters.properties`]",
        ),
        (
            json!({"url": "http://h/{days}"}),
            "`url`: `{days}` is optional [add `days` to `parameters.required`]",
        ),
        (
            json!({"url": "http://h/{city"}),
            "`url`: a `{` is not closed [write a placeholder as `{parameter}`]",
        ),
    ] {
        assert_eq!(made(&implementation).unwrap_err(), told, "{implementation}");
    }
}

#[test]
fn the_other_fields_are_held_to_their_rules() {
    for (implementation, told) in [
        (
            json!({"url": "http://h/", "method": "TRACE"}),
            "`method` is `TRACE` [use GET, HEAD, POST, PUT, PATCH or DELETE]",
        ),
        (
            json!({"url": "http://h/", "headers": {"Host": "x"}}),
            "`headers.Host` is set automatically [remove it]",
        ),
        (
            json!({"url": "http://h/", "headers": {"x": {"env": "NONE"}}}),
            "`headers.x` names the variable `NONE`, which is not set [set it in the server's \
             environment]",
        ),
        (
            json!({"url": "http://h/", "headers": {"x": "a\nb"}}),
            "`headers.x` has an invalid value, such as one with a line break []",
        ),
        (
            json!({"url": "http://h/", "params_mapping": {"town": "q"}}),
            "`params_mapping` names `town`, which is not a parameter [use the names in \
             `parameters.properties`]",
        ),
        (
            json!({"url": "http://h/", "retry": {"max_attempts": 3}}),
            "`implementation.retry` is not supported for an http tool [write `retry: once` at the \
             source, in the configuration]",
        ),
    ] {
        assert_eq!(made(&implementation).unwrap_err(), told, "{implementation}");
    }
    for implementation in [
        json!({"url": "ftp://h/"}),
        json!({"url": "http://user:pass@h/"}),
        json!({"url": "http://h/", "response_path": "$["}),
        json!({"url": "http://h/", "timeout_ms": 5}),
    ] {
        made(&implementation).expect_err(&implementation.to_string());
    }
    made(&json!({"url": "http://h/", "headers": {"x": {"env": "KEY"}}})).unwrap();
}
