use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{ImportErrorKind, InputAnswers, ServerDocument, ServerVariant};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other}"),
    }
}

fn document(members: Value) -> ServerDocument {
    let mut value =
        json!({"name": "io.github.ann/weather", "description": "d", "version": "1.0.2"});
    value.as_object_mut().unwrap().extend(object(members));
    ServerDocument::parse(value.to_string().as_bytes()).unwrap()
}

fn npm(members: Value) -> Value {
    let mut package = json!({"registryType": "npm", "identifier": "@ann/weather",
        "version": "1.0.2", "transport": {"type": "stdio"}});
    package.as_object_mut().unwrap().extend(object(members));
    json!({"packages": [package]})
}

fn answers(texts: &[&str]) -> InputAnswers {
    let mut answers = InputAnswers::default();
    for text in texts {
        answers.add_text(text).unwrap();
    }
    answers
}

/// The MCP keys of the entry; or the kind of the error, its message and its help.
fn entry(members: Value, texts: &[&str]) -> Result<Value, (ImportErrorKind, String)> {
    let document = document(members);
    let entry = document.plan(None).and_then(|plan| plan.source_entry("w", &answers(texts)));
    let told = |error: super::ImportError| {
        (error.kind, format!("{}; {}", error.message, error.help.unwrap_or_default()))
    };
    entry.map(|entry| entry["mcp"].clone()).map_err(told)
}

#[test]
fn a_package_runs_in_its_exact_version_with_its_arguments_and_variables() {
    let members = npm(json!({
        "runtimeHint": "npx",
        "runtimeArguments": [{"type": "named", "name": "--prefer-offline", "value": ""}],
        "packageArguments": [
            {"type": "positional", "value": "serve"},
            {"type": "positional", "valueHint": "folder", "isRepeated": true, "isRequired": true},
            {"type": "named", "name": "--port", "default": "80"},
            {"type": "named", "name": "-u", "value": "{unit}", "variables": {"unit": {"default": "C"}}},
            {"type": "named", "name": "--unused"},
        ],
        "environmentVariables": [
            {"name": "KEY", "isRequired": true, "isSecret": true},
            {"name": "LANG", "value": "en"},
            {"name": "OPTIONAL", "isSecret": true},
        ],
    }));
    let given = ["folder=/a", "folder=/b", "KEY"];
    let args = json!([
        "-y",
        "--prefer-offline",
        "@ann/weather@1.0.2",
        "serve",
        "/a",
        "/b",
        "--port=80",
        "-u",
        "C"
    ]);
    let expected = json!({"command": "npx", "args": args, "env": {"KEY": "${KEY}", "LANG": "en"}});
    assert_eq!(entry(members.clone(), &given).unwrap(), expected);
    // Each value that the document asks for, and no other, can be supplied.
    let keys: Vec<_> = document(members.clone())
        .plan(None)
        .unwrap()
        .inputs()
        .into_iter()
        .map(|input| (input.key, input.is_missing, input.is_secret))
        .collect();
    let key = |key: &str, missing, secret| (key.to_owned(), missing, secret);
    assert_eq!(
        keys,
        [
            key("folder", true, false),
            key("port", false, false),
            key("unit", false, false),
            key("unused", false, false),
            key("KEY", true, true),
            key("OPTIONAL", false, true),
        ]
    );
    let (kind, told) = entry(members.clone(), &["folder=/a"]).unwrap_err();
    assert_eq!(kind, ImportErrorKind::InvalidInput);
    assert!(
        told.contains("the secret `KEY` is missing") && told.contains("--set 'KEY=${VARIABLE}'")
    );
    let (_, told) = entry(members.clone(), &["folder=/a", "KEY", "nothing=1"]).unwrap_err();
    assert!(told.contains("no input `nothing`") && told.contains("`folder`"), "{told}");
    let (_, told) = entry(members, &["folder=/a", "KEY", "port=1", "port=2"]).unwrap_err();
    assert!(told.contains("`port` is given twice"), "{told}");
}

