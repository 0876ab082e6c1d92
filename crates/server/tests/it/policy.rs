//! Tests that all interfaces decide alike: random policies, keys and tools; restrictions;
//! explanations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use identity::{KeyDelegation, NewKey, Persona, Principal, RequestRestrictions, Right};
use policy::{
    FilePosition, LocatedName, Policy, PolicyDocument, PolicyLayer, PolicyRule, RuleEffect,
    ToolPattern,
};
use serde_json::{Value, json};
use testkit::executor::echo_executor;
use tool::{AccessScope, Interface, Offer, PermissionLevel, SafetyLevel, SideEffects};

use crate::interfaces::{calls_by_interface, lists_by_interface};
use crate::support::client::message;
use crate::support::{Client, FixtureServer, Reply, ServerSetup, tools};

const PATTERNS: &[&str] = &[
    "t1*",
    "*2",
    "*5*",
    "group:read",
    "group:write",
    "group:web",
    "group:math",
    "group:code",
    "group:data",
    "source:s",
    "source:r",
    "t42",
    "*",
];
const CATEGORIES: &[&str] = &["web", "data", "math", "code"];

/// Deterministic for a seed.
struct RandomPolicies(u64);

impl RandomPolicies {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn patterns(&mut self, most: usize) -> Vec<ToolPattern> {
        let fits: Vec<_> =
            PATTERNS.iter().filter_map(|text| ToolPattern::new(*text).ok()).collect();
        (0..self.below(most + 1)).map(|_| fits[self.below(fits.len())].clone()).collect()
    }

    fn texts(&mut self, most: usize) -> Vec<String> {
        self.patterns(most).into_iter().map(String::from).collect()
    }

    fn layer(&mut self) -> PolicyLayer {
        PolicyLayer {
            safety_limit: self.once_in(4).then(|| SafetyLevel::ALL[self.below(3)]),
            allow: self.once_in(3).then(|| self.patterns(5)),
            deny: self.patterns(2),
            is_read_only: self.once_in(9),
            denies_network: self.once_in(9),
            ..PolicyLayer::default()
        }
    }

    fn policy(&mut self) -> Policy {
        let named = |dice: &mut Self, name: &str| [(name.to_owned(), dice.layer())].into();
        Policy::new(PolicyDocument {
            global: self.layer(),
            roles: if self.once_in(2) { named(self, "dev") } else { BTreeMap::new() },
            personas: if self.once_in(2) { named(self, "p") } else { BTreeMap::new() },
            task_layers: if self.once_in(2) { named(self, "math") } else { BTreeMap::new() },
            ..PolicyDocument::default()
        })
        .unwrap()
    }

    fn key(&mut self, id: usize) -> NewKey {
        let fresh = server_core::KeyStore::generate_key_id().unwrap();
        let mut key = NewKey::for_user(fresh, format!("user{id}"));
        key.level = PermissionLevel::ALL[self.below(4)];
        key.roles = if self.once_in(3) { vec!["dev".to_owned()] } else { vec![] };
        if self.once_in(4) {
            let modules = if self.once_in(3) { "r" } else { "s" };
            let allowed_modules = Some([modules.to_owned()].into());
            key.persona = Some(Persona { name: "p".to_owned(), allowed_modules });
        }
        if self.once_in(4) {
            let allow = self.once_in(2).then(|| self.texts(6));
            let (deny, read_only, no_web) = (self.texts(1), self.once_in(6), self.once_in(6));
            key.delegations = vec![KeyDelegation {
                delegated_by: "k".to_owned(),
                allowed_tools: allow,
                denied_tools: deny,
                is_read_only: read_only,
                denies_network: no_web,
                is_created_key: false,
            }];
        }
        key
    }

