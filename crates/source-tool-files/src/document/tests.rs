use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Value, json};

use super::ToolDocument;

fn read(text: &str, is_json: bool) -> Result<ToolDocument, String> {
    ToolDocument::parse_document(&Bytes::from(text.to_owned()), is_json, "tools")
        .map_err(|problem| format!("{}: {}", problem.location, problem.message))
}

/// Line, key and value of each entry.
fn entries(text: &str, is_json: bool) -> Vec<(usize, Option<String>, Value)> {
    let document = read(text, is_json).unwrap();
    document.entries.into_iter().map(|e| (e.line, e.mapping_key, e.json.to_value())).collect()
}

fn refused(text: &str, is_json: bool) -> String {
    read(text, is_json).expect_err(text)
}

#[test]
fn every_shape_in_both_languages() {
    let (a, b) = (json!({ "name": "a" }), json!({ "name": "b" }));
    for (is_json, text, lines) in [
        (false, "- name: a\n- name: b\n", (1, 2)),
        (false, "# first\ntools:\n  - name: a\n\n  - name: b\n", (3, 5)),
        (false, "tools:\n  enabled: true\n  registry:\n    - name: a\n    - name: b\n", (4, 5)),
        (true, "[{\"name\":\"a\"},\n{\"name\":\"b\"}]", (1, 2)),
        (true, "{\"tools\":\n[\n{\"name\":\"a\"},{\"name\":\"b\"}]}", (3, 3)),
        (true, "{\"tools\":{\"registry\":[{\"name\":\"a\"}\n,{\"name\":\"b\"}]}}", (1, 2)),
    ] {
        let expected = vec![(lines.0, None, a.clone()), (lines.1, None, b.clone())];
        assert_eq!(entries(text, is_json), expected, "{text}");
    }
    for (is_json, text) in [
        (false, "tools:\n  x: {name: a}\n  registry: {name: b}\n"),
        (true, "{\"tools\":{\n\"x\":{\"name\":\"a\"},\n\"registry\":{\"name\":\"b\"}}}"),
    ] {
        let expected =
            vec![(2, Some("x".into()), a.clone()), (3, Some("registry".into()), b.clone())];
        assert_eq!(entries(text, is_json), expected, "{text}");
    }
}

#[test]
fn json_keeps_its_bytes() {
    let document = read("[ { \"n\" : 1.0e2, \"m\":12345678901234567890123 } ]", true).unwrap();
    let text = document.entries[0].json.as_str();
    assert_eq!(text, "{ \"n\" : 1.0e2, \"m\":12345678901234567890123 }");
}

#[test]
fn yaml_is_read_as_its_version_1_2() {
    let text = "- enum: [yes, no, on, off]\n  flag: true\n  none: ~\n  zone: 1_000\n  half: 0.5\n  200: ok\n";
    let expected = json!({
        "enum": ["yes", "no", "on", "off"],
        "flag": true,
        "none": null,
        "zone": "1_000",
        "half": 0.5,
        "200": "ok",
    });
    assert_eq!(entries(text, false)[0].2, expected);
}

#[test]
fn literal_blocks_flow_collections_and_signs_in_words_are_read() {
    let text = "tools:\n- name: \"a\"\n  level: 'user'\n  m: -7\n  none:\n  url: http://127.0.0.1:1/x?y=z#part\n  \
                text: |\n    First line.\n\n      deeper: - line\n  end: |-\n    x\n  tags: [a, \"b c\", 3]\n  \
                parameters: {type: object, required: []}\n  list:\n  - x\n  - - y\n    - z\n";
    let expected = json!({
        "name": "a",
        "level": "user",
        "m": -7,
        "none": null,
        "url": "http://127.0.0.1:1/x?y=z#part",
        "text": "First line.\n\n  deeper: - line\n",
        "end": "x",
        "tags": ["a", "b c", 3],
        "parameters": { "type": "object", "required": [] },
        "list": ["x", ["y", "z"]],
    });
    assert_eq!(entries(text, false), [(2, None, expected)]);
}

#[test]
fn anchors_and_merges_are_followed() {
    let text = "tools:\n- &base {name: a, type: mock}\n- {<<: *base, name: b}\n";
    assert_eq!(entries(text, false)[1].2, json!({ "name": "b", "type": "mock" }));
}