#[test]
fn a_python_package_runs_with_uvx() {
    let members = json!({"packages": [{"registryType": "pypi", "identifier": "weather-mcp",
        "version": "2.0", "registryBaseUrl": "https://pypi.org", "transport": {"type": "stdio"}}]});
    let expected = json!({"command": "uvx", "args": ["weather-mcp@2.0"]});
    assert_eq!(entry(members, &[]).unwrap(), expected);
}

#[test]
fn a_remote_server_has_its_headers_and_its_secrets_as_variables() {
    let members = json!({"remotes": [{"type": "sse", "url": "https://old.example/sse"},
        {"type": "streamable-http", "url": "https://{tenant}.example/mcp",
         "variables": {"tenant": {"isRequired": true, "choices": ["eu", "us"]}},
         "headers": [
            {"name": "Authorization", "isSecret": true, "isRequired": true, "value": "Bearer {token}",
             "variables": {"token": {"isSecret": true, "isRequired": true}}},
            {"name": "X-Team", "default": "all"}]}]});
    let expected = json!({"url": "https://eu.example/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "all"}});
    assert_eq!(entry(members.clone(), &["tenant=eu", "token=${TOKEN}"]).unwrap(), expected);
    // A secret is never a value, however it is given.
    for secret in ["token=abc", "token=${TOKEN:-abc}", "token=a${TOKEN}", "token="] {
        let (kind, told) = entry(members.clone(), &["tenant=eu", secret]).unwrap_err();
        assert_eq!(kind, ImportErrorKind::InvalidInput, "{secret}");
        assert!(told.contains("`token` is a secret"), "{told}");
        assert!(!told.contains("abc"), "{told}");
    }
    let (_, told) = entry(members, &["tenant=mars", "token"]).unwrap_err();
    assert!(told.contains("`mars` is not a choice of `tenant`") && told.contains("`eu`, `us`"));
}

/// A document must not read variables of the server, which holds secrets of other sources.
#[test]
fn no_text_of_a_document_refers_to_a_variable() {
    let remote = |url: &str, variables: Value, header: Value| {
        json!({"remotes": [{"type": "streamable-http", "url": url, "variables": variables,
            "headers": [header]}]})
    };
    let header = json!({"name": "X", "value": "a ${HOME} $${HOME}"});
    let found = entry(remote("https://h.example/${HOME}", json!({}), header), &[]).unwrap();
    assert_eq!(found["url"], "https://h.example/$${HOME}");
    assert_eq!(found["headers"]["X"], "a $${HOME} $$${HOME}");
    // Nor one that its parts make together.
    let pieces = json!({"a": {"default": "$"}, "b": {"default": "{HOME}"}, "c": {"value": "$"}});
    for (url, expected) in [
        ("https://h.example/{a}{b}", "https://h.example/$${HOME}"),
        ("https://h.example/${b}", "https://h.example/$${HOME}"),
        ("https://h.example/{a}{HOME}", "https://h.example/$${HOME}"),
        ("https://h.example/{c}{b}", "https://h.example/$${HOME}"),
    ] {
        let found = entry(remote(url, pieces.clone(), json!({"name": "X"})), &[]).unwrap();
        assert_eq!(found["url"], expected, "{url}");
    }
    let asked = json!({"t": {"isRequired": true}});
    for (url, answer) in
        [("https://h.example/${t}", "t={HOME}"), ("https://h.example/{t}{HOME}", "t=$")]
    {
        let error = entry(remote(url, asked.clone(), json!({"name": "X"})), &[answer]).unwrap_err();
        assert_eq!(error.0, ImportErrorKind::Unsupported, "{url}: {error:?}");
    }
    let members = npm(json!({"packageArguments": [{"type": "positional", "value": "${HOME}"},
        {"type": "named", "name": "--${HOME}", "value": "${HOME}"}],
        "environmentVariables": [{"name": "A", "default": "${HOME}"}]}));
    let found = entry(members, &[]).unwrap().to_string();
    assert_eq!(
        (found.matches("${HOME}").count(), found.matches("$${HOME}").count()),
        (4, 4),
        "{found}"
    );
    // The control: what the caller gives may refer to one.
    let found = entry(remote("https://h.example/{t}", asked, json!({"name": "X"})), &["t=${HOME}"]);
    assert_eq!(found.unwrap()["url"], "https://h.example/${HOME}");
}

#[test]
fn a_package_names_nothing_but_a_package() {
    for identifier in [
        "--help",
        "-y",
        "github:evil/x",
        "https://evil.example/x.tgz",
        "../x",
        "a/b",
        "@a/b/c",
        "a b",
        "a;b",
        "",
        "\u{1b}[31mx",
        "x@latest",
    ] {
        let error = entry(npm(json!({"identifier": identifier})), &[]).unwrap_err();
        assert_eq!(error.0, ImportErrorKind::InvalidDocument, "{identifier}");
        assert!(!error.1.contains('\u{1b}'), "{}", error.1);
    }
    for version in ["latest", "^1.0.0", ">=1", "1.x", "", "file:..", "1 || 2", "next"] {
        let error = entry(npm(json!({"version": version})), &[]).unwrap_err();
        assert!(error.1.contains("no exact version"), "{version}: {}", error.1);
    }
    for good in ["server", "@scope/server.js", "a-b_c~d"] {
        assert!(entry(npm(json!({"identifier": good})), &[]).is_ok(), "{good}");
    }
}

#[test]
fn what_toolkeep_cannot_run_is_refused_with_the_reason() {
    let package = |registry: &str, identifier: &str| {
        json!({"packages": [{"registryType": registry, "identifier": identifier,
            "version": "1", "transport": {"type": "stdio"}}]})
    };
    for (members, part) in [
        (package("oci", "ghcr.io/a/b:1"), "docker run -i --rm ghcr.io/a/b:1"),
        (package("mcpb", "https://h.example/a.mcpb"), "offers `mcpb`"),
        (package("nuget", "a"), "offers `nuget`"),
        (json!({"remotes": [{"type": "sse", "url": "https://h.example"}]}), "offers `sse`"),
        (json!({}), "offers nothing"),
        (npm(json!({"registryBaseUrl": "https://npm.evil.example"})), "is in the registry"),
        (npm(json!({"fileSha256": "00"})), "has a checksum"),
        (
            npm(json!({"transport": {"type": "streamable-http", "url": "http://127.0.0.1"}})),
            "transport",
        ),
        (
            npm(
                json!({"runtimeHint": "docker", "runtimeArguments": [{"type": "positional", "value": "x"}]}),
            ),
            "arguments for `docker`",
        ),
    ] {
        let (kind, told) = entry(members, &[]).unwrap_err();
        assert!(told.contains(part), "{told}");
        assert_eq!(kind, ImportErrorKind::Unsupported, "{told}");
    }
    let shell = package("oci", "a; rm -rf /");
    assert!(!entry(shell, &[]).unwrap_err().1.contains("docker run"));
}

#[test]
fn the_way_to_use_a_server_is_chosen() {
    let mut members = npm(json!({}));
    members["remotes"] = json!([{"type": "streamable-http", "url": "https://h.example/mcp"}]);
    let document = document(members);
    let starts = |variant| document.plan(variant).map(|plan| plan.starts_program());
    assert!(!starts(None).unwrap());
    assert!(!starts(Some(ServerVariant::Remote)).unwrap());
    assert!(starts(Some(ServerVariant::Npm)).unwrap());
    assert!(starts(Some(ServerVariant::Pypi)).is_err());
}

#[test]
fn what_is_no_document_is_refused_and_quoted_safely() {
    let deep = format!("{{\"name\":{}", "[".repeat(100_000));
    let huge = format!("{{\"name\":\"{}\"}}", "a".repeat(super::MAX_DOCUMENT_BYTES));
    for text in ["", "{", "[]", "{}", "null", "{\"name\": 1}", &deep, &huge] {
        assert!(ServerDocument::parse(text.as_bytes()).is_err(), "{} bytes", text.len());
    }
    for name in ["a", "a/b/c", "/a", "a/", "<script>/x", "a/\u{1b}[2J", "a/b c", "a/\u{202e}b"] {
        let text = json!({"name": name}).to_string();
        let error = ServerDocument::parse(text.as_bytes()).unwrap_err();
        assert!(error.message.chars().all(tool::display_text::is_printable), "{}", error.message);
    }
    // The envelope of a registry, and the name for the source.
    let text = json!({"server": {"name": "a.b/c_d", "version": "1"}, "_meta": {}}).to_string();
    let document = ServerDocument::parse(text.as_bytes()).unwrap();
    assert_eq!((document.name(), document.source_name().as_str()), ("a.b/c_d", "c_d"));
}

/// All texts of up to four of these parts, each after an `x`.
fn templates() -> Vec<String> {
    let parts = ["$", "{", "}", "A", "{v}", "$$"];
    let mut all = vec!["x".to_owned()];
    let mut from = 0;
    for _ in 0..4 {
        let until = all.len();
        for at in from..until {
            all.extend(parts.map(|part| format!("{}{part}", all[at])));
        }
        from = until;
    }
    all
}

/// Loads a source with these variables by the configuration's own loader, where the variable `A` is
/// set, and returns their values.
fn load_variables(env: &Map<String, Value>) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("toolkeep.yaml"), "version: 1\n").unwrap();
    let options = config::LoadOptions {
        file: Some("toolkeep.yaml".into()),
        listen: None,
        allowed_hosts: Vec::new(),
        behind_tls: false,
        data_dir: Some(folder.path().join("data")),
        current_dir: folder.path().to_owned(),
        environment: Arc::new([("A", "secret")].into_iter().collect()),
    };
    let entry = json!({"name": "w", "mcp": {"command": "p", "env": env}});
    let edit = crate::ConfigEdit::open(options).unwrap();
    let added = edit.add_source(entry.as_object().unwrap()).unwrap();
    let config::SourceKind::McpCommand(command) = &added.config.sources[0].kind else { panic!() };
    command.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect()
}

