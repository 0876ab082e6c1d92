use std::collections::BTreeMap;

use crate::tests::{error_lines, load_yaml, valid_config};

fn source(extensions: &str) -> String {
    format!(
        "version: 1\nsources:\n  - {{ name: c, mcp: {{ url: 'http://h/mcp' }}, extensions: {extensions} }}\n"
    )
}

#[test]
fn an_extension_is_a_name_or_has_methods() {
    let read = |extensions: &str| {
        let config = valid_config(&source(extensions));
        let all = config.sources[0].mcp_tools.extensions.clone().unwrap();
        let with_methods =
            all.into_iter().map(|(name, methods)| (name, methods.into_iter().collect()));
        with_methods.collect::<BTreeMap<String, Vec<String>>>()
    };
    let plain = |name: &str| (name.to_owned(), Vec::new());
    assert_eq!(read("[]"), BTreeMap::new());
    assert_eq!(read("'a.b/c, d/e'"), [plain("a.b/c"), plain("d/e")].into());
    let mixed = read("[a.b/c, { name: d/e, methods: [charts/render, charts/deep/list] }]");
    let methods = vec!["charts/deep/list".to_owned(), "charts/render".to_owned()];
    assert_eq!(mixed, [plain("a.b/c"), ("d/e".to_owned(), methods)].into());
}

#[test]
fn a_method_that_is_none_of_an_extension_is_reported() {
    for (extensions, error) in [
        ("[plain]", "`plain` is not the name of an MCP extension"),
        ("[{ name: plain }]", "`plain` is not the name of an MCP extension"),
        ("[{ methods: [a/b] }]", "name"),
        ("[{ name: a/b, other: 1 }]", "unknown key `other`"),
        ("[{ name: a/b, methods: [tools/call] }]", "serves itself"),
        ("[{ name: a/b, methods: [events/poll] }]", "serves itself"),
        ("[{ name: a/b, methods: [notifications/x] }]", "serves itself"),
        ("[{ name: a/b, methods: [ping] }]", "is not the method of an extension"),
        ("[{ name: a/b, methods: [a.b/c] }]", "is not the method of an extension"),
        ("[{ name: a/b, methods: ['a/ b'] }]", "is not the method of an extension"),
        ("[{ name: a/b, methods: [a//b] }]", "is not the method of an extension"),
    ] {
        let messages = error_lines(&load_yaml(&source(extensions), &[])).join("\n");
        assert!(messages.contains(error), "{extensions}: {messages}");
    }
}
