use super::render_json_schema;
use crate::tests::load_yaml;

fn matches_schema(yaml: &str) -> bool {
    let schema = serde_json::from_str(&render_json_schema()).unwrap();
    let value: serde_json::Value = serde_saphyr::from_str(yaml).unwrap();
    jsonschema::is_valid(&schema, &value)
}

#[test]
fn schema_and_reader_agree() {
    let source = |yaml: &str| format!("version: 1\nsources:\n  - {yaml}\n");
    for (yaml, good) in [
        ("version: 1".to_owned(), true),
        ("version: 2".to_owned(), false),
        ("listen: 127.0.0.1:1".to_owned(), false),
        ("version: 1\nlissten: 127.0.0.1:1".to_owned(), false),
        ("version: 1\nlimits: { calls: '${CALLS:-3}', result_bytes: 1MiB }".to_owned(), true),
        ("version: 1\nserver: { behind_tls: maybe }".to_owned(), false),
        ("version: 1\nserver: { cage: fenced }".to_owned(), true),
        ("version: 1\nserver: { min_sandbox: fenced }".to_owned(), true),
        (
            source("{ name: a, tools: t, slow: true, trust: full, read_only: [x], timeout: 3s }"),
            true,
        ),
        (source("{ name: a, tools: t, idempotent: true, durability: synced }"), true),
        (source("{ name: a, module: 'http://h', credential: { bearer: x } }"), true),
        (source("{ name: a, mcp: { command: c, args: [1, true, x], env: { PORT: 8080 } } }"), true),
        (source("{ name: a, mcp: { url: 'http://h', headers: { A: b } } }"), true),
        ("version: 1\npolicy: {}".to_owned(), true),
        ("version: 1\npolicy: { safety_limit: moderate, categories: [] }".to_owned(), true),
        ("version: 1\npolicy: { allow: ['a.*'], deny: ['source:b'] }".to_owned(), true),
        ("version: 1\npolicy:".to_owned(), false),
        ("version: 1\npolicy: { allow: }".to_owned(), false),
        ("version: 1\npolicy: { deny: [a, ] , safety_limit: mild }".to_owned(), false),
        ("version: 1\npolicy: { deny: a }".to_owned(), false),
        ("version: 1\npolicy: { denny: [a] }".to_owned(), false),
        (source("{ name: a }"), false),
        (source("{ tools: t }"), false),
        (source("{ name: a, tools: t, module: 'http://h' }"), false),
        (source("{ name: a, tools: t, trust: ful }"), false),
        (source("{ name: a, tools: t, slow: [] }"), false),
        (source("{ name: a, mcp: { command: c, url: 'http://h' } }"), false),
        (source("{ name: a, mcp: { command: c, args: c } }"), false),
    ] {
        assert_eq!(load_yaml(&yaml, &[]).into_valid_config().is_ok(), good, "reader: {yaml}");
        assert_eq!(matches_schema(&yaml), good, "schema: {yaml}");
    }
}

#[test]
fn golden_schema_of_the_configuration() {
    testkit::golden_file::assert_matches_file(
        "docs/reference/config.schema.json",
        &render_json_schema(),
    );
}
