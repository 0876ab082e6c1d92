use serde_json::{Value, json};

use super::ArgumentForm;
use super::schema_reader::MAX_FIELDS;
use crate::form_post::FormFields;
use crate::html::element;

fn typed(fields: &[(&str, &str)]) -> FormFields {
    FormFields::from_pairs(
        fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())),
    )
}

fn arguments(schema: &Value, fields: &[(&str, &str)]) -> Result<String, Vec<String>> {
    let read = ArgumentForm::from_schema(schema).read_arguments(&typed(fields));
    read.map_err(|errors| errors.into_iter().map(|error| error.message).collect())
}

fn html(schema: &Value) -> String {
    element("form").children(ArgumentForm::from_schema(schema).render(None, &[])).render_document()
}

fn sample_schema() -> Value {
    json!({
        "type": "object", "required": ["path", "options"],
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "depth": {"type": ["integer", "null"], "default": 3},
            "mode": {"enum": ["fast", "slow", 1]},
            "force": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "rest": {"type": "array"},
            "since": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "issue": {"$ref": "#/$defs/Issue"},
            "options": {"type": "object", "properties": {"a/b": {"type": "number"}}},
        },
        "$defs": {"Issue": {"type": "object", "properties": {"title": {"type": "string"}}}},
    })
}

#[test]
fn every_kind_of_field_becomes_its_json() {
    let fields = [
        ("/path", "a \"b\"\r\nc"),
        ("/depth", " 12345678901234567890.10 "),
        ("/mode", "\"slow\""),
        ("/force", "false"),
        ("/tags", "x\r\n[y]\r\n\r\n"),
        ("/since", "now"),
        ("/issue/title", "t"),
        ("/options/a~1b", "-0.5"),
    ];
    let text = arguments(&sample_schema(), &fields).unwrap();
    assert_eq!(
        text,
        r#"{"path":"a \"b\"\nc","depth":12345678901234567890.10,"mode":"slow","force":false,"tags":["x","[y]"],"since":"now","issue":{"title":"t"},"options":{"a/b":-0.5}}"#
    );
}

