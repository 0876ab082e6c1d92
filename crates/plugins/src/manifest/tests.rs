use serde_json::json;
use tool::{CallerType, PermissionLevel, SafetyLevel, SideEffects};

use super::*;

fn read(manifest: &Value) -> Result<PluginManifest, String> {
    PluginManifest::parse_manifest(manifest.to_string().as_bytes(), "p/manifest.json")
        .map_err(|error| error.to_string())
}

fn tool() -> Value {
    json!({"name": "t", "description": "d", "module": "m", "function": "f"})
}

fn with(key: &str, value: Value) -> Value {
    let mut manifest = json!({"name": "p", "version": "1", "description": "d", "tools": [tool()]});
    manifest[key] = value;
    manifest
}

/// Contracts 3.7: the loader's messages, all of them in one line.
#[test]
fn missing_fields_are_reported_in_the_research_registrys_words() {
    assert_eq!(
        read(&json!({})).unwrap_err(),
        "Invalid manifest p/manifest.json: Missing required field: name; \
         Missing required field: version; Missing required field: description"
    );
    assert_eq!(
        read(&with("tools", json!([tool(), {"name": "u"}]))).unwrap_err(),
        "Invalid manifest p/manifest.json: Tool 1: missing 'description'; \
         Tool 1: missing 'module'; Tool 1: missing 'function'"
    );
    for (key, value, told) in [
        ("tools", json!({}), "'tools' must be a list"),
        ("dependencies", json!("kuzu"), "'dependencies' must be a list"),
        ("tools", json!(["t"]), "Tool 0: it must be an object"),
        ("enabled", json!("yes"), "'enabled' must be true or false"),
        (
            "schema_version",
            json!("2.0"),
            "'schema_version' \\\"2.0\\\" is not supported; use \"1.0\"",
        ),
        (
            "name",
            json!("a.b"),
            "'name' `a.b` must be at most 60 lower-case letters, digits and `_`, beginning with a \
             letter",
        ),
        ("kind", json!("wasm"), "'kind' must be one of python, command, mcp"),
        ("kind", json!("command"), "'command' must be a list of the program and its arguments"),
        ("needs", json!({"files": "all"}), "needs: 'files' must be read or write"),
    ] {
        let error = read(&with(key, value)).unwrap_err();
        assert_eq!(error, format!("Invalid manifest p/manifest.json: {told}"));
    }
    let mut bad = tool();
    bad["parameters"] = json!([]);
    let error = read(&with("tools", json!([bad]))).unwrap_err();
    assert_eq!(error, "Invalid manifest p/manifest.json: Tool 0: 'parameters' must be an object");
    let error = PluginManifest::parse_manifest(b"{", "p/manifest.json").unwrap_err().to_string();
    assert!(error.starts_with("Invalid manifest p/manifest.json: it is not valid JSON"), "{error}");
}

#[test]
fn missing_fields_have_the_research_registry_defaults() {
    let manifest = read(&with("schema_version", json!("1.0"))).unwrap();
    assert!(manifest.is_enabled && manifest.dependencies.is_empty());
    assert!(manifest.settings_schema.is_empty());
    let tool = &manifest.tools[0];
    assert_eq!((tool.category.as_str(), tool.is_enabled), ("specialized", true));
    assert_eq!(tool.parameters.as_str(), "{}");
    assert_eq!(
        tool.input_schema,
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false})
    );
    assert_eq!(tool.traits.allowed_callers, [CallerType::Direct]);
    assert_eq!(
        (tool.traits.min_level, tool.traits.safety),
        (PermissionLevel::User, SafetyLevel::Safe)
    );
    assert_eq!(tool.traits.effects, SideEffects::Unknown);
}

/// The research registry's example manifest.
#[test]
fn the_research_registry_manifest_is_read() {
    let manifest = json!({
      "schema_version": "1.0",
      "name": "canvas_tools",
      "version": "1.0.0",
      "description": "Canvas tools for reasoning visualization",
      "enabled": true,
      "dependencies": ["kuzu"],
      "settings_schema": {
        "canvas_directory": {"type": "string", "default": "/mnt/canvases"}
      },
      "tools": [{
          "name": "export_reasoning_canvas",
          "description": "Export hypothesis/failure graphs to JSON Canvas",
          "module": "src.tools.canvas_tools",
          "function": "export_reasoning_canvas",
          "category": "data",
          "parameters": {"graph_type": {"type": "string", "required": false}}
      }]
    });
    let read = read(&manifest).unwrap();
    assert_eq!(read.kind, PluginRuntime::Python);
    assert_eq!(read.dependencies, ["kuzu"]);
    let input = &read.tools[0].input_schema;
    assert_eq!(input["properties"]["graph_type"], json!({"type": "string"}));
    assert_eq!((&input["required"], &input["additionalProperties"]), (&json!([]), &json!(false)));
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert!(jsonschema::is_valid(&schema, &manifest));
}

