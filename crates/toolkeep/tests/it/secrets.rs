//! Tests that configured secrets never appear in output, responses or logs, even if an upstream
//! echoes them.

mod echo_upstream;

use serde_json::json;

use self::echo_upstream::EchoUpstream;
use crate::real_support::{CommandOutput, run_cli, toolkeep};
use crate::support::installation::Installation;
use crate::support::process_marks::{marked_processes, wait_until};
use crate::support::server_process::{READY_LIMIT, Server, spawn_under};

/// Every secret of the configuration below begins so.
const MARK: &str = "PLANTED-";

/// Sources of each kind, some of which are never listed.
fn config(echo: &EchoUpstream) -> String {
    let at = |path: &str| format!("{}{path}", echo.url());
    let secret = |name: &str| format!("{MARK}{name}-0123456789");
    json!({
        "version": 1,
        "redis": format!("redis://:{}@127.0.0.1:1/0", secret("redis")),
        "approvals": { "webhook": { "url": at(&format!("/500/{}", secret("hook-path"))), "secret": secret("hook") } },
        "tokens": { "resource": "https://t.example/mcp", "issuers": [{ "name": "corp", "issuer": at("/iss"),
            "jwks": at(&format!("/500/jwks?key={}", secret("jwks"))),
            "grants": [{ "claim": "scope", "value": "tools", "level": "user" }] }] },
        "sources": [
            { "name": "module-listed", "module": at("/module"), "credential": { "bearer_env": "OF_MODULE" } },
            { "name": "module", "module": at("/500"), "credential": { "bearer": secret("module") } },
            { "name": "module-query", "module": at(&format!("/500?key={}", secret("module-query"))) },
            { "name": "listed", "mcp": { "url": at(&format!("/mcp?key={}", secret("query"))),
                "headers": { "X-Api-Key": secret("header") } }, "credential": { "bearer": secret("bearer") } },
            { "name": "unlisted", "mcp": { "url": at(&format!("/500?q={}", secret("unlisted"))),
                "headers": { "X-Any": secret("any") } } },
            { "name": "oauth", "mcp": { "url": at("/401"), "oauth": { "grant": "client_credentials",
                "client_id": "me", "client_secret": secret("client"), "issuer": at("/iss"),
                "token_endpoint": at(&format!("/500?x={}", secret("endpoint"))) } } },
            { "name": "each", "mcp": { "url": at("/mcp"), "per_caller": {
                "secrets": { "owner": secret("owner"), "other": secret("other") }, "list_as": "other" } } },
            { "name": "child", "mcp": { "command": "sh", "args": ["-c", "echo $0 $1 $TOK >&2; echo $0 $1 $TOK; exit 3",
                secret("argument"), format!("--api-key={}", secret("option"))], "env": { "TOK": secret("child") } } },
            { "name": "silent", "mcp": { "command": "sh", "args": ["-c", "sleep 1000; true", secret("stays")],
                "env": { "TOK": secret("silent") } } },
            { "name": "absent", "mcp": { "command": "/no/such/program", "args": [secret("absent")] } },
            { "name": "file", "tools": "./tools.yaml" },
            { "mcp_servers": "./others.json" },
        ],
    })
    .to_string()
}

fn tools(echo: &EchoUpstream) -> String {
    let tool = |name: &str, path: &str| {
        json!({ "name": name, "description": "d", "parameters": { "type": "object" },
            "implementation": { "type": "http", "url": format!("{}{path}key={MARK}{name}-query-0123", echo.url()),
                "headers": { "X-Token": format!("{MARK}{name}-header-0123"), "X-Env": { "env": "OF_FILE" } } } })
    };
    let all = [tool("fails", "/500?"), tool("answers", "/200?"), tool("unlisted", "/a b?")];
    json!({ "version": 2, "tools": all }).to_string()
}

fn others() -> String {
    let of = |name: &str| format!("{MARK}{name}-0123456789");
    json!({ "mcpServers": { "f": { "command": "sh", "args": ["-c", "echo $0 $KEY >&2; exit 4", of("foreign")],
        "env": { "KEY": of("foreign-env") } } } })
    .to_string()
}

