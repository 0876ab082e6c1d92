use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::{
    AccessScope, CallerType, Clock, Json, PermissionLevel, SafetyLevel, SideEffect, SideEffects,
    Tool, ToolName, ToolTraits,
};

use egress::{EgressClient, EgressOptions};
use testkit::clock::FakeClock;
use tool_manifest::BuiltinTool;

use super::{FileSettings, ImplementationRegistry, ParsedEntry, ToolEntry};
use crate::{HttpToolDependencies, InternalHandler};

fn computing() -> Arc<[BuiltinTool]> {
    let clock: Arc<dyn Clock> = Arc::new(FakeClock::default());
    builtins::pure_tools(&clock).into()
}

fn echo() -> BuiltinTool {
    computing().iter().find(|it| it.tool.name.as_str() == "echo").unwrap().clone()
}

fn handlers() -> ImplementationRegistry {
    let computing = computing();
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let echo = echo().executor;
    let echo = InternalHandler { executor: echo, traits: ToolTraits::default() };
    let internals = Arc::new(HashMap::from([("search".to_owned(), echo)]));
    let web = HttpToolDependencies { egress, resolve_secret: Arc::new(|_| None) };
    let own = Arc::new(HashMap::from([("run_shell".to_owned(), shell())]));
    let categories = Arc::from(["ours".to_owned()]);
    ImplementationRegistry {
        computing_builtins: computing,
        internal_handlers: internals,
        http: web,
        code_host: None,
        installed_builtins: own,
        own_categories: categories,
    }
}

/// A built-in that runs commands, as far as its definition goes.
fn shell() -> tool_manifest::BuiltinTool {
    let echo = echo();
    let traits = ToolTraits {
        min_level: PermissionLevel::User,
        scopes: vec![AccessScope::Shell],
        effects: SideEffects::Declared(vec![SideEffect::LocalExec, SideEffect::ModifiesFiles]),
        is_destructive: true,
        timeout: Some(Duration::from_secs(30)),
        allowed_callers: vec![CallerType::Direct],
        ..ToolTraits::default()
    };
    let name = ToolName::new("run_shell").unwrap();
    let input = Json::encode(&json!({"type": "object", "required": ["command"],
        "properties": {"command": {"type": "string"}}}));
    let tool = tool::Tool { name, input_schema: input, traits, ..(*echo.tool).clone() };
    tool_manifest::BuiltinTool { tool: Arc::new(tool), handler: "run_shell".into(), ..echo }
}

#[test]
fn a_tool_without_an_implementation_is_the_built_in_one_of_its_name_and_no_less_strict() {
    // As the research registry prints it.
    let printed = json!({
        "name": "run_shell",
        "description": "Sandboxed shell command execution",
        "category": "code",
        "side_effects": ["local_exec", "modifies_files", "system_state"],
        "destructive": true,
    });
    let (tool, _) = read(&printed).result.unwrap();
    let own = shell();
    assert_eq!(tool.input_schema, own.tool.input_schema);
    let effects = [SideEffect::LocalExec, SideEffect::ModifiesFiles, SideEffect::SystemState];
    assert_eq!(tool.traits.effects, SideEffects::Declared(effects.to_vec()));
    assert_eq!(tool.traits.categories, ["code"]);
    assert_eq!(
        (tool.traits.scopes.as_slice(), tool.traits.min_level),
        (&[AccessScope::Shell][..], PermissionLevel::User)
    );
    // What would take something back does not.
    let mut lax = printed.clone();
    lax["side_effects"] = json!(["read_only"]);
    lax["destructive"] = json!(false);
    lax["required_permission"] = json!("guest");
    lax["permissions"] = json!([]);
    lax["allowed_callers"] = json!(["direct", "chain"]);
    lax["timeout_ms"] = json!(60_000);
    lax["parameters"] = json!({"type": "object"});
    let (tool, _) = read(&lax).result.unwrap();
    let ToolTraits {
        min_level: level,
        scopes,
        effects,
        is_destructive: destructive,
        timeout,
        allowed_callers: callers,
        ..
    } = tool.traits;
    assert!(effects.may_change_state() && destructive);
    assert_eq!(
        (level, scopes, callers),
        (PermissionLevel::User, vec![AccessScope::Shell], vec![CallerType::Direct])
    );
    assert_eq!(
        (timeout, tool.input_schema),
        (Some(Duration::from_secs(30)), own.tool.input_schema.clone())
    );
    // The same where the file says that it is built in.
    let mut named = lax.clone();
    named["implementation"] = json!({"type": "builtin", "handler": "run_shell"});
    assert!(read(&named).result.unwrap().0.traits.is_destructive);
    // Positive control: a name that is not built in needs an implementation.
    let mut other = printed;
    other["name"] = json!("run_shelf");
    other["parameters"] = json!({"type": "object"});
    assert!(read(&other).result.unwrap_err().message.contains("must have an \"implementation\""));
}