/// What a document says is what the program gets, to the character, for every way in which its parts
/// meet. The configuration's loader is the judge.
#[test]
fn each_text_of_a_document_arrives_as_it_is() {
    let defaults = ["$", "{A}", "${A}", "{", "A}", "$${"];
    let (mut inputs, mut expected) = (Vec::new(), BTreeMap::new());
    for template in templates() {
        for default in defaults {
            let name = format!("V{}", inputs.len());
            expected.insert(name.clone(), template.replace("{v}", default));
            inputs.push(
                json!({"name": name, "value": template, "variables": {"v": {"default": default}}}),
            );
        }
    }
    assert!(inputs.len() > 9_000, "{}", inputs.len());
    let mut value = json!({"name": "a/b"});
    value.as_object_mut().unwrap().extend(object(npm(json!({"environmentVariables": inputs}))));
    let document = ServerDocument::from_value(value).unwrap();
    let entry = document.plan(None).unwrap().source_entry("w", &answers(&[])).unwrap();
    let env = entry["mcp"]["env"].as_object().unwrap();
    assert_eq!(load_variables(env), expected);
    // The control: written as they are, many of them would be read as variables.
    assert!(expected.values().filter(|text| text.contains("${A}")).count() > 100);
}

/// What the caller supplies may refer to a variable, and nothing of the document changes to which.
#[test]
fn a_reference_of_the_caller_stays_whole() {
    let (mut env, mut expected) = (Map::new(), BTreeMap::new());
    let answers = answers(&["v=${A}"]);
    for template in templates() {
        let variables = json!({"v": {"isSecret": true, "isRequired": true}});
        let input = json!({"name": "V", "value": template, "variables": variables});
        let document = document(npm(json!({"environmentVariables": [input]})));
        if !template.contains("{v}") {
            continue;
        }
        match document.plan(None).unwrap().source_entry("w", &answers) {
            Ok(entry) => {
                let name = format!("V{}", env.len());
                expected.insert(name.clone(), template.replace("{v}", "secret"));
                env.insert(name, entry["mcp"]["env"]["V"].clone());
            }
            Err(error) => {
                assert_eq!(error.kind, ImportErrorKind::Unsupported);
                assert!(template.contains("${v}"), "{template}: {error:?}");
            }
        }
    }
    assert!(env.len() > 300, "{}", env.len());
    assert_eq!(load_variables(&env), expected);
}
