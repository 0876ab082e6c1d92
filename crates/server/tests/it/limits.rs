//! Limits that are one for all doors.

use hyper::Method;
use serde_json::json;
use testkit::executor::echo;
use tool::Level;

use crate::support::client::message;
use crate::support::{Client, Server, Setup, tools};

const MIB: usize = 1 << 20;

/// A call of `tool` with so many bytes of arguments, at each door; whether it ran.
async fn at_each_door(client: &Client, tool: &str, bytes: usize) -> Vec<(&'static str, bool)> {
    let arguments = json!({ "t": "x".repeat(bytes) });
    let function = json!({ "name": tool.replace('.', "_"), "arguments": arguments.to_string() });
    let asks = json!([{ "id": "a", "type": "function", "function": function }]);
    let rest = [
        ("native", "/v1/calls", json!({ "tool": tool, "arguments": arguments })),
        ("openai", "/v1/calls?format=openai", asks),
        ("spec 0", "/execute", json!({ "tool_name": tool, "arguments": arguments })),
        ("module", "/api/modules/s/execute", json!({ "tool_name": tool, "arguments": arguments })),
    ];
    let mut ran = Vec::new();
    for (door, path, body) in rest {
        let reply = client.send(Method::POST, path, body.to_string().into()).await;
        let text = reply.text();
        ran.push((door, reply.status == 200 && text.len() > bytes && text.contains("xxxx")));
    }
    let call = json!({ "name": tool, "arguments": arguments });
    let reply = client.legacy(&message("tools/call", call)).await;
    ran.push(("mcp", reply.status == 200 && reply.text().len() > bytes));
    ran
}

#[tokio::test]
async fn a_tool_takes_as_many_arguments_at_one_door_as_at_another() {
    let large = tools::with("s.large", |tool| tool.traits.arguments = Some(4 * MIB));
    let offers = vec![tools::offer(large, echo()), tools::offer(tools::tool("s.usual"), echo())];
    let options = gateway::Options { result_bytes: 16 * MIB, ..gateway::Options::default() };
    let setup = Setup { offers, options, ..Setup::default() };
    let server = Server::with(setup).await;
    let ann = server.agent("ann", Level::User).await;
    for (tool, bytes, expected) in [
        ("s.usual", MIB / 2, true),
        ("s.usual", 3 * MIB / 2, false),
        ("s.usual", 3 * MIB, false),
        ("s.large", 3 * MIB, true),
        ("s.large", 5 * MIB, false),
    ] {
        for (door, ran) in at_each_door(&ann, tool, bytes).await {
            assert_eq!(ran, expected, "{tool} with {bytes} bytes at {door}");
        }
    }
}