    fn offer(&mut self, n: usize) -> Offer {
        let tool = tools::tool_with(&format!("t{n}"), |tool| {
            let traits = &mut tool.traits;
            traits.min_level = if self.once_in(2) {
                PermissionLevel::Guest
            } else {
                PermissionLevel::ALL[self.below(4)]
            };
            traits.safety =
                if self.once_in(3) { SafetyLevel::ALL[self.below(3)] } else { SafetyLevel::Safe };
            traits.is_destructive = self.once_in(9);
            traits.categories = vec![CATEGORIES[self.below(CATEGORIES.len())].to_owned()];
            traits.scopes =
                if self.once_in(3) { vec![AccessScope::ALL[self.below(4)]] } else { vec![] };
            traits.effects =
                if self.once_in(2) { SideEffects::read_only() } else { SideEffects::Unknown };
        });
        tools::tool_offer(tool, echo_executor())
    }
}

/// The code of a call that goes straight to the gateway.
async fn code(server: &FixtureServer, who: &Principal, tool: &str) -> String {
    let request = gateway::CallRequest::new(tool, "{}", Interface::Library);
    let answer = server.gateway.call_tool(who, request).await;
    answer.result.err().map_or_else(|| "ran".to_owned(), |failure| failure.code.to_string())
}

/// Status, headers and body.
pub(crate) type InterfaceAnswer = (u16, Vec<(String, String)>, String);

/// Returns the visible parts of a response, without the names, which have equal lengths.
fn visible_answer(reply: &Reply, name: &str) -> InterfaceAnswer {
    let headers = reply.headers.iter().filter(|(name, _)| !matches!(name.as_str(), "date"));
    let headers =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let mut body: Value = reply.json();
    if let Some(error) = body.get_mut("error").and_then(Value::as_object_mut) {
        error.remove("call_id");
    }
    let text = body.to_string();
    // Ids of calls differ from one to the next.
    let text = text.replace(name, "NAME");
    (reply.status.as_u16(), headers.collect(), text)
}

pub(crate) async fn answers_by_interface(client: &Client, name: &str) -> Vec<InterfaceAnswer> {
    let call = json!({ "name": name, "arguments": {} });
    let execute_body = json!({ "tool_name": name, "arguments": {} });
    let explained = json!({ "tool": name });
    vec![
        visible_answer(&client.get(&format!("/v1/tools/{name}")).await, name),
        visible_answer(&client.call_tool(name, json!({})).await, name),
        visible_answer(&client.legacy_request(&message("tools/call", call.clone())).await, name),
        visible_answer(&client.modern_request("tools/call", call).await, name),
        visible_answer(&client.post("/execute", &execute_body).await, name),
        visible_answer(&client.post("/v1/explain", &explained).await, name),
    ]
}

#[tokio::test]
async fn list_show_and_call_are_one_decision_for_random_keys_and_tools() {
    let deep = std::env::var_os("TOOLKEEP_DEEP").is_some();
    let (keys, tools) = if deep { (1_000, 1_000) } else { (80, 100) };
    let mut dice = RandomPolicies(0x5EED_1234_5678_9ABC);
    let offers: Vec<_> = (0..tools).map(|n| dice.offer(n)).collect();
    let server = FixtureServer::with_offers(offers).await;
    let names: Vec<_> = (0..tools).map(|n| format!("t{n}")).collect();
    let (mut pairs, mut seen, mut hidden) = (0, 0, 0);
    for id in 0..keys {
        if id % 4 == 0 {
            server.intake.set_policy(&dice.policy());
        }
        let (client, who) = server.client_and_principal(dice.key(id)).await;
        let (read_only, no_web, task) = (dice.once_in(6), dice.once_in(6), dice.once_in(6));
        let narrowed = who.with_restrictions(&RequestRestrictions {
            is_read_only: read_only,
            denies_network: no_web,
            task_type: task.then(|| "math".to_owned()),
            ..RequestRestrictions::default()
        });
        let task_query = if task { "&task_type=math" } else { "" };
        let query = format!("read_only={read_only}&no_web={no_web}{task_query}");
        let client = client
            .with_header("toolkeep-read-only", &read_only.to_string())
            .with_header("toolkeep-no-web", &no_web.to_string());
        let client = if task { client.with_header("toolkeep-task-type", "math") } else { client };
        let mut all = lists_by_interface(&client).await;
        for path in ["/tools", &format!("/v1/tools?{query}")] {
            let body = client.get(path).await.expect_ok();
            let tools = body["tools"].as_array().unwrap().iter();
            all.push(tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect());
        }
        all.dedup();
        let [listed] = &all[..] else { panic!("two doors list different tools: {all:?}") };
        for name in &names {
            let code = code(&server, &narrowed, name).await;
            assert_eq!(code != "unknown_tool", listed.contains(name), "{name}: {code}");
            pairs += 1;
        }
        // Of each key one tool that is there and one that is not, at every door, through its wire.
        let there = listed.iter().next();
        if let Some(name) = there {
            assert_eq!(client.get(&format!("/v1/tools/{name}")).await.status, 200);
            let mut codes = calls_by_interface(&client, name, &json!({})).await;
            codes.dedup();
            assert!(codes.len() == 1 && codes[0].0 != "unknown_tool", "{name}: {codes:?}");
            seen += 1;
        }
        if let Some(name) = names.iter().find(|name| !listed.contains(*name)) {
            let unknown = name.replace('t', "z");
            assert_eq!(
                answers_by_interface(&client, name).await,
                answers_by_interface(&client, &unknown).await,
                "{name}"
            );
            hidden += 1;
        }
    }
    println!(
        "{pairs} pairs of keys and tools, 0 differences; {seen} seen and {hidden} hidden at every door"
    );
    assert!(pairs == keys * tools && seen > keys / 4 && hidden > keys / 4);
}