#[test]
fn a_category_that_nobody_knows_is_told() {
    let noted = |category: &str| {
        let read = read(&with(&json!({ "category": category })));
        assert!(read.result.is_ok());
        read.warnings.into_iter().map(|note| note.message).collect::<Vec<_>>()
    };
    assert_eq!(noted("nonsense"), ["`category`: unknown category `nonsense`"]);
    // Positive controls: one of the tool-file registry, and one of the operator.
    assert_eq!((noted("code"), noted("ours")), (vec![], vec![]));
}

fn read(value: &Value) -> ParsedEntry {
    let entry = ToolEntry { line: 1, mapping_key: None, json: Json::encode(value) };
    ParsedEntry::parse_entry(&entry, &FileSettings::default(), &handlers())
}

/// A tool that is whole, with `changes` over it; `null` takes a field out.
fn with(changes: &Value) -> Value {
    let mut value = json!({
        "name": "get_weather",
        "description": "Weather of a city.",
        "type": "function",
        "handler": "weather",
        "parameters": { "type": "object", "properties": { "city": { "type": "string" } } },
        "implementation": { "type": "mock", "mock_response": { "temp": 21 } },
    });
    for (key, change) in changes.as_object().unwrap() {
        match change {
            Value::Null => drop(value.as_object_mut().unwrap().remove(key)),
            change => value[key] = change.clone(),
        }
    }
    value
}

fn tool(changes: &Value) -> Tool {
    let definition = read(&with(changes));
    assert_eq!(definition.warnings, [], "{changes}");
    definition.result.unwrap_or_else(|fault| panic!("{changes}: {fault:?}")).0
}

fn refused(changes: &Value) -> String {
    let fault = read(&with(changes)).result.map(|_| ()).expect_err(&changes.to_string());
    format!("{} [{}]", fault.message, fault.help.unwrap_or_default())
}

#[test]
fn both_forms_of_the_tool_file_registry() {
    let tool = tool(&json!({}));
    assert_eq!(
        (tool.name.as_str(), tool.description.as_str()),
        ("get_weather", "Weather of a city.")
    );
    assert_eq!(
        tool.input_schema.to_value(),
        json!({ "type": "object", "properties": { "city": { "type": "string" } } })
    );
    assert_eq!(tool.raw_definition.to_value(), with(&json!({})));
    for flat in [
        json!({ "type": "mock", "implementation": null, "mock_response": null }),
        json!({ "type": "builtin", "implementation": null, "handler": "math_eval" }),
        json!({ "type": "builtin", "implementation": null, "handler": null, "builtin_handler": "echo" }),
        json!({ "type": "builtin", "implementation": null, "handler": null, "name": "calculator" }),
        json!({ "implementation": { "type": "builtin", "handler": "get_current_datetime" } }),
        json!({ "implementation": { "type": "internal", "handler": "search" } }),
    ] {
        let mut value = with(&flat);
        if value["type"] == "mock" {
            value["mock_response"] = Value::Null;
        }
        assert!(read(&value).result.is_ok(), "{flat}: {:?}", read(&value).result);
    }
}

