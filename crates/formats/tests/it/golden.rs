//! One definition, one snapshot per format. The inputs are in `golden/`, the snapshots beside this
//! file.

use formats::{AliasMap, ProviderFormat, join_tools, render_tool};
use tool::{Json, JsonLimits, SideEffect, SideEffects, Tool, ToolName, ToolTraits};

fn json(text: &str) -> Json {
    Json::parse(text.to_owned(), JsonLimits::DEFINITION).unwrap()
}

/// A tool whose source wrote it as MCP does, with annotations that are trusted.
fn from_mcp(text: &str) -> Tool {
    let received = json(text.trim_end());
    let word = |key: &str| received.get(key).map(|json| json.decode::<String>().unwrap());
    Tool {
        name: ToolName::new(word("name").unwrap()).unwrap(),
        title: word("title"),
        description: word("description").unwrap(),
        input_schema: received.get("inputSchema").unwrap(),
        output_schema: received.get("outputSchema"),
        traits: ToolTraits { trusted_annotations: true, ..ToolTraits::default() },
        raw_definition: received,
    }
}

/// The same tool from a source that wrote it otherwise.
fn from_elsewhere(text: &str, traits: ToolTraits) -> Tool {
    Tool { traits, raw_definition: json("{}"), ..from_mcp(text) }
}

fn fragment(format: ProviderFormat, tool: &Tool, name: &str) -> Json {
    render_tool(format, tool, name).json.unwrap()
}

fn snapshots(input: &str, tool: &Tool) {
    let names = AliasMap::with_safe_aliases([tool.name.as_str()]);
    for format in ProviderFormat::ALL {
        let name = match format {
            ProviderFormat::Mcp => tool.name.as_str(),
            _ => names.alias_of(tool.name.as_str()).unwrap(),
        };
        let written = fragment(*format, tool, name);
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("{input}@{format}"), written.as_str());
        });
    }
}

/// The module API's example, exactly as its document shows it: same keys, same order,
/// `names=native`.
#[test]
fn module_api_example() {
    let tool = from_elsewhere(include_str!("golden/web_search.json"), ToolTraits::default());
    let names = AliasMap::with_native_names();
    let name = names.alias_of("research.web_search").unwrap();
    let written = fragment(ProviderFormat::OpenaiChat, &tool, name);
    let pretty = serde_json::to_string_pretty(&written.to_value()).unwrap();
    assert_eq!(pretty, include_str!("golden/module_api.json").trim_end());
    snapshots("web_search", &tool);
}

/// Unknown fields, odd spacing and numbers past 64 bits.
#[test]
fn a_definition_of_an_mcp_server_survives() {
    let tool = from_mcp(include_str!("golden/mcp_odd.json"));
    assert_eq!(fragment(ProviderFormat::Mcp, &tool, "odd"), tool.raw_definition);
    snapshots("mcp_odd", &tool);
}