/// One tool that looks, one that changes, one that reaches the network.
async fn three_level_server() -> FixtureServer {
    let effect = |name: &str, effects, scopes: Vec<AccessScope>| {
        let tool = tools::tool_with(name, |tool| {
            (tool.traits.effects, tool.traits.scopes) = (effects, scopes);
        });
        tools::tool_offer(tool, echo_executor())
    };
    FixtureServer::with_offers(vec![
        effect("look", SideEffects::read_only(), vec![]),
        effect("change", SideEffects::Unknown, vec![]),
        effect("fetch", SideEffects::read_only(), vec![AccessScope::Network]),
    ])
    .await
}

#[tokio::test]
async fn context_narrows_at_every_door_and_gives_nothing() {
    let server = three_level_server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let seen = |list: &Value| -> BTreeSet<String> {
        let list = list["tools"].as_array().unwrap().iter();
        list.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let set = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    };
    for (word, value, left) in [
        ("read_only", "true", &["fetch", "look"][..]),
        ("no_web", "true", &["change", "look"]),
        ("task_type", "math", &["change", "look"]),
        ("read_only", "false", &["change", "fetch", "look"]),
    ] {
        let header = format!("toolkeep-{}", word.replace('_', "-"));
        let (by_header, by_query) =
            (ann.with_header(&header, value), ann.with_query(&format!("?{word}={value}")));
        for client in [&by_header, &by_query] {
            assert_eq!(seen(&client.get("/v1/tools").await.expect_ok()), set(left), "{word}");
            assert_eq!(
                seen(&client.modern_request("tools/list", json!({})).await.expect_ok()["result"]),
                set(left)
            );
            assert_eq!(
                seen(
                    &client.legacy_request(&message("tools/list", json!({}))).await.expect_ok()["result"]
                ),
                set(left)
            );
            assert_eq!(seen(&client.get("/tools").await.expect_ok()), set(left));
        }
        let meta = match value {
            "math" => json!({ "_meta": { "toolkeep/task_type": "math" } }),
            _ => json!({ "_meta": { format!("toolkeep/{word}"): value == "true" } }),
        };
        let legacy = ann.legacy_request(&message("tools/list", meta)).await.expect_ok();
        assert_eq!(seen(&legacy["result"]), set(left), "{word} in _meta");
    }
}

/// `tidy_up` of the guide to approvals, with undeclared effects, and `look`, which declares that it
/// reads.
async fn undeclared_server() -> FixtureServer {
    let tidy_up = tools::tool_with("tidy_up", |tool| {
        (tool.traits.effects, tool.traits.safety) = (SideEffects::Unknown, SafetyLevel::Dangerous);
        tool.raw_definition = tool.raw_definition.without_member("inputSchema");
    });
    let look = tools::tool_with("look", |tool| {
        tool.raw_definition = tool.raw_definition.without_member("inputSchema");
    });
    let offers = [tidy_up, look].map(|it| tools::tool_offer(it, echo_executor())).into();
    let patience = Some(gateway::ApprovalSettings::default());
    FixtureServer::with_setup(ServerSetup {
        offers,
        approval_settings: patience,
        ..ServerSetup::default()
    })
    .await
}

