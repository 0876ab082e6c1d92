//! Formatting of results as YAML, with control characters escaped.

use serde_json::Value;

use crate::command_error::{CommandError, ExitStatus};

/// Formats the value as one YAML document that ends with a line break.
///
/// # Errors
/// Returns an error if the value cannot be serialized.
pub(super) fn format_yaml(value: &Value) -> Result<String, CommandError> {
    serde_saphyr::to_string(value).map_err(|error| {
        CommandError::new(
            ExitStatus::Failed,
            format!("the output cannot be encoded as YAML: {error}"),
        )
        .with_help("use `-o json`")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
    use serde_json::{Value, json};

    use super::format_yaml;

    fn back(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn what_is_written_reads_as_it_was() {
        let value = json!({ "tools": [{ "name": "a", "on": true, "of": null, "list": [], "map": {} }],
            "version": "1.0", "yes": "no", "many": "one\n  two\n\n", "long": "word ".repeat(40),
            "negative": -3, "half": 0.5, "most": u64::MAX, "tilde": "~", "hash": "a #b", "colon": "a: b" });
        let text = format_yaml(&value).unwrap();
        assert!(text.starts_with("tools:\n") && text.ends_with('\n'), "{text}");
        assert_eq!(back(&text), value, "{text}");
    }

    #[test]
    fn nothing_moves_the_cursor() {
        let evil = json!({ "a\u{1b}[2J": "x\u{1b}[31m\r\n\u{9b}y\u{7f}\u{8}" });
        let text = format_yaml(&evil).unwrap();
        assert!(!text.trim_end().replace('\n', "").chars().any(char::is_control), "{text:?}");
        assert_eq!(back(&text), evil);
    }

    fn tree() -> impl Strategy<Value = Value> {
        let text = prop_oneof![any::<String>(), "[-:#&*!|>'\" \n\t0-9a-z~%@`{}\\[\\],?]{0,12}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_answer_reads_as_it_was(value in tree()) {
            let text = format_yaml(&value).unwrap();
            assert_eq!(back(&text), value, "{text}");
        }
    }
}
