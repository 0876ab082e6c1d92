//! One definition, one snapshot per format. The inputs are in `golden/`, the snapshots beside this
//! file.

use formats::{AliasMap, Format, list, render};
use tool::{Effect, Effects, Json, Limits, Tool, ToolName, Traits};

fn json(text: &str) -> Json {
    Json::check(text.to_owned(), Limits::DEFINITION).unwrap()
}

/// A tool whose source wrote it as MCP does, with annotations that are trusted.
fn from_mcp(text: &str) -> Tool {
    let received = json(text.trim_end());
    let word = |key: &str| received.get(key).map(|json| json.read::<String>().unwrap());
    Tool {
        name: ToolName::new(word("name").unwrap()).unwrap(),
        title: word("title"),
        description: word("description").unwrap(),
        input: received.get("inputSchema").unwrap(),
        output: received.get("outputSchema"),
        traits: Traits { trusted_annotations: true, ..Traits::default() },
        received,
    }
}

/// The same tool from a source that wrote it otherwise.
fn from_elsewhere(text: &str, traits: Traits) -> Tool {
    Tool { traits, received: json("{}"), ..from_mcp(text) }
}

fn fragment(format: Format, tool: &Tool, name: &str) -> Json {
    render(format, tool, name).json.unwrap()
}

fn snapshots(input: &str, tool: &Tool) {
    let names = AliasMap::safe([tool.name.as_str()]);
    for format in Format::ALL {
        let name = match format {
            Format::Mcp => tool.name.as_str(),
            _ => names.alias(tool.name.as_str()).unwrap(),
        };
        let written = fragment(*format, tool, name);
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("{input}@{format}"), written.as_str());
        });
    }
}

/// Spec 0's example, exactly as its document shows it: same keys, same order, `names=native`.
#[test]
fn spec_0_example() {
    let tool = from_elsewhere(include_str!("golden/web_search.json"), Traits::default());
    let names = AliasMap::native([tool.name.as_str()]);
    let name = names.alias("research.web_search").unwrap();
    let written = fragment(Format::OpenaiChat, &tool, name);
    let pretty = serde_json::to_string_pretty(&written.value()).unwrap();
    assert_eq!(pretty, include_str!("golden/spec_0.json").trim_end());
    snapshots("web_search", &tool);
}

/// Unknown fields, odd spacing and numbers past 64 bits.
#[test]
fn a_definition_of_an_mcp_server_survives() {
    let tool = from_mcp(include_str!("golden/mcp_odd.json"));
    assert_eq!(fragment(Format::Mcp, &tool, "odd"), tool.received);
    snapshots("mcp_odd", &tool);
}

#[test]
fn only_the_name_of_an_mcp_definition_is_replaced() {
    let tool = from_mcp(include_str!("golden/mcp_odd.json"));
    let renamed = fragment(Format::Mcp, &tool, "server.odd");
    let expected = tool.received.as_str().replacen(r#""odd""#, r#""server.odd""#, 1);
    assert_eq!(renamed.as_str(), expected);
}

/// A source may write any `inputSchema` beside the one its calls are checked against.
#[test]
fn what_is_shown_is_what_is_checked() {
    let mut tool = from_mcp(include_str!("golden/mcp_odd.json"));
    tool.input = json(r#"{"type":"object","required":["really"]}"#);
    let written = fragment(Format::Mcp, &tool, "odd");
    assert_eq!(written.get("inputSchema").unwrap(), tool.input);
    assert!(written.get("x-vendor").is_some());
}

#[test]
fn traits_become_annotations() {
    let traits = Traits {
        effects: Effects::Declared(vec![Effect::ModifiesFiles]),
        destructive: true,
        idempotent: true,
        ..Traits::default()
    };
    snapshots("delete_file", &from_elsewhere(include_str!("golden/delete_file.json"), traits));
    let traits = Traits { effects: Effects::read_only(), ..Traits::default() };
    snapshots("read_only", &from_elsewhere(include_str!("golden/delete_file.json"), traits));
}

/// A client takes the hints of a list for Toolkeep's word: those of a server that nobody trusts are not passed on
/// where they would make it careless.
#[test]
fn hints_go_out_as_they_hold() {
    let listed = |received: &str, traits: Traits| {
        let definition = format!(
            r#"{{"name":"t","description":"d","inputSchema":{{"type":"object"}},"annotations":{received}}}"#
        );
        let tool = Tool { traits, ..from_mcp(&definition) };
        let written = fragment(Format::Mcp, &tool, "t");
        written.get("annotations").map(|it| it.as_str().to_owned()).unwrap_or_default()
    };
    let trusted = |effects| Traits { effects, trusted_annotations: true, ..Traits::default() };
    let changes = || Effects::Declared(vec![Effect::SystemState]);
    let destructive = Traits { destructive: true, ..Traits::default() };
    for (received, traits, expected) in [
        // Not trusted: what is left can only make a client more careful.
        (r#"{"readOnlyHint":true}"#, Traits::default(), ""),
        (
            r#"{"title":"T","readOnlyHint":true,"openWorldHint":false,"x":1}"#,
            Traits::default(),
            r#"{"title":"T","x":1}"#,
        ),
        (r#"{"destructiveHint":false,"idempotentHint":true}"#, Traits::default(), ""),
        (
            r#"{"readOnlyHint":false,"openWorldHint":true}"#,
            destructive.clone(),
            r#"{"readOnlyHint":false,"openWorldHint":true}"#,
        ),
        // Trusted: as it was received.
        (
            r#"{"readOnlyHint":true,"openWorldHint":false}"#,
            trusted(Effects::read_only()),
            r#"{"readOnlyHint":true,"openWorldHint":false}"#,
        ),
        (
            r#"{"readOnlyHint":false,"destructiveHint":false}"#,
            trusted(changes()),
            r#"{"readOnlyHint":false,"destructiveHint":false}"#,
        ),
        (r#"{"openWorldHint":false}"#, trusted(Effects::Unknown), r#"{"openWorldHint":false}"#),
        // The operator's word goes before the server's, trusted or not.
        (
            "{}",
            Traits { effects: Effects::read_only(), ..Traits::default() },
            r#"{"readOnlyHint":true}"#,
        ),
        (
            r#"{"destructiveHint":false}"#,
            Traits { trusted_annotations: true, ..destructive },
            r#"{"destructiveHint":true}"#,
        ),
    ] {
        assert_eq!(listed(received, traits), expected, "{received}");
    }
}

#[test]
fn a_list_joins_its_fragments() {
    let tools = [include_str!("golden/web_search.json"), include_str!("golden/delete_file.json")];
    for format in Format::ALL {
        let fragments: Vec<Json> = tools
            .iter()
            .map(|text| from_elsewhere(text, Traits::default()))
            .map(|tool| fragment(*format, &tool, tool.name.as_str()))
            .collect();
        let joined = list(*format, &fragments);
        let inside = format!("{},{}", fragments[0].as_str(), fragments[1].as_str());
        let expected = match format {
            Format::Gemini => format!(r#"[{{"functionDeclarations":[{inside}]}}]"#),
            _ => format!("[{inside}]"),
        };
        assert_eq!(joined.as_str(), expected);
        assert_eq!(list(*format, []).as_str(), "[]");
    }
}