#[test]
fn the_texts_of_the_tool_file_registry() {
    let http = json!({ "type": "http", "url": "http://x" });
    assert_eq!(
        refused(&json!({ "implementation": http })),
        "HTTP tools not yet supported (coming in v2) [write `version: 2` at the top of the file, beside `tools:`]"
    );
    for nothing in [json!({ "name": null }), json!({ "name": "" }), json!({ "name": 5 })] {
        assert_eq!(refused(&nothing), "Tool must have a non-empty string \"name\" []");
    }
    for nothing in [
        json!({ "description": null }),
        json!({ "description": " " }),
        json!({ "description": [] }),
    ] {
        let expected = "Tool \"get_weather\" must have a non-empty string \"description\" []";
        assert_eq!(refused(&nothing), expected);
    }
    assert_eq!(
        refused(&json!({ "implementation": null, "type": "magic" })),
        "Tool \"get_weather\" has invalid type \"magic\". Must be one of: mock, builtin, internal []"
    );
    let builtins = computing();
    let known: Vec<&str> = builtins.iter().map(|it| &*it.handler).collect();
    assert!(known.contains(&"math_eval") && known.contains(&"echo"), "{known:?}");
    assert_eq!(
        refused(&json!({ "implementation": { "type": "builtin", "handler": "rm" } })),
        format!("Builtin handler 'rm' not found [use one of {}]", known.join(", "))
    );
    assert_eq!(
        refused(&json!({ "implementation": { "type": "internal", "handler": "rag_query" } })),
        "Internal handler 'rag_query' not found [use one of search]"
    );
}

#[test]
fn what_an_implementation_must_have() {
    let fix = "[add `implementation: {type: mock, mock_response: …}`, or `type: builtin`]";
    for nothing in [json!({ "implementation": null }), json!({ "implementation": {} })] {
        assert_eq!(
            refused(&nothing),
            format!("Tool \"get_weather\" must have an \"implementation\" with a \"type\" {fix}")
        );
    }
    assert_eq!(
        refused(&json!({ "implementation": { "type": "mock" } })),
        "Tool \"get_weather\" of type mock must have a \"mock_response\" [add `mock_response`, with \
         any JSON value]"
    );
    assert_eq!(
        refused(&json!({ "implementation": "mock" })),
        "`implementation` is string; expected a mapping []"
    );
}

/// Each of the tool-file registry's MUSTs, in its own form. Positive control: the same definition
/// without the fault loads.
#[test]
fn the_tool_file_registrys_form_is_complete_or_the_tool_is_refused() {
    tool(&json!({}));
    let kind_fix = "[write `type: function`; `implementation.type` says what executes the tool]";
    let builtin = json!({ "type": "builtin" });
    let handler = |kind: &str, example: &str| {
        format!(
            "Tool \"get_weather\" of type {kind} must have \"implementation.handler\" [add `handler` to \
             `implementation`, for example `{example}`]"
        )
    };
    for (changes, told) in [
        (
            json!({ "type": null }),
            format!("Tool \"get_weather\" must have the \"type\" \"function\" {kind_fix}"),
        ),
        (
            json!({ "type": "procedure" }),
            format!(
                "Tool \"get_weather\" has the \"type\" \"procedure\"; expected \"function\" {kind_fix}"
            ),
        ),
        (
            json!({ "type": "mock" }),
            format!("Tool \"get_weather\" has the \"type\" \"mock\"; expected \"function\" {kind_fix}"),
        ),
        (json!({ "type": 5 }), "`type` is number; expected a text []".to_owned()),
        (
            json!({ "handler": null }),
            "Tool \"get_weather\" must have a non-empty string \"handler\" [add `handler`, for example \
             `handler: get_weather`]"
                .to_owned(),
        ),
        // The tool's own name or `handler` is a built-in's, and is not taken for it.
        (
            json!({ "handler": "math_eval", "implementation": builtin }),
            handler("builtin", "math_eval"),
        ),
        (
            json!({ "handler": "search", "implementation": { "type": "internal" } }),
            handler("internal", "catalog.list"),
        ),
    ] {
        assert_eq!(refused(&changes), told, "{changes}");
    }
    // The short form has neither of the two, unless the tools stand in the tool-file registry's
    // settings.
    let short = with(&json!({ "type": null, "handler": null }));
    let read = |requires_complete_form| {
        let entry = ToolEntry { line: 1, mapping_key: None, json: Json::encode(&short) };
        let settings = FileSettings { requires_complete_form, ..FileSettings::default() };
        ParsedEntry::parse_entry(&entry, &settings, &handlers()).result.map(drop)
    };
    assert!(read(false).is_ok());
    let fault = read(true).unwrap_err();
    assert_eq!(fault.message, "Tool \"get_weather\" must have the \"type\" \"function\"");
}

