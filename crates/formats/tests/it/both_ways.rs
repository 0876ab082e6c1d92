//! Every provider's form is read back as it was written.

use bytes::Bytes;
use formats::{
    ProviderFormat, ToolCallRequest, ToolCallResult, parse_calls, render_calls, render_results,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tool::{Json, JsonLimits, Outcome, OutcomeBody};

/// Formats whose arguments must be an object; the others carry any text.
fn objects_only(format: ProviderFormat) -> bool {
    !format.as_str().starts_with("openai")
}

fn needs_id(format: ProviderFormat) -> bool {
    format.as_str().starts_with("openai") || format == ProviderFormat::Anthropic
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = String> {
    proptest::collection::btree_map(".{0,8}", value(), 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()).to_string())
}

/// Arguments as models write them: an object mostly, and now and then anything.
fn arguments() -> impl Strategy<Value = String> {
    prop_oneof![8 => object(), 1 => ".{1,40}", 1 => Just("{'n': None}".to_owned())]
}

fn call() -> impl Strategy<Value = (Option<String>, String, String)> {
    (proptest::option::of("[a-zA-Z0-9_-]{1,20}"), "[a-zA-Z_][a-zA-Z0-9_.-]{0,20}", arguments())
}

fn requested(
    format: ProviderFormat,
    given: &[(Option<String>, String, String)],
) -> Vec<ToolCallRequest> {
    let call = |(index, (id, name, text)): (usize, &(Option<String>, String, String))| {
        let id = match format {
            ProviderFormat::Mcp => None,
            _ if needs_id(format) => Some(id.clone().unwrap_or_else(|| format!("call_{index}"))),
            _ => id.clone(),
        };
        // An empty text is what models send for no arguments, and reads back as that.
        let text = if text.trim().is_empty() { "{}" } else { text };
        let arguments_text = Bytes::from(text.to_owned());
        ToolCallRequest { id, name: name.clone(), namespace: None, arguments_text }
    };
    let calls = given.iter().enumerate().map(call);
    calls.filter(|call| !objects_only(format) || call.parse_arguments().is_ok()).collect()
}

fn outcome() -> impl Strategy<Value = Outcome> {
    (value(), any::<bool>(), any::<bool>()).prop_map(|(value, mcp, is_error)| {
        let content = json!({ "content": [{ "type": "text", "text": value.to_string() }] });
        let json = if mcp { content } else { value };
        let text = Json::parse(json.to_string(), JsonLimits::DOCUMENT).unwrap();
        Outcome {
            body: if mcp { OutcomeBody::Mcp(text) } else { OutcomeBody::Value(text) },
            is_error,
        }
    })
}

/// Of each message: id, name, text, and whether it says that it failed, each where the format has it.
type Told = (Option<String>, Option<String>, Option<String>, Option<bool>);

fn told(format: ProviderFormat, messages: &Value) -> Vec<Told> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let all = |value: &Value| value.as_array().unwrap().clone();
    let of = |message: &Value| match format {
        ProviderFormat::OpenaiChat | ProviderFormat::OpenaiChatStrict => {
            assert_eq!(message["role"], "tool");
            (text(&message["tool_call_id"]), None, text(&message["content"]), None)
        }
        ProviderFormat::OpenaiResponses | ProviderFormat::OpenaiResponsesStrict => {
            assert_eq!(message["type"], "function_call_output");
            (text(&message["call_id"]), None, text(&message["output"]), None)
        }
        ProviderFormat::Anthropic => {
            assert_eq!(message["type"], "tool_result");
            let failed = message.get("is_error").is_some_and(|flag| flag == true);
            (text(&message["tool_use_id"]), None, text(&message["content"]), Some(failed))
        }
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => {
            let part = &message["functionResponse"];
            let failed = part["response"].get("error").is_some();
            assert_ne!(failed, part["response"].get("output").is_some());
            (text(&part["id"]), text(&part["name"]), text(&part["response"]["error"]), Some(failed))
        }
        ProviderFormat::Ollama => {
            assert_eq!(message["role"], "tool");
            let id = text(&message["tool_call_id"]);
            (id, text(&message["tool_name"]), text(&message["content"]), None)
        }
        ProviderFormat::Mcp => (None, None, None, None),
    };
    let inside = |message: &Value| match format {
        ProviderFormat::Anthropic => all(&message["content"]),
        ProviderFormat::Gemini | ProviderFormat::GeminiPerTool => all(&message["parts"]),
        _ => vec![message.clone()],
    };
    all(messages).iter().flat_map(inside).map(|message| of(&message)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn calls_read_back(given in proptest::collection::vec(call(), 0..6)) {
        for format in ProviderFormat::ALL {
            let calls = requested(*format, &given);
            let message = render_calls(*format, &calls);
            let checked = Json::parse(message.bytes().clone(), JsonLimits::DOCUMENT).unwrap();
            prop_assert_eq!(&parse_calls(*format, &checked).unwrap(), &calls, "{}", format);
        }
    }

    #[test]
    fn every_call_has_its_answer_in_order(
        given in proptest::collection::vec((call(), outcome()), 0..6)
    ) {
        for format in ProviderFormat::ALL {
            let calls: Vec<_> = given.iter().map(|(call, _)| call.clone()).collect();
            let calls = requested(*format, &calls);
            let answered = |(call, (_, outcome)): (&ToolCallRequest, &(_, Outcome))| ToolCallResult {
                id: call.id.clone(),
                name: call.name.clone(),
                outcome: outcome.clone(),
            };
            let answered: Vec<_> = calls.iter().zip(&given).map(answered).collect();
            let messages = render_results(*format, &answered);
            let messages = Json::parse(messages.bytes().clone(), JsonLimits::DOCUMENT).unwrap().to_value();
            let told = told(*format, &messages);
            prop_assert_eq!(told.len(), answered.len(), "{}", format);
            for (answered, (id, name, text, failed)) in answered.iter().zip(told) {
                if *format == ProviderFormat::Mcp {
                    continue;
                }
                prop_assert_eq!(&id, &answered.id, "{}", format);
                prop_assert!(name.is_none_or(|name| name == answered.name));
                let is_error = answered.outcome.is_error;
                prop_assert!(failed.is_none_or(|failed| failed == is_error), "{}", format);
                // Without a flag, the text says it.
                let said = text.as_ref().is_some_and(|text| text.starts_with("Error: "));
                prop_assert!(failed.is_some() || !is_error || said, "{}", format);
            }
        }
    }
}
