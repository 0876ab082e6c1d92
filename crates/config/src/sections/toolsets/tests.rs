use policy::ToolsetEntry;

use crate::tests::{error_lines, load_yaml, valid_config};

#[test]
fn a_toolset_has_patterns_and_items_with_other_names() {
    let config = valid_config(
        "version: 1\ntoolsets:\n  support:\n    title: Support\n    roles: [support, '*']\n    tools:\n      \
         - docs.*\n      - { pattern: crm.search, name: find_customer, description: Finds. }\n    \
         resources: ['docs.file:///guide/*']\n",
    );
    let [toolset] = config.toolsets.as_slice() else { panic!("one toolset") };
    let definition = &toolset.definition;
    assert_eq!((definition.name.as_str(), definition.title.as_str()), ("support", "Support"));
    assert_eq!(definition.roles.iter().collect::<Vec<_>>(), ["*", "support"]);
    let renamed = ToolsetEntry {
        pattern: "crm.search".to_owned(),
        name: Some("find_customer".to_owned()),
        title: None,
        description: Some("Finds.".to_owned()),
    };
    assert_eq!(definition.tools, [ToolsetEntry::from_pattern("docs.*"), renamed]);
    assert_eq!(definition.resources, [ToolsetEntry::from_pattern("docs.file:///guide/*")]);
    assert!(valid_config("version: 1\n").toolsets.is_empty());
}

#[test]
fn an_invalid_toolset_is_reported_at_its_place() {
    for (yaml, error) in [
        ("server-card: {}", "reserved"),
        ("a b: {}", "contains ' '"),
        ("x: { roles: ['a b'] }", "invalid role `a b`"),
        ("x: { tools: ['a b'] }", "invalid pattern"),
        ("x: { tools: [{ pattern: 'a.*', name: b }] }", "may be several items"),
        ("x: { tools: [{ name: b }] }", "pattern"),
        ("x: { tools: [{ pattern: a.b, alias: b }] }", "unknown key `alias`"),
        ("x: { grants: [] }", "unknown key `grants`"),
    ] {
        let report = load_yaml(&format!("version: 1\ntoolsets:\n  {yaml}\n"), &[]);
        let messages = error_lines(&report).join("\n");
        assert!(messages.contains(error), "{yaml}: {messages}");
        assert!(messages.starts_with("3:"), "{yaml}: {messages}");
        // The rest of the file stays active.
        assert!(report.config.unwrap().toolsets.is_empty(), "{yaml}");
    }
}

#[test]
fn a_toolset_with_the_name_of_a_source_is_reported_and_stays() {
    let text = "version: 1\nsources:\n  - { name: docs, tools: t.yaml }\ntoolsets:\n  docs: { roles: ['*'] }\n  \
                support: { roles: ['*'] }\n";
    let report = load_yaml(text, &[]);
    let messages = error_lines(&report).join("\n");
    assert!(messages.contains("the name `docs` is that of a source"), "{messages}");
    let config = report.config.unwrap();
    let names: Vec<_> = config.toolsets.iter().map(|it| it.definition.name.as_str()).collect();
    assert_eq!(names, ["docs", "support"]);
}