#[test]
fn a_flat_http_tool_is_told_where_its_url_stands() {
    let flat =
        json!({ "type": "http", "implementation": null, "handler": null, "url": "http://h/" });
    let entry = ToolEntry { line: 1, mapping_key: None, json: Json::encode(&with(&flat)) };
    let settings = FileSettings {
        format_version: crate::document::FileFormatVersion::V2,
        ..FileSettings::default()
    };
    let fault =
        ParsedEntry::parse_entry(&entry, &settings, &handlers()).result.map(drop).unwrap_err();
    assert_eq!(fault.message, "an http tool needs a `url`");
    assert!(fault.help.unwrap().starts_with("write `implementation: {type: http, url: "));
}

#[test]
fn parameters_are_a_json_schema_of_an_object() {
    for (parameters, message) in [
        (Value::Null, "Tool \"get_weather\" must have \"parameters\" "),
        (json!([]), "Tool \"get_weather\" has \"parameters\" that are array "),
        (
            json!({ "properties": {} }),
            "Tool \"get_weather\" has \"parameters\" whose \"type\" is not \"object\" ",
        ),
        (
            json!({ "type": "array" }),
            "Tool \"get_weather\" has \"parameters\" whose \"type\" is not ",
        ),
        (
            json!({ "type": ["object"] }),
            "Tool \"get_weather\" has \"parameters\" whose \"type\" is not ",
        ),
        (
            json!({ "type": "object", "properties": [] }),
            "`parameters.properties` is array; expected a mapping",
        ),
        (
            json!({ "type": "object", "properties": { "a": "string" } }),
            "`parameters.properties.a` is string; expected a schema",
        ),
        (
            json!({ "type": "object", "required": "a" }),
            "`parameters.required` is string; expected a list of names",
        ),
    ] {
        let told = refused(&json!({ "parameters": parameters }));
        assert!(told.starts_with(message), "{told}");
    }
}

#[test]
fn names_are_checked() {
    let told = refused(&json!({ "name": "get weather" }));
    assert!(told.starts_with("the name `get weather` contains ' '"), "{told}");
    let entry = ToolEntry {
        line: 1,
        mapping_key: Some("other".into()),
        json: Json::encode(&with(&json!({}))),
    };
    let fault =
        ParsedEntry::parse_entry(&entry, &FileSettings::default(), &handlers()).result.unwrap_err();
    assert_eq!(fault.message, "the tool's key is `other`, but its `name` differs");
    let mut nameless = with(&json!({ "name": null }));
    let entry =
        ToolEntry { line: 1, mapping_key: Some("other".into()), json: Json::encode(&nameless) };
    assert_eq!(
        ParsedEntry::parse_entry(&entry, &FileSettings::default(), &handlers())
            .result
            .unwrap()
            .0
            .name
            .as_str(),
        "other"
    );
    nameless["name"] = json!(["x"]);
    let entry =
        ToolEntry { line: 1, mapping_key: Some("other".into()), json: Json::encode(&nameless) };
    assert!(
        ParsedEntry::parse_entry(&entry, &FileSettings::default(), &handlers()).result.is_err()
    );
}

#[test]
fn traits_stand_beside_the_tool_file_registry_fields() {
    let tool = tool(&json!({
        "title": "Weather",
        "required_permission": "admin",
        "safety_level": "moderate",
        "side_effects": ["network_access", "network_access"],
        "destructive": true,
        "permissions": ["network", "shell"],
        "category": "Web",
        "categories": ["web", "data"],
        "allowed_callers": ["direct", "chain"],
        "timeout_ms": 1500,
        "idempotent": false,
        "x-note": 1,
        "examples": [],
    }));
    assert_eq!(tool.title.as_deref(), Some("Weather"));
    let traits = tool.traits;
    assert_eq!((traits.min_level, traits.safety), (PermissionLevel::Admin, SafetyLevel::Cautious));
    assert_eq!(traits.effects, SideEffects::Declared(vec![SideEffect::NetworkAccess]));
    assert_eq!(traits.scopes, [AccessScope::Network, AccessScope::Shell]);
    assert_eq!(traits.categories, ["web", "data"]);
    assert_eq!(traits.allowed_callers, [CallerType::Direct, CallerType::Chain]);
    assert_eq!(traits.timeout, Some(Duration::from_millis(1500)));
    assert!(traits.is_destructive && !traits.is_idempotent);
}

