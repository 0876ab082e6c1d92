//! Tests of limits that are the same at all interfaces.

use bytes::Bytes;
use hyper::Method;
use proto::toolrpc::CallFunctionRequest;
use serde_json::json;
use testkit::executor::echo_executor;
use tool::PermissionLevel;

use crate::grpc::{connect_grpc, with_key};
use crate::support::client::message;
use crate::support::{Client, FixtureServer, ServerSetup, tools};

const MIB: usize = 1 << 20;

/// A call of `tool` with so many bytes of arguments, at each door; whether it ran.
async fn accepted_by_interface(
    client: &Client,
    tool: &str,
    bytes: usize,
) -> Vec<(&'static str, bool)> {
    let arguments = json!({ "t": "x".repeat(bytes) });
    let function = json!({ "name": tool.replace('.', "_"), "arguments": arguments.to_string() });
    let asks = json!([{ "id": "a", "type": "function", "function": function }]);
    let rest = [
        ("native", "/v1/calls", json!({ "tool": tool, "arguments": arguments })),
        ("openai", "/v1/calls?format=openai", asks),
        ("module API", "/execute", json!({ "tool_name": tool, "arguments": arguments })),
        ("module", "/api/modules/s/execute", json!({ "tool_name": tool, "arguments": arguments })),
    ];
    let mut ran = Vec::new();
    for (door, path, body) in rest {
        let reply = client.send(Method::POST, path, body.to_string().into()).await;
        let text = reply.text();
        ran.push((door, reply.status == 200 && text.len() > bytes && text.contains("xxxx")));
    }
    let call = json!({ "name": tool, "arguments": arguments });
    let reply = client.legacy_request(&message("tools/call", call)).await;
    ran.push(("mcp", reply.status == 200 && reply.text().len() > bytes));
    ran
}

#[tokio::test]
async fn a_tool_takes_as_many_arguments_at_one_door_as_at_another() {
    let large = tools::tool_with("s.large", |tool| tool.traits.max_argument_bytes = Some(4 * MIB));
    let offers = vec![
        tools::tool_offer(large, echo_executor()),
        tools::tool_offer(tools::test_tool("s.usual"), echo_executor()),
    ];
    let options = gateway::GatewayOptions {
        max_result_bytes: 16 * MIB,
        ..gateway::GatewayOptions::default()
    };
    let setup = ServerSetup { offers, options, ..ServerSetup::default() };
    let server = FixtureServer::with_setup(setup).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    for (tool, bytes, expected) in [
        ("s.usual", MIB / 2, true),
        ("s.usual", 3 * MIB / 2, false),
        ("s.usual", 3 * MIB, false),
        ("s.large", 3 * MIB, true),
        ("s.large", 5 * MIB, false),
    ] {
        for (door, ran) in accepted_by_interface(&ann, tool, bytes).await {
            assert_eq!(ran, expected, "{tool} with {bytes} bytes at {door}");
        }
    }
}

/// A text of arguments that are so many levels deep, themselves the first.
fn deep(levels: usize) -> String {
    format!(r#"{{"t":{}{}}}"#, "[".repeat(levels - 1), "]".repeat(levels - 1))
}

/// A text of arguments with so many keys and elements.
fn wide(nodes: usize) -> String {
    format!(r#"{{"t":[{}0]}}"#, "0,".repeat(nodes - 2))
}

/// A call with these arguments at each door; whether it ran.
async fn runs_by_interface(
    server: &FixtureServer,
    client: &Client,
    args: &str,
) -> Vec<(String, bool)> {
    let inside = args.trim_start_matches(r#"{"t":"#).trim_end_matches('}');
    let name = r#""name":"usual""#;
    let text = serde_json::to_string(args).unwrap();
    let anthropic = format!(
        r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"a",{name},"input":{args}}}]}}"#
    );
    let gemini = format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":[{{"functionCall":{{{name},"args":{args}}}}}]}}}}]}}"#
    );
    let openai =
        format!(r#"[{{"id":"a","type":"function","function":{{{name},"arguments":{text}}}}}]"#);
    let mut ran = Vec::new();
    for (path, body) in [
        ("/v1/calls", format!(r#"{{"tool":"usual","arguments":{args}}}"#)),
        ("/v1/calls?format=openai_chat", openai),
        ("/v1/calls?format=anthropic", anthropic),
        ("/v1/calls?format=gemini", gemini),
        ("/execute", format!(r#"{{"tool_name":"usual","arguments":{args}}}"#)),
    ] {
        let reply = client.send(Method::POST, path, body.into()).await;
        ran.push((path.to_owned(), reply.status == 200 && reply.text().contains(inside)));
    }
    let call =
        |args: &str| serde_json::from_str(&format!(r#"{{"name":"usual","arguments":{args}}}"#));
    let params: serde_json::Value = call(args).unwrap();
    let reply = client.legacy_request(&message("tools/call", params.clone())).await;
    ran.push(("mcp".to_owned(), reply.text().contains(inside)));
    let reply = client.modern_request("tools/call", params).await;
    ran.push(("mcp, stateless".to_owned(), reply.text().contains(inside)));
    let (line, stop, tasks) = connect_grpc(server).await;
    let input = Bytes::from(args.to_owned());
    let call = CallFunctionRequest { tool_name: "usual".to_owned(), input };
    let said =
        line.executor_client().call_function(with_key(call, &client.bearer())).await.unwrap();
    ran.push(("grpc".to_owned(), said.into_inner().success));
    drop(line);
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    ran
}

#[tokio::test]
async fn arguments_may_be_as_deep_and_have_as_many_elements_at_one_door_as_at_another() {
    let server = FixtureServer::with_offers(vec![tools::tool_offer(
        tools::test_tool("usual"),
        echo_executor(),
    )])
    .await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let most = tool::JsonLimits::ARGUMENTS;
    for (args, expected) in [
        (deep(most.max_depth), true),
        (deep(most.max_depth + 1), false),
        (deep(most.max_depth + 20), false),
        (wide(most.max_nodes - 10), true),
        (wide(most.max_nodes + 10), false),
    ] {
        for (door, ran) in runs_by_interface(&server, &ann, &args).await {
            assert_eq!(ran, expected, "{} bytes, {:.20}, at {door}", args.len(), args);
        }
    }
}