#[test]
fn an_empty_field_is_left_out_and_a_required_object_is_not() {
    assert_eq!(arguments(&sample_schema(), &[]).unwrap(), r#"{"options":{}}"#);
    assert_eq!(arguments(&json!({}), &[("/other", "1")]).unwrap(), "{}");
}

#[test]
fn all_wrong_fields_are_named() {
    let fields = [("/depth", "three"), ("/mode", "\"medium\""), ("/rest", "[1"), ("/path", "fine")];
    let errors = arguments(&sample_schema(), &fields).unwrap_err();
    assert_eq!(errors.len(), 3, "{errors:?}");
    for (error, start) in
        errors.iter().zip(["/depth: expected a number", "/mode: choose", "/rest: expected JSON"])
    {
        assert!(error.starts_with(start), "{error}");
    }
    for number in ["1,5", "0x10", "NaN", "\"1\"", "true", "1 2"] {
        assert!(arguments(&sample_schema(), &[("/depth", number)]).is_err(), "{number}");
    }
}

#[test]
fn the_form_shows_labels_descriptions_and_defaults_as_text() {
    let shown = html(&sample_schema());
    for part in [
        "<label for=\"argument/path\">path, required</label>",
        "<p class=\"hint description\">Where.</p>",
        "name=\"/depth\"",
        "value=\"3\"",
        "<option value=\"&quot;slow&quot;\">slow</option>",
        "<legend>options, required</legend>",
        "name=\"/options/a~1b\"",
        "rest (array, as JSON)",
        "tags (list, one a line)",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let hostile = "\"><script>alert(1)</script>";
    let shown = html(&json!({"properties": {hostile: {"type": "string", "default": hostile,
        "description": hostile, "enum": [hostile]}, "b": {"default": hostile}}}));
    assert!(!shown.contains("<script"), "{shown}");
    let hidden = "a\u{202e}b";
    let shown = html(&json!({"properties": {"a": {"type": "string", "default": hidden},
        "b": {"enum": [hidden], "default": hidden}, "c": {"type": "array", "default": [hidden]}}}));
    assert!(!shown.contains('\u{202e}'), "{shown}");
    assert!(shown.contains("value=\"&quot;a\\u202eb&quot;\" selected"), "{shown}");
}

#[test]
fn what_was_typed_comes_back_with_its_errors() {
    let form = ArgumentForm::from_schema(&sample_schema());
    let typed = typed(&[("/path", "</textarea>\u{202e}"), ("/depth", "three")]);
    let errors = form.read_arguments(&typed).unwrap_err();
    let shown = element("form").children(form.render(Some(&typed), &errors)).render_document();
    assert!(shown.contains("&lt;/textarea&gt;\u{202e}</textarea>"), "unchanged: {shown}");
    assert!(shown.contains("value=\"three\""));
    assert_eq!(shown.matches("aria-invalid=\"true\"").count(), 1);
}

#[test]
fn large_deep_and_circular_schemas_make_a_small_form() {
    let many: serde_json::Map<_, _> =
        (0..1_000).map(|i| (format!("p{i}"), json!({"type": "string"}))).collect();
    let form = ArgumentForm::from_schema(&json!({"properties": many}));
    assert_eq!((form.properties.len(), form.is_complete), (MAX_FIELDS, false));
    let circular = json!({"properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"$ref": "#/$defs/A"}}});
    assert!(html(&circular).contains("any value, as JSON"));
    let mut deep = json!({"type": "string"});
    for _ in 0..50 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    assert_eq!(html(&deep).matches("<details class=\"group\">").count(), 2);
}

#[test]
fn alternatives_of_one_value_each_are_a_choice() {
    let form = json!({"properties": {"trust": {"oneOf": [{"const": "full"}, {"const": "review"}]},
        "mixed": {"oneOf": [{"const": 1}, {"type": "string"}]}}});
    let text = html(&form);
    assert!(text.contains("<option value=\"&quot;full&quot;\">full</option>"), "{text}");
    assert!(text.contains("mixed (any value, as JSON)"), "{text}");
}

#[test]
fn lists_have_lines_checks_and_entries() {
    let schema = json!({"type": "object", "properties": {
        "sizes": {"type": "array", "items": {"type": "integer"}, "default": [1, 2]},
        "days": {"type": "array", "items": {"enum": ["mon", "tue"]}},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
        "any": {"type": "array"},
    }, "$defs": {"Row": {"type": "object", "properties": {
        "name": {"type": "string"}, "count": {"type": "number"}}}}});
    let fields = [
        ("/sizes", "3\r\n 4.50 "),
        ("/days", "\"tue\""),
        ("/days", "\"mon\""),
        ("/rows/0/name", "a"),
        ("/rows/2/count", "7"),
        ("/any", "[true, {}]"),
    ];
    assert_eq!(
        arguments(&schema, &fields).unwrap(),
        r#"{"sizes":[3,4.50],"days":["tue","mon"],"rows":[{"name":"a"},{"count":7}],"any":[true, {}]}"#
    );
    let errors = arguments(&schema, &[("/sizes", "1\nx"), ("/days", "\"sun\"")]).unwrap_err();
    assert_eq!(errors, ["/sizes: line 2: expected a number", "/days: choose some of the values"]);
    assert!(!ArgumentForm::from_schema(&schema).is_complete, "a longer list is written as JSON");
    let html = html(&schema);
    assert!(html.contains("1\n2</textarea>") && html.contains("type=\"checkbox\""), "{html}");
}

#[test]
fn a_list_of_large_objects_has_no_more_fields_than_a_form_may_have() {
    let properties: serde_json::Map<_, _> =
        (0..40).map(|number| (format!("p{number}"), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": {
        "rows": {"type": "array", "items": {"type": "object", "properties": properties}}}});
    let html = html(&schema);
    assert!(html.contains("Entry 1") && !html.contains("Entry 2"));
}

#[test]
fn a_file_is_chosen_and_sent_as_text() {
    let schema = json!({"type": "object", "properties": {
        "data": {"type": "string", "contentEncoding": "base64"}}});
    assert!(html(&schema).contains("data-file-of=\"argument/data\""));
    assert_eq!(arguments(&schema, &[("/data", "aGk=")]).unwrap(), r#"{"data":"aGk="}"#);
}