#[test]
fn unsaid_traits_are_those_of_what_runs() {
    let internal = json!({ "implementation": { "type": "internal", "handler": "search" } });
    assert_eq!(tool(&internal).traits.effects, SideEffects::Unknown);
    let builtin = json!({ "implementation": { "type": "builtin", "handler": "math_eval" } });
    let builtin = tool(&builtin).traits;
    assert_eq!(
        (builtin.categories, builtin.effects),
        (vec!["math".to_owned()], SideEffects::read_only())
    );
}

/// The tool of the guide to approvals: it was said to change nothing, since its answer is a fixed one.
#[test]
fn a_fixed_answer_declares_no_effects() {
    let undeclared = json!({
        "name": "tidy_up", "description": "Empties a folder.", "safety": "dangerous",
        "type": null, "handler": null, "implementation": { "type": "mock", "mock_response": { "emptied": true } },
    });
    let traits = tool(&undeclared).traits;
    assert_eq!((&traits.effects, traits.safety), (&SideEffects::Unknown, SafetyLevel::Dangerous));
    assert!(
        traits.effects.may_change_state()
            && !traits.is_idempotent
            && traits.min_level == PermissionLevel::Guest
    );
    // The control: what the file declares counts.
    let declared = tool(&json!({ "side_effects": ["read_only"] })).traits;
    assert_eq!(declared.effects, SideEffects::read_only());
}

/// Positive control: were an unknown word the default, `gest` would open the tool to guests.
#[test]
fn an_unknown_word_refuses_the_tool() {
    for (field, word, told) in [
        (
            "required_permission",
            json!("gest"),
            "unknown permission level `gest` [use one of guest, user, admin, owner]",
        ),
        (
            "safety",
            json!("harmless"),
            "unknown safety level `harmless` [use one of safe, cautious, dangerous]",
        ),
        (
            "permissions",
            json!(["net"]),
            "unknown scope `net` [use one of network, filesystem, shell, compute]",
        ),
        (
            "side_effects",
            json!("readonly"),
            "unknown side effect `readonly` [use one of read_only, local_exec, calls_llm, modifies_files, network_access, system_state]",
        ),
        (
            "allowed_callers",
            json!(["models"]),
            "unknown caller `models` [use one of direct, chain]",
        ),
    ] {
        let changes = json!({ field: word });
        assert_eq!(refused(&changes), format!("`{field}`: {told}"));
    }
    assert_eq!(
        refused(&json!({ "destructive": "yes" })),
        "`destructive` is string; expected true or false []"
    );
    assert_eq!(
        refused(&json!({ "category": "a b" })),
        "`category`: invalid name `a b` [use letters, digits, `_` and `-`, at most 64 characters]"
    );
    let both = json!({ "safety": "safe", "safety_level": "dangerous" });
    assert_eq!(
        refused(&both),
        "`safety` is safe, but `safety_level` is dangerous [keep one of the two]"
    );
    for bad in [json!(99), json!(1.5), json!(-1), json!(86_400_001)] {
        assert!(refused(&json!({ "timeout_ms": bad })).starts_with("`timeout_ms` is "));
    }
}

#[test]
fn a_slip_in_a_traits_name_refuses_the_tool_and_another_field_does_not() {
    assert_eq!(
        refused(&json!({ "required_permision": "owner" })),
        "unknown field `required_permision` [did you mean `required_permission`?]"
    );
    assert_eq!(
        refused(&json!({ "sideEffects": [] })),
        "unknown field `sideEffects` [did you mean `side_effects`?]"
    );
    let definition = read(&with(&json!({ "author": "me" })));
    assert!(definition.result.is_ok());
    assert_eq!(definition.warnings[0].message, "unknown field `author`");
}

#[test]
fn an_oversized_definition_is_refused() {
    let told = refused(&json!({ "description": "x".repeat(300_000) }));
    assert!(told.starts_with("the definition is too large"), "{told}");
    assert_eq!(
        read(&json!("text")).result.unwrap_err().message,
        "a tool must be a mapping; found string"
    );
}