async fn served(echo: &EchoUpstream) -> (Installation, Server) {
    let home = Installation::new(&config(echo));
    home.write("tools.yaml", &tools(echo));
    home.write("others.json", &others());
    let program = ["/usr/bin/env", "TOOLKEEP_LOG=debug"].map(str::to_owned);
    let of = |name: &str| format!("{name}={MARK}{}-0123456789", name.to_lowercase());
    let words = program.into_iter().chain(["OF_MODULE", "OF_FILE"].map(of)).map(Into::into);
    let server = spawn_under(&home, &words.collect::<Vec<_>>()).wait_until_ready().await;
    let owner = server.owner();
    for source in ["listed", "each", "file", "module-listed"] {
        owner.wait_for_source(source, |it| it["state"] == "ok").await;
    }
    for source in ["module", "module-query", "unlisted", "oauth", "child", "absent", "f"] {
        owner.wait_for_source(source, |it| it["state"] == "failed").await;
    }
    (home, server)
}

/// Each thing that somebody sees, by what it is.
async fn seen(home: &Installation, server: &Server) -> Vec<(String, String)> {
    let owner = server.owner();
    let mut seen = Vec::new();
    for tool in [
        "module-listed.work",
        "listed.tell",
        "listed.fail",
        "each.tell",
        "each.fail",
        "fails",
        "answers",
    ] {
        let reply = owner.call(tool, &json!({})).await;
        seen.push((format!("the call of {tool}"), reply.body.to_string()));
        for path in ["/v1/tools/", "/v1/pins/"] {
            let path = format!("{path}{tool}");
            seen.push((path.clone(), owner.get(&path).await.body.to_string()));
        }
    }
    let _held = owner.call("run_shell", &json!({ "command": "true" })).await;
    for path in [
        "/v1/sources",
        "/v1/records?limit=500",
        "/v1/tools",
        "/v1/approvals",
        "/v1/pins",
        "/v1/plugins",
        "/v1/nodes",
        "/api/modules",
        "/metrics",
        "/readyz",
        "/openapi.json",
    ] {
        seen.push((path.to_owned(), owner.get(path).await.body.to_string()));
    }
    for words in [&["source", "list"][..], &["source", "list", "-o", "json"], &["record", "export"]]
    {
        let CommandOutput { out, err, .. } = run_cli(server, words);
        seen.push((words.join(" "), out + &err));
    }
    for words in [&["config", "show"][..], &["config", "check"], &["doctor"]] {
        let mut command = toolkeep();
        command.args(words).arg("--config").arg(home.config()).arg("--data").arg(home.data());
        let variables = ["OF_MODULE", "OF_FILE"].map(|it| (it, format!("{MARK}{it}-0123456789")));
        let CommandOutput { out, err, .. } = CommandOutput::run_command(command.envs(variables));
        seen.push((words.join(" "), out + &err));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_anybody_sees_holds_a_secret_of_the_configuration() {
    let echo = EchoUpstream::start();
    let (home, server) = served(&echo).await;
    let mut seen = seen(&home, &server).await;
    // The control: upstreams got the secrets, and repeat them.
    let heard = echo.heard();
    for of in [
        "of_module",
        "module",
        "query",
        "header",
        "bearer",
        "unlisted",
        "any",
        "owner",
        "other",
        "fails-query",
        "fails-header",
        "of_file",
        "answers-header",
        "endpoint",
        "hook-path",
    ] {
        assert!(heard.contains(&format!("{MARK}{of}-")), "{of} is sent");
    }
    let silent = format!("{MARK}silent-0123456789");
    assert!(
        wait_until(READY_LIMIT, || !marked_processes(&silent).is_empty()).await,
        "a child has its variable"
    );
    let argument = format!("{MARK}stays-0123456789");
    let lines = marked_processes(&silent).into_iter();
    let lines = lines
        .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    assert!(lines.into_iter().any(|line| line.contains(&argument)), "and its argument");
    for (what, part) in [
        ("the call of listed.tell", "[secret]"),
        ("the call of fails", "[secret]"),
        ("/v1/sources", "[argument 3]"),
        ("source list", "[secret]"),
        ("config show", "***"),
    ] {
        let (_, text) = seen.iter().find(|(name, _)| name == what).unwrap();
        assert!(text.contains(part), "{what} shows what was there: {text}");
    }
    server.stop().await;
    let log = std::fs::read_to_string(home.log()).unwrap();
    assert!(log.contains("cannot list the source"), "the log is looked through: {log}");
    seen.push(("the log".to_owned(), log));
    let holds: Vec<_> = seen.iter().filter(|(_, text)| text.contains(MARK)).collect();
    assert!(holds.is_empty(), "{holds:#?}");
}
