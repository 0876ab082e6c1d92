//! Pages show what REST shows, to each principal.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tool::PermissionLevel;

use crate::approvals::ApprovalServer;
use crate::support::{Browser, Client, FixtureServer, tools};

/// The names of all tools, page by page.
async fn tool_names(browser: &Browser, query: &str) -> Vec<String> {
    let (mut names, mut path) = (Vec::new(), format!("/ui/tools{query}"));
    loop {
        let page = browser.page(&path).await;
        let entries = page.entries().into_iter();
        names.extend(entries.map(|path| path.strip_prefix("/ui/tools/").unwrap().to_owned()));
        let next =
            page.tags.iter().find(|tag| tag.attributes.get("rel").is_some_and(|it| it == "next"));
        let Some(next) = next else { return names };
        path.clone_from(&next.attributes["href"]);
    }
}

async fn rest_names(client: &Client) -> Vec<String> {
    let list = client.get("/v1/tools").await.expect_ok();
    list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn each_principal_sees_the_tools_that_rest_shows_it() {
    let server = FixtureServer::new().await;
    let mut clients = vec![server.owner_client().await];
    for level in PermissionLevel::ALL {
        clients.push(server.agent_client("bob", *level).await);
    }
    let foreign = server.client_with(|key| key.org = tool::Org::new("other").unwrap()).await;
    clients.push(foreign);
    let everything = rest_names(&clients[0]).await;
    let mut different = BTreeSet::new();
    for client in &clients {
        let browser = Browser::sign_in(&server, client).await;
        let names = tool_names(&browser, "").await;
        assert_eq!(names, rest_names(client).await);
        for name in &everything {
            let (page, rest) = (
                browser.get(&format!("/ui/tools/{name}")).await,
                client.get(&format!("/v1/tools/{name}")).await,
            );
            assert_eq!(page.status, rest.status, "{name}");
        }
        different.insert(names);
    }
    assert!(different.len() >= 4, "the control: principals differ: {different:?}");
}

#[tokio::test]
async fn a_tools_page_has_what_rest_has() {
    let server = FixtureServer::with_offers(vec![tools::tool_offer(
        tools::tool_with("docs.search", |tool| {
            tool.title = Some("Search <documents>".to_owned());
            tool.description = "Finds documents.\nReturns ids & titles.".to_owned();
            tool.input_schema = tool::Json::encode(&json!({"type": "object", "required": ["query"],
                "properties": {"query": {"type": "string", "description": "Words.", "maxLength": 80}}}));
            tool.traits.categories = vec!["data".to_owned()];
        }),
        testkit::executor::echo_executor(),
    )])
    .await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    let text = browser.page("/ui/tools/docs.search").await.text;
    let rest = owner.get("/v1/tools/docs.search").await.expect_ok();
    let traits = &rest["traits"];
    let words = |value: &Value| {
        let all = value.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        all.collect::<Vec<_>>().join(", ")
    };
    for part in [
        rest["title"].as_str().unwrap(),
        rest["description"].as_str().unwrap(),
        rest["definition"].as_str().unwrap(),
        rest["source"].as_str().unwrap(),
        traits["level"].as_str().unwrap(),
        traits["safety"].as_str().unwrap(),
        &words(&traits["effects"]),
        &words(&traits["callers"]),
        &words(&traits["categories"]),
        "query",
        "Words.",
        "maxLength: 80",
        "GET /v1/tools/docs.search",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[tokio::test]
async fn a_list_is_searched_filtered_and_read_page_by_page() {
    let mut offers = tools::many_offers(120);
    offers.push(tools::tool_offer(
        tools::tool_with("mail.send", |tool| {
            tool.description = "Sends a Message to a person.".to_owned();
            tool.traits.safety = tool::SafetyLevel::Dangerous;
            tool.traits.effects = tool::SideEffects::Unknown;
            tool.traits.categories = vec!["web".to_owned()];
        }),
        testkit::executor::echo_executor(),
    ));
    let server = FixtureServer::with_offers(offers).await;
    let owner = server.owner_client().await;
    let browser = Browser::sign_in(&server, &owner).await;
    assert_eq!(tool_names(&browser, "").await, rest_names(&owner).await);
    assert_eq!(browser.page("/ui/tools").await.entries().len(), 50);
    for query in [
        "?q=MESSAGE+person",
        "?q=mail.send",
        "?safety=dangerous",
        "?effect=unknown",
        "?category=web",
        "?source=s&level=&safety=dangerous",
    ] {
        assert_eq!(tool_names(&browser, query).await, ["mail.send"], "{query}");
    }
    assert_eq!(tool_names(&browser, "?q=many.t").await.len(), 120);
    for query in ["?q=message+nobody", "?source=none", "?safety=dangerous&category=math"] {
        assert!(tool_names(&browser, query).await.is_empty(), "{query}");
    }
    for query in ["?other=1", "?cursor=none", &format!("?q={}", "a".repeat(201))] {
        assert_eq!(browser.get(&format!("/ui/tools{query}")).await.status, 400, "{query}");
    }
}

#[tokio::test]
async fn each_principal_sees_and_decides_the_calls_that_rest_lets_it() {
    let bench = ApprovalServer::new().await;
    let server = &bench.server;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(bench.pending_call(json!({"n": n})).await);
    }
    let own = bench.owner.call_tool("rm", json!({"n": 5})).await.json();
    ids.push(own["call_id"].as_str().unwrap().to_owned());
    let foreign = server
        .client_with(|key| {
            (key.is_agent, key.level) = (false, PermissionLevel::Owner);
            key.org = tool::Org::new("other").unwrap();
            key.rights = identity::Right::ALL.iter().copied().collect();
        })
        .await;
    let guest = server
        .client_with(|key| {
            (key.is_agent, key.level, key.subject) = (false, PermissionLevel::Guest, "eve".into());
            key.rights = [identity::Right::Approve].into();
        })
        .await;
    let stranger = server.agent_client("bob", PermissionLevel::User).await;
    let mut seen = BTreeSet::new();
    for client in [&bench.owner, &bench.agent, &stranger, &foreign, &guest] {
        let browser = Browser::sign_in(server, client).await;
        let list = client.get("/v1/approvals?state=all").await.expect_ok();
        let list: Vec<_> = list["approvals"].as_array().unwrap().iter().collect();
        let paths = list.iter().map(|it| format!("/ui/approvals/{}", it["id"].as_str().unwrap()));
        assert_eq!(
            browser.page("/ui/approvals?state=all").await.entries(),
            paths.collect::<Vec<_>>()
        );
        for id in &ids {
            let page = browser.get(&format!("/ui/approvals/{id}")).await;
            let rest = client.get(&format!("/v1/approvals/{id}")).await;
            assert_eq!(page.status, rest.status);
            if page.status != 200 {
                assert!(!page.text().contains("rm"), "nothing of a hidden call: {}", page.text());
                // Whatever hash is sent: the same answer as REST's.
                let digest = bench.owner.get(&format!("/v1/approvals/{id}")).await.expect_ok();
                let digest = digest["arguments_sha256"].as_str().unwrap().to_owned();
                let fields = [("arguments_sha256", digest.as_str())];
                let reply = browser.post(&format!("/ui/approvals/{id}/approve"), &fields).await;
                let rest = client.post(&format!("/v1/approvals/{id}/approve"), &json!({})).await;
                assert_eq!((reply.status, rest.status.as_u16()), (rest.status, 404));
            }
        }
        seen.insert(list.len());
    }
    assert!(seen.len() >= 2, "the control: principals differ: {seen:?}");
    // An agent sees its own call and may not decide; nobody approves an own call.
    for (client, id) in [(&bench.agent, &ids[0]), (&bench.owner, &ids[3])] {
        let browser = Browser::sign_in(server, client).await;
        assert_eq!(browser.decide(id, "approve", "").await.status, 403);
        let rest = client.post(&format!("/v1/approvals/{id}/approve"), &json!({})).await;
        assert_eq!(rest.status, 403);
    }
    assert_eq!(bench.ran.call_count(), 0);
    let owner = Browser::sign_in(server, &bench.owner).await;
    assert_eq!(owner.decide(&ids[0], "approve", "").await.status, 303, "the control");
}

/// A person decides about all bytes: what is too long for the list is decided on its own page.
#[tokio::test]
async fn long_arguments_are_decided_where_they_are_shown() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    let long = "b".repeat(5_000);
    let id = bench.pending_call(json!({"n": 1, "more": long})).await;
    let list = browser.page("/ui/approvals").await;
    assert_eq!(list.hidden_field("arguments_sha256"), None);
    assert!(!list.text.contains(&long) && list.text.contains("to decide"), "{}", list.text);
    let page = browser.page(&format!("/ui/approvals/{id}")).await;
    assert!(page.text.contains(&long) && page.hidden_field("arguments_sha256").is_some());
}

#[tokio::test]
async fn each_principal_sees_the_calls_that_rest_shows_it() {
    let bench = ApprovalServer::new().await;
    let server = &bench.server;
    let held = bench.pending_call(json!({"n": 1})).await;
    bench.decide(&held, "deny", json!({"reason": "not <now>"})).await;
    let done = bench.agent.call_tool("ls", json!({"n": 2})).await.expect_ok();
    let done = done["call_id"].as_str().unwrap().to_owned();
    let refused = bench.agent.call_tool("none", json!({})).await.json();
    let refused = refused["error"]["call_id"].as_str().unwrap().to_owned();
    let stranger = server.agent_client("bob", PermissionLevel::User).await;
    let foreign = server.client_with(|key| key.org = tool::Org::new("other").unwrap()).await;
    for client in [&bench.owner, &bench.agent, &stranger, &foreign] {
        let browser = Browser::sign_in(server, client).await;
        for query in
            ["", "?kind=outcome", "?status=refused", "?tool=ls&since=1h", "?kind=x", "?other=1"]
        {
            let page = browser.get(&format!("/ui/calls{query}")).await;
            let rest = client.get(&format!("/v1/records{query}")).await;
            assert_eq!(page.status, rest.status, "{query}: {}", page.text());
            if rest.status != 200 {
                continue;
            }
            let rest = rest.json();
            let calls =
                rest["records"].as_array().unwrap().iter().filter_map(|it| it["call"].as_str());
            let calls: Vec<_> = calls.map(|id| format!("/ui/calls/{id}")).collect();
            assert_eq!(crate::support::Page::parse(page.text()).entries(), calls, "{query}");
        }
        for id in [&held, &done, &refused, "01980000-0000-7000-8000-000000000000", "x"] {
            let page = browser.get(&format!("/ui/calls/{id}")).await;
            let rest = client.get(&format!("/v1/calls/{id}")).await;
            assert_eq!(page.status, rest.status, "{id}");
        }
    }
    let owner = Browser::sign_in(server, &bench.owner).await;
    assert!(owner.page("/ui/calls").await.entries().len() >= 5, "the control");
    for (id, parts) in [
        (&held, vec!["refused", "denied", "not <now>", "owner", "GET /v1/calls/"]),
        (&done, vec!["succeeded", "Started", "Ended", "ls"]),
        (&refused, vec!["refused", "unknown_tool", "none"]),
    ] {
        let text = owner.page(&format!("/ui/calls/{id}")).await.text;
        for part in parts {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

#[tokio::test]
async fn each_principal_sees_the_sources_and_problems_that_rest_shows_it() {
    let problem = tool::Problem::new("http://hidden.example", "cannot <connect>");
    let kind = tool::source::SourceErrorKind::Unreachable;
    let error = tool::SourceError { kind, problem };
    let server = FixtureServer::with_unavailable_module(error).await;
    let (owner, agent) =
        (server.owner_client().await, server.agent_client("bob", PermissionLevel::User).await);
    let mut problems = Vec::new();
    for client in [&owner, &agent] {
        let browser = Browser::sign_in(&server, client).await;
        let rest = client.get("/v1/sources").await.expect_ok();
        let source = &rest["sources"][0];
        let (sources, overview) =
            (browser.page("/ui/sources").await.text, browser.page("/ui").await.text);
        for word in [&source["name"], &source["kind"], &source["state"], &source["trust"]] {
            assert!(sources.contains(word.as_str().unwrap()), "{word} in {sources}");
        }
        let all = source["problems"].as_array().unwrap();
        for text in [&sources, &overview] {
            for problem in all {
                assert!(text.contains(problem["message"].as_str().unwrap()), "{problem} in {text}");
            }
            assert!(!all.is_empty() || !text.contains("hidden.example"), "{text}");
        }
        assert!(overview.contains("failed"), "{overview}");
        problems.push(all.len());
    }
    assert!(problems[0] > 0 && problems[1] == 0, "the control: {problems:?}");
}

#[tokio::test]
async fn the_overview_has_the_waiting_calls() {
    let bench = ApprovalServer::new().await;
    let browser = Browser::sign_in(&bench.server, &bench.owner).await;
    assert!(browser.page("/ui").await.text.contains("No call waits"));
    let id = bench.pending_call(json!({"n": 1})).await;
    let page = browser.page("/ui").await;
    assert_eq!(page.entries(), ["/ui/approvals".to_owned(), format!("/ui/approvals/{id}")]);
    let guest = bench.server.agent_client("eve", PermissionLevel::Guest).await;
    let other = Browser::sign_in(&bench.server, &guest).await;
    assert!(other.page("/ui").await.entries().is_empty());
}