/// Clients took a tool without declared effects for one that changes nothing.
#[tokio::test]
async fn undeclared_effects_are_unknown_in_every_list() {
    let server = undeclared_server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    // REST, the research registry's envelope, MCP of both revisions, gRPC; `look` is the control.
    for (name, words, declared, hint) in [
        ("tidy_up", json!(["unknown"]), Value::Null, Value::Null),
        ("look", json!(["read_only"]), json!(["read_only"]), json!(true)),
    ] {
        let of = |list: &Value| {
            let mut tools = list["tools"].as_array().unwrap().iter();
            tools.find(|tool| tool["name"] == name).unwrap().clone()
        };
        assert_eq!(
            of(&ann.get("/v1/tools").await.expect_ok())["traits"]["effects"],
            words,
            "{name}"
        );
        let listed = of(&ann.get("/v1/tools?envelope=list_tools").await.expect_ok());
        assert_eq!(listed["side_effects"], declared, "{name}");
        for list in [
            ann.legacy_request(&message("tools/list", json!({}))).await.expect_ok(),
            ann.modern_request("tools/list", json!({})).await.expect_ok(),
        ] {
            assert_eq!(of(&list["result"])["annotations"]["readOnlyHint"], hint, "{name}");
        }
        let metadata = crate::grpc::list_metadata(&server, &ann, name).await;
        assert_eq!(metadata["effects"], words, "{name}");
    }
    let list = ann.get("/v1/tools?read_only=true").await.expect_ok();
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["look"]);
}

/// The approver saw `read_only`, and the record stated that the call changes nothing.
#[tokio::test]
async fn undeclared_effects_are_unknown_to_the_approver_and_in_the_record() {
    let server = undeclared_server().await;
    let (ann, owner) =
        (server.agent_client("ann", PermissionLevel::User).await, server.owner_client().await);
    let call = json!({ "tool": "tidy_up", "arguments": {} });
    let held = ann.post("/v1/calls", &call).await.json();
    assert_eq!(held["approval"]["side_effects"], json!(["unknown"]));
    let id = held["call_id"].as_str().unwrap();
    let shown = owner.get(&format!("/v1/approvals/{id}")).await.expect_ok();
    assert_eq!(shown["side_effects"], json!(["unknown"]));
    // The research registry's envelope has six values, and none is declared.
    let call = json!({ "tool": "tidy_up", "arguments": {} });
    let pending = ann.post("/v1/calls?envelope=tool_output", &call).await.json();
    assert_eq!(pending["side_effects_declared"], json!([]), "{pending}");
    owner.post(&format!("/v1/approvals/{id}/approve"), &json!({})).await.expect_ok();
    ann.post(&format!("/v1/calls/{id}/resume?wait=30s"), &json!({})).await.expect_ok();
    ann.post("/v1/calls", &json!({ "tool": "look", "arguments": {} })).await.expect_ok();
    let intents = server.recorded_intents();
    let recorded: Vec<_> =
        intents.iter().map(|it| (it.may_change_state, it.has_unknown_effects)).collect();
    assert_eq!(recorded, [(true, true), (false, false)]);
}