#[test]
fn only_the_name_of_an_mcp_definition_is_replaced() {
    let tool = from_mcp(include_str!("golden/mcp_odd.json"));
    let renamed = fragment(ProviderFormat::Mcp, &tool, "server.odd");
    let expected = tool.raw_definition.as_str().replacen(r#""odd""#, r#""server.odd""#, 1);
    assert_eq!(renamed.as_str(), expected);
}

/// A source may write any `inputSchema` beside the one its calls are checked against.
#[test]
fn what_is_shown_is_what_is_checked() {
    let mut tool = from_mcp(include_str!("golden/mcp_odd.json"));
    tool.input_schema = json(r#"{"type":"object","required":["really"]}"#);
    let written = fragment(ProviderFormat::Mcp, &tool, "odd");
    assert_eq!(written.get("inputSchema").unwrap(), tool.input_schema);
    assert!(written.get("x-vendor").is_some());
}

#[test]
fn traits_become_annotations() {
    let traits = ToolTraits {
        effects: SideEffects::Declared(vec![SideEffect::ModifiesFiles]),
        is_destructive: true,
        is_idempotent: true,
        ..ToolTraits::default()
    };
    snapshots("delete_file", &from_elsewhere(include_str!("golden/delete_file.json"), traits));
    let traits = ToolTraits { effects: SideEffects::read_only(), ..ToolTraits::default() };
    snapshots("read_only", &from_elsewhere(include_str!("golden/delete_file.json"), traits));
}

/// A client takes the hints of a list for Toolkeep's word: those of a server that nobody trusts are not passed on
/// where they would make it careless.
#[test]
fn hints_go_out_as_they_hold() {
    let listed = |received: &str, traits: ToolTraits| {
        let definition = format!(
            r#"{{"name":"t","description":"d","inputSchema":{{"type":"object"}},"annotations":{received}}}"#
        );
        let tool = Tool { traits, ..from_mcp(&definition) };
        let written = fragment(ProviderFormat::Mcp, &tool, "t");
        written.get("annotations").map(|it| it.as_str().to_owned()).unwrap_or_default()
    };
    let trusted =
        |effects| ToolTraits { effects, trusted_annotations: true, ..ToolTraits::default() };
    let changes = || SideEffects::Declared(vec![SideEffect::SystemState]);
    let destructive = ToolTraits { is_destructive: true, ..ToolTraits::default() };
    for (received, traits, expected) in [
        // Not trusted: what is left can only make a client more careful.
        (r#"{"readOnlyHint":true}"#, ToolTraits::default(), ""),
        (
            r#"{"title":"T","readOnlyHint":true,"openWorldHint":false,"x":1}"#,
            ToolTraits::default(),
            r#"{"title":"T","x":1}"#,
        ),
        (r#"{"destructiveHint":false,"idempotentHint":true}"#, ToolTraits::default(), ""),
        (
            r#"{"readOnlyHint":false,"openWorldHint":true}"#,
            destructive.clone(),
            r#"{"readOnlyHint":false,"openWorldHint":true}"#,
        ),
        // Trusted: as it was received.
        (
            r#"{"readOnlyHint":true,"openWorldHint":false}"#,
            trusted(SideEffects::read_only()),
            r#"{"readOnlyHint":true,"openWorldHint":false}"#,
        ),
        (
            r#"{"readOnlyHint":false,"destructiveHint":false}"#,
            trusted(changes()),
            r#"{"readOnlyHint":false,"destructiveHint":false}"#,
        ),
        (r#"{"openWorldHint":false}"#, trusted(SideEffects::Unknown), r#"{"openWorldHint":false}"#),
        // The operator's word goes before the server's, trusted or not.
        (
            "{}",
            ToolTraits { effects: SideEffects::read_only(), ..ToolTraits::default() },
            r#"{"readOnlyHint":true}"#,
        ),
        (
            r#"{"destructiveHint":false}"#,
            ToolTraits { trusted_annotations: true, ..destructive },
            r#"{"destructiveHint":true}"#,
        ),
    ] {
        assert_eq!(listed(received, traits), expected, "{received}");
    }
}

#[test]
fn a_list_joins_its_fragments() {
    let tools = [include_str!("golden/web_search.json"), include_str!("golden/delete_file.json")];
    for format in ProviderFormat::ALL {
        let fragments: Vec<Json> = tools
            .iter()
            .map(|text| from_elsewhere(text, ToolTraits::default()))
            .map(|tool| fragment(*format, &tool, tool.name.as_str()))
            .collect();
        let joined = join_tools(*format, &fragments);
        let inside = format!("{},{}", fragments[0].as_str(), fragments[1].as_str());
        let expected = match format {
            ProviderFormat::Gemini => format!(r#"[{{"functionDeclarations":[{inside}]}}]"#),
            _ => format!("[{inside}]"),
        };
        assert_eq!(joined.as_str(), expected);
        assert_eq!(join_tools(*format, []).as_str(), "[]");
    }
}