#[test]
fn traits_are_read_and_a_slip_in_one_is_told() {
    let mut one = tool();
    let more = json!({
        "side_effects": ["modifies_files"], "destructive": true, "allowed_callers": ["chain"],
        "required_permission": "admin", "safety": "moderate", "timeout_ms": 1500,
        "permissions": ["filesystem"], "categories": ["File"], "requires_approval": true,
    });
    one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let traits = read(&with("tools", json!([one]))).unwrap().tools.remove(0).traits;
    assert_eq!((traits.min_level, traits.safety), (PermissionLevel::Admin, SafetyLevel::Cautious));
    assert_eq!(traits.allowed_callers, [CallerType::Chain]);
    assert!(traits.is_destructive && traits.requires_approval);
    assert_eq!(traits.timeout.unwrap().as_millis(), 1500);
    assert_eq!(traits.categories, ["specialized", "file"]);
    one["safety"] = json!("harmless");
    let error = read(&with("tools", json!([one]))).unwrap_err();
    assert!(error.ends_with("Tool 0: 'safety': unknown safety level `harmless`; use one of safe, cautious, dangerous"), "{error}");
    let mut other = tool();
    other["allowed_callers"] = json!("chain");
    let traits = read(&with("tools", json!([other]))).unwrap().tools.remove(0).traits;
    assert_eq!(traits.allowed_callers, [CallerType::Direct], "what is no list means direct");
}

/// Whatever the published schema refuses is refused here too.
#[test]
fn the_published_schema_agrees_with_the_rules() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut odd = tool();
    odd["parameters"] = json!({"a": {"type": "string", "required": true, "default": "x"}});
    for good in [
        with("author", json!("x")),
        with("tools", json!([odd])),
        with("needs", json!({"network": ["*"]})),
    ] {
        assert!(schema.is_valid(&good) && read(&good).is_ok(), "{good}");
    }
    for bad in [
        json!({}),
        with("name", json!("A")),
        with("tools", json!({})),
        with("dependencies", json!([1])),
        with("schema_version", json!("3")),
        with("needs", json!({"root": true})),
        with("kind", json!("so")),
        with("tools", json!([{"name": "t"}])),
    ] {
        assert!(!schema.is_valid(&bad) && read(&bad).is_err(), "{bad}");
    }
}

#[test]
fn two_tools_of_one_name_are_told() {
    let error = read(&with("tools", json!([tool(), tool()]))).unwrap_err();
    assert!(error.ends_with("Tool 1: the tool `t` already exists"), "{error}");
}

#[test]
fn golden_schema_of_manifests() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/reference/plugin-manifest.schema.json");
    if std::env::var_os("TOOLKEEP_BLESS").is_some_and(|word| word == "1") {
        std::fs::write(&path, SCHEMA).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == SCHEMA, "it is stale; run `cargo xtask generate` and read the diff");
}

/// Shipped manifests have no problems; the safety-level library's two tables.
#[test]
fn the_two_tables_of_the_safety_level_library_come_out_exactly() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let at = entry.unwrap().path().join("manifest.json");
        let manifest =
            PluginManifest::parse_manifest(&std::fs::read(&at).unwrap(), "shipped").unwrap();
        assert_eq!(manifest.warnings, [] as [&str; 0], "{}", at.display());
    }
    let text = std::fs::read(folder.join("lisp_image/manifest.json")).unwrap();
    let tools = PluginManifest::parse_manifest(&text, "lisp_image").unwrap().tools;
    let of = |safety| tools.iter().filter(|tool| tool.traits.safety == safety).count();
    assert_eq!(
        (of(SafetyLevel::Safe), of(SafetyLevel::Cautious), of(SafetyLevel::Dangerous)),
        (13, 3, 2)
    );
    let has = |word: &str| {
        tools.iter().filter(|tool| tool.traits.categories.iter().any(|it| it == word)).count()
    };
    let counts =
        ["introspection", "execution", "buffer", "diff", "xref", "clos", "packages"].map(has);
    assert_eq!(counts, [9, 4, 4, 1, 2, 2, 1]);
}