#[tokio::test]
async fn context_in_a_body_narrows_and_what_cannot_be_read_is_refused() {
    let server = three_level_server().await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    // In the body of a call.
    let call = async |body: Value| ann.post("/v1/calls", &body).await;
    assert_eq!(call(json!({ "tool": "change", "arguments": {} })).await.status, 200);
    let refused = call(json!({ "tool": "change", "arguments": {}, "read_only": true })).await;
    assert_eq!(refused.error().1, "unknown_tool");
    // An invalid restriction is refused: the call must not run without it.
    for bad in ["read_only=1", "no_web=yes", "task_type=mth", "task_type=math&task_type=thinking"] {
        let reply = ann.get(&format!("/v1/tools?{bad}")).await;
        assert_eq!(reply.error().1, "invalid_request", "{bad}");
    }
    let meta = json!({ "_meta": { "toolkeep/read_only": "yes" } });
    let reply = ann.legacy_request(&message("tools/list", meta)).await;
    assert!(
        reply.json()["error"]["message"].as_str().unwrap().contains("read_only"),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn an_explanation_tells_those_with_the_right_and_nobody_else() {
    let server = FixtureServer::new().await;
    let at = policy::FilePosition { line: 7, column: 9 };
    let deny = vec![ToolPattern::new("notes.*").unwrap().with_position(at)];
    let rules = PolicyDocument {
        global: PolicyLayer { deny, ..PolicyLayer::default() },
        ..PolicyDocument::default()
    };
    server.intake.set_policy(&Policy::new(rules).unwrap());
    let (owner, ann) =
        (server.owner_client().await, server.agent_client("ann", PermissionLevel::User).await);
    let ask = |client: &Client, body: Value| {
        let client = client.clone();
        async move { client.post("/v1/explain", &body).await }
    };
    let told = ask(&owner, json!({ "tool": "notes.append" })).await.expect_ok();
    assert_eq!(
        (&told["decision"], &told["reason"], &told["layer"], &told["rule"], &told["place"]["line"]),
        (&json!("hidden"), &json!("deny_rule"), &json!("global"), &json!("notes.*"), &json!(7))
    );
    let told = ask(&owner, json!({ "tool": "needs.admin", "as": ann.key_id })).await.expect_ok();
    assert_eq!((&told["reason"], &told["layer"]), (&json!("level"), &json!("tool")));
    assert_eq!(told["key"], ann.key_id.as_str());
    let told = ask(&owner, json!({ "tool": "dangerous" })).await.expect_ok();
    assert_eq!((&told["decision"], &told["reason"]), (&json!("hold"), &json!("dangerous")));
    let told = ask(&owner, json!({ "tool": "no.such" })).await.expect_ok();
    assert_eq!((&told["decision"], &told["reason"]), (&json!("hidden"), &json!("unknown")));
    // Without the right: visible tools are explained, hidden ones are unknown, and other principals
    // are forbidden.
    let told = ask(&ann, json!({ "tool": "dangerous" })).await.expect_ok();
    assert_eq!((&told["decision"], told.get("layer")), (&json!("hold"), None));
    let same = |name: &str| ask(&ann, json!({ "tool": name }));
    let (hidden, unknown) = (same("notes.append").await, same("notes.appenz").await);
    assert_eq!(visible_answer(&hidden, "notes.append"), visible_answer(&unknown, "notes.appenz"));
    let refused = ask(&ann, json!({ "tool": "dangerous", "as": owner.key_id })).await;
    assert_eq!(refused.error().1, "forbidden");
    let helper = server.client_with(|key| key.rights = [Right::PolicyExplain].into()).await;
    assert_eq!(ask(&helper, json!({ "tool": "dangerous", "as": "nobody" })).await.status, 404);
    server.revoke_key(&ann).await;
    assert_eq!(ask(&owner, json!({ "tool": "dangerous", "as": ann.key_id })).await.status, 409);
    // No explanation is recorded as a call.
    assert!(server.recorded_intents().is_empty() && server.recorded_refusals().is_empty());
}

#[tokio::test]
async fn an_organisations_list_in_the_store_is_what_its_keys_see() {
    let server = FixtureServer::new().await;
    let owner = server.owner_client().await;
    let made = owner.post("/v1/orgs", &json!({ "name": "acme" })).await.expect_ok();
    let acme = server.keyless_client().with_key(made["key"].as_str().unwrap(), "first");
    let seen = async || {
        let list = acme.get("/v1/tools").await.expect_ok();
        let names = list["tools"].as_array().unwrap().iter();
        names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(seen().await, [""; 0], "an organisation without a list has nothing");
    let put = async |tools: Value| {
        let body = json!({ "tools": tools }).to_string();
        owner.send(hyper::Method::PUT, "/v1/orgs/acme/tools", body.into()).await.expect_ok()
    };
    put(json!(["notes.*"])).await;
    assert_eq!(seen().await, ["notes.append"]);
    assert_eq!(acme.call_tool("notes.append", json!({})).await.status, 200);
    assert_eq!(acme.call_tool("says_error", json!({})).await.error().1, "unknown_tool");
    // The file's own restriction applies as well, and an empty list allows nothing.
    let deny = vec![ToolPattern::new("notes.*").unwrap()];
    let orgs = [("acme".to_owned(), PolicyLayer { deny, ..PolicyLayer::default() })];
    let policy =
        Policy::new(PolicyDocument { orgs: orgs.into(), ..PolicyDocument::default() }).unwrap();
    server.intake.set_policy(&policy);
    assert_eq!(seen().await, [""; 0]);
    server.intake.set_policy(&Policy::default());
    put(json!([])).await;
    assert_eq!(seen().await, [""; 0]);
}

/// After reading untrusted and private content, sending data out is denied: based on the called
/// tools, never on their results.
#[tokio::test]
async fn what_a_caller_has_seen_is_there_for_rules_and_in_explanations() {
    let scoped = |name: &str, scope: AccessScope| {
        let tool = tools::tool_with(name, |tool| {
            (tool.traits.scopes, tool.traits.effects) = (vec![scope], SideEffects::read_only());
        });
        tools::tool_offer(tool, echo_executor())
    };
    let (sends, reads) =
        (scoped("sends", AccessScope::Network), scoped("reads", AccessScope::Filesystem));
    let server = FixtureServer::with_offers(vec![
        sends,
        reads,
        tools::tool_offer(tools::test_tool("plain"), echo_executor()),
    ])
    .await;
    let when = "taint.untrusted && taint.private".to_owned();
    let rule = PolicyRule {
        name: "nothing of ours goes out".to_owned(),
        effect: RuleEffect::Deny,
        tools: Some(vec![ToolPattern::new("group:web").unwrap()]),
        condition: Some(LocatedName { text: when, position: FilePosition::default() }),
        time_window: None,
        examples: Vec::new(),
        position: FilePosition::default(),
    };
    let global = PolicyLayer { rules: vec![rule], ..PolicyLayer::default() };
    server
        .intake
        .set_policy(&Policy::new(PolicyDocument { global, ..PolicyDocument::default() }).unwrap());
    let (ann, bob, owner) = (
        server.agent_client("ann", PermissionLevel::User).await,
        server.agent_client("bob", PermissionLevel::User).await,
        server.owner_client().await,
    );
    let code = async |who: &Client, tool: &str| {
        let reply = who.call_tool(tool, json!({})).await;
        if reply.status == 200 { "ran".to_owned() } else { reply.error().1 }
    };
    let told = async || {
        let body = json!({ "tool": "sends", "as": ann.key_id });
        let told = owner.post("/v1/explain", &body).await.expect_ok();
        (told["decision"].as_str().unwrap().to_owned(), told["taint"].clone())
    };
    // Each alone is allowed, and an unmarked caller stays clean.
    for tool in ["plain", "reads", "plain", "reads"] {
        assert_eq!(code(&ann, tool).await, "ran");
    }
    assert_eq!(told().await, ("allow".to_owned(), json!(["private"])));
    assert_eq!(code(&ann, "sends").await, "ran", "it has seen nothing untrusted before");
    assert_eq!(told().await, ("deny".to_owned(), json!(["untrusted", "private"])));
    for _ in 0..2 {
        assert_eq!(code(&ann, "sends").await, "denied");
    }
    assert_eq!(code(&ann, "reads").await, "ran", "the rule is of the web alone");
    // A key that it hands on has seen what it has; another's has not.
    let handed = ann.post("/v1/keys/delegate", &json!({})).await.expect_ok();
    let handed = server.keyless_client().with_key(handed["key"].as_str().unwrap(), "handed");
    assert_eq!(code(&handed, "sends").await, "denied");
    assert_eq!(code(&bob, "sends").await, "ran");
    // After an hour without a call, the taint expires.
    server.clock.advance(Duration::from_mins(59));
    assert_eq!(code(&ann, "sends").await, "denied");
    server.clock.advance(Duration::from_mins(61));
    assert_eq!(code(&ann, "sends").await, "ran");
}