#[test]
fn what_is_no_tool_file_is_told_so() {
    assert_eq!(refused("", false), "tools:1: found null");
    assert_eq!(refused("hello", false), "tools:1: found string");
    assert_eq!(refused("version: 2\n", false), "tools:1: the key `tools` is missing");
    assert_eq!(refused("version: 2\ntools: 5\n", false), "tools:2: `tools` is number");
    assert_eq!(refused("7", true), "tools:1: found number");
}

#[test]
fn a_broken_file_shows_line_and_caret() {
    let error = refused("tools:\n  - name: a\n    parameters: {type: object\n  - name: b\n", false);
    assert!(error.starts_with("tools:4:"), "{error}");
    assert!(error.contains("- name: b") && error.contains('^'), "{error}");
    let error = refused("{\n  \"tools\": [ {\"name\": \"a\",} ]\n}", true);
    assert_eq!(
        error,
        "tools:2:27: trailing comma at line 2 column 27\n    \"tools\": [ {\"name\": \"a\",} ]\n  \
         \u{20}                         ^"
    );
}

#[test]
fn a_key_twice_is_refused_in_both_languages() {
    let error = refused("- name: a\n  name: b\n", false);
    assert!(error.starts_with("tools:2:") && error.contains("duplicate"), "{error}");
    let error = refused("[{\"name\":\"a\",\n\"name\":\"b\"}]", true);
    assert!(error.starts_with("tools:2:") && error.contains("occurs twice"), "{error}");
}

/// Nine levels of nine copies each: 387 million scalars, had it been built.
#[test]
fn an_alias_bomb_is_stopped() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let copies = vec![format!("*a{}", level - 1); 9].join(",");
        writeln!(text, "a{level}: &a{level} [{copies}]").unwrap();
    }
    let error = refused(&text, false);
    assert!(error.contains("limit") || error.contains("budget"), "{error}");
    // Positive control: the same with two levels is no bomb.
    let small = text.lines().take(2).collect::<Vec<_>>().join("\n");
    assert_eq!(entries(&format!("{small}\ntools: [*a1]\n"), false).len(), 1);
}

#[test]
fn depth_and_foreign_text_are_refused() {
    for open in ["[", "- "] {
        let error = refused(&open.repeat(10_000), false);
        assert!(error.contains("recursion limit") || error.contains("depth"), "{error}");
    }
    assert!(refused(&"[".repeat(10_000), true).contains("nested deeper than 64 levels"));
    // Positive control, and the deepest the reader's stack must bear.
    assert_eq!(entries(&"- ".repeat(64), false).len(), 1);
    assert!(refused("- a: .nan\n", false).contains("finite"), "{}", refused("- a: .nan\n", false));
    let error =
        ToolDocument::parse_document(&Bytes::from_static(b"- \xff\n"), false, "tools").unwrap_err();
    assert_eq!(error.message, "not UTF-8 at byte 3");
    assert!(refused("- a\n---\n- b\n", false).contains("document"));
}

#[test]
fn settings_of_the_tool_file_registry_are_applied() {
    let text = "tools: {enabled: false, registry: [{name: a}]}\n";
    assert!(entries(text, false).is_empty());
    let document =
        read("tools: {default_timeout_ms: 500, max_iterations: 5, registry: [{name: a}]}\n", false);
    assert_eq!(document.unwrap().settings.default_timeout.unwrap().as_str(), "500");
}

#[test]
fn too_many_tools_are_counted_and_not_read() {
    let document = read(&"- {}\n".repeat(super::MAX_TOOLS + 5), false).unwrap();
    assert_eq!(
        (document.entries.len(), document.total_entries),
        (super::MAX_TOOLS, super::MAX_TOOLS + 5)
    );
}

#[test]
fn research_registry_permissions_stand_beside_the_tools_in_either_order() {
    let tools = "tools:\n  - name: a\n";
    let section = "permissions:\n  shell: {requires_approval: true}\n";
    for text in [format!("{tools}{section}"), format!("{section}{tools}")] {
        let document = read(&text, false).unwrap();
        assert_eq!(document.entries.len(), 1);
        let mut traits =
            tool::ToolTraits { scopes: vec![tool::AccessScope::Shell], ..Default::default() };
        document.settings.permissions.apply_to(&mut traits);
        assert!(traits.requires_approval, "{text}");
    }
    let told = refused(&format!("{tools}{}", section.replace("shell", "shel")), false);
    assert!(told.starts_with("tools:4") && told.contains("unknown scope `shel`"), "{told}");
}
