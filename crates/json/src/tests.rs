use serde_json::json;

use super::{Json, JsonError, JsonLimits};

const SMALL: JsonLimits = JsonLimits { max_bytes: 64, max_depth: 3, max_nodes: 6 };

fn refused(text: &str) -> String {
    Json::parse(text.to_owned(), SMALL).expect_err(text).to_string()
}

#[test]
fn keeps_the_bytes_as_they_came() {
    let text = r#" {"a" : 1.0e2, "b":123456789012345678901234567890} "#;
    assert_eq!(Json::parse(text, SMALL).unwrap().as_str(), text);
}

#[test]
fn says_what_is_wrong_and_where() {
    assert_eq!(refused(r#"{"a":1,"a":2}"#), "key `a` occurs twice at line 1 column 10");
    assert_eq!(refused("{\n \"a\":[[[1]]]}"), "nested deeper than 3 levels at line 2 column 8");
    assert_eq!(refused("[1,2,3,4,5,6,7]"), "more than 6 keys and elements at line 1 column 15");
    assert_eq!(refused("[1,]"), "trailing comma at line 1 column 4");
    assert_eq!(refused("1 2"), "trailing characters at line 1 column 3");
    assert!(refused(r#""\ud800""#).contains("hex escape"));
    assert!(refused(r#""\udc00""#).contains("surrogate"));
    assert_eq!(refused(&"1".repeat(65)), "the JSON text has 65 bytes; the maximum is 64");
    assert!(matches!(Json::parse(vec![b'"', 0xff, b'"'], SMALL), Err(JsonError::Malformed { .. })));
}

/// The key is compared as it reads, not as it is written.
#[test]
fn an_escaped_key_is_the_same_key() {
    assert!(refused("{\"a\":1,\"\\u0061\":2}").contains("occurs twice"));
}

/// Positive control: plain serde_json takes the duplicate and lets the last one win.
#[test]
fn the_plain_parser_would_have_taken_it() {
    let value: serde_json::Value = serde_json::from_str(r#"{"a":1,"a":2}"#).unwrap();
    assert_eq!(value["a"], 2);
}

#[test]
fn kinds() {
    for (text, kind) in
        [("{}", "object"), (" []", "array"), ("\"\"", "string"), ("-1", "number"), ("null", "null")]
    {
        assert_eq!(Json::parse(text, SMALL).unwrap().kind(), kind);
    }
    let error = Json::parse("[]", SMALL).unwrap().require_object().unwrap_err();
    assert_eq!(error.to_string(), "expected object, found array");
}

proptest::proptest! {
    /// Two ways to check one text, with the same end: by plain texts and by odd ones.
    #[test]
    fn checked_and_picked_is_the_same_as_checked_and_then_picked(
        members in proptest::collection::vec(
            r#" ?"[abc]": ?(1|"x\\"\}"|\[1,\{"a":2\}\]|"\\u0041"|x) ?"#, 0..4),
        end in r"\}?[ \n]?",
    ) {
        let text = format!("{{{}{end}", members.join(","));
        let keys = ["a", "b", "d"];
        let apart = Json::parse(text.clone(), SMALL).map(|json| (json.pick(keys), json));
        let at_once = Json::parse_and_pick(text, SMALL, keys).map(|(json, found)| (found, json));
        proptest::prop_assert_eq!(apart, at_once);
    }

    /// Nothing crashes, and what is accepted is what serde_json reads.
    #[test]
    fn any_text(text in "[\\[\\]{}\",:0-9a-e\\\\ .-]{0,40}") {
        if let Ok(json) = Json::parse(text.clone(), SMALL) {
            proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
            proptest::prop_assert_eq!(json.as_str(), text);
        }
    }
}

#[test]
fn a_key_that_occurs_twice_is_found_however_many_there_are() {
    for count in [2, 12, 13, 14, 40] {
        let keys: Vec<_> = (0..count).map(|i| format!("\"k{i}\":{i}")).collect();
        let whole = format!("{{{}}}", keys.join(","));
        assert!(Json::parse(whole, JsonLimits::DOCUMENT).is_ok());
        for twice in [0, count / 2, count - 1] {
            let text = format!("{{{},\"k\\u0{:03x}\":0}}", keys.join(","), 0);
            assert!(Json::parse(text, JsonLimits::DOCUMENT).is_ok());
            let text = format!("{{{},\"k{twice}\":0}}", keys.join(","));
            let error = Json::parse(text, JsonLimits::DOCUMENT).unwrap_err().to_string();
            assert!(error.starts_with(&format!("key `k{twice}` occurs twice")), "{error}");
        }
    }
}

#[test]
fn a_value_as_text_is_one_string() {
    for value in [
        json!("plain"),
        json!("a \"quote\"\n and \u{202e} more"),
        json!({"a": [1, "b\\"], "c": "\u{1}"}),
        json!([]),
        json!(1.5),
        json!(null),
    ] {
        let expected = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for json in
            [Json::encode(&value), Json::parse(format!(" {value} "), JsonLimits::DOCUMENT).unwrap()]
        {
            let mut text = String::from("x");
            json.write_as_text(&mut text);
            let read: String = serde_json::from_str(text.strip_prefix('x').unwrap()).unwrap();
            assert_eq!(read.trim(), expected, "{text}");
        }
    }
    let mut text = String::new();
    Json::parse(r#""\u0041\u202e""#.to_owned(), JsonLimits::DOCUMENT)
        .unwrap()
        .write_as_text(&mut text);
    assert_eq!(serde_json::from_str::<String>(&text).unwrap(), "A\u{202e}");
}
