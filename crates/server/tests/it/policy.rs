//! One decision at every door: random policies, keys and tools; context that narrows; explanations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use identity::{Delegation, Narrowing, NewKey, Persona, Principal, Right};
use policy::{At, Effect, Layer, Pattern, Policy, Rule, Rules, Word};
use serde_json::{Value, json};
use testkit::executor::echo;
use tool::{Effects, Interface, Level, Offer, Safety, Scope};

use crate::doors::{calls, lists};
use crate::support::client::message;
use crate::support::{Client, Reply, Server, Setup, tools};

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

/// The same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn patterns(&mut self, most: usize) -> Vec<Pattern> {
        let fits: Vec<_> = PATTERNS.iter().filter_map(|text| Pattern::new(*text).ok()).collect();
        (0..self.below(most + 1)).map(|_| fits[self.below(fits.len())].clone()).collect()
    }

    fn texts(&mut self, most: usize) -> Vec<String> {
        self.patterns(most).into_iter().map(String::from).collect()
    }

    fn layer(&mut self) -> Layer {
        Layer {
            safety_limit: self.once_in(4).then(|| Safety::ALL[self.below(3)]),
            allow: self.once_in(3).then(|| self.patterns(5)),
            deny: self.patterns(2),
            read_only: self.once_in(9),
            no_web: self.once_in(9),
            ..Layer::default()
        }
    }

    fn policy(&mut self) -> Policy {
        let named = |dice: &mut Self, name: &str| [(name.to_owned(), dice.layer())].into();
        Policy::new(Rules {
            global: self.layer(),
            roles: if self.once_in(2) { named(self, "dev") } else { BTreeMap::new() },
            personas: if self.once_in(2) { named(self, "p") } else { BTreeMap::new() },
            tasks: if self.once_in(2) { named(self, "math") } else { BTreeMap::new() },
            ..Rules::default()
        })
        .unwrap()
    }

    fn key(&mut self, id: usize) -> NewKey {
        let fresh = server_core::Keys::fresh_id().unwrap();
        let mut key = NewKey::user(fresh, format!("user{id}"));
        key.level = Level::ALL[self.below(4)];
        key.roles = if self.once_in(3) { vec!["dev".to_owned()] } else { vec![] };
        if self.once_in(4) {
            let modules = if self.once_in(3) { "r" } else { "s" };
            let allowed_modules = Some([modules.to_owned()].into());
            key.persona = Some(Persona { name: "p".to_owned(), allowed_modules });
        }
        if self.once_in(4) {
            let allow = self.once_in(2).then(|| self.texts(6));
            let (deny, read_only, no_web) = (self.texts(1), self.once_in(6), self.once_in(6));
            key.delegations = vec![Delegation {
                by: "k".to_owned(),
                allow,
                deny,
                read_only,
                no_web,
                created: false,
            }];
        }
        key
    }

    fn offer(&mut self, n: usize) -> Offer {
        let tool = tools::with(&format!("t{n}"), |tool| {
            let traits = &mut tool.traits;
            traits.level = if self.once_in(2) { Level::Guest } else { Level::ALL[self.below(4)] };
            traits.safety = if self.once_in(3) { Safety::ALL[self.below(3)] } else { Safety::Safe };
            traits.destructive = self.once_in(9);
            traits.categories = vec![CATEGORIES[self.below(CATEGORIES.len())].to_owned()];
            traits.scopes = if self.once_in(3) { vec![Scope::ALL[self.below(4)]] } else { vec![] };
            traits.effects = if self.once_in(2) { Effects::read_only() } else { Effects::Unknown };
        });
        tools::offer(tool, echo())
    }
}

/// The code of a call that goes straight to the gateway.
async fn code(server: &Server, who: &Principal, tool: &str) -> String {
    let request = gateway::Request::new(tool, "{}", Interface::Library);
    let answer = server.gateway.call(who, request).await;
    answer.result.err().map_or_else(|| "ran".to_owned(), |failure| failure.code.to_string())
}

/// Status, headers and body.
pub(crate) type Face = (u16, Vec<(String, String)>, String);

/// What an answer is beside its body's names, which are alike long.
fn face(reply: &Reply, name: &str) -> Face {
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

pub(crate) async fn faces(client: &Client, name: &str) -> Vec<Face> {
    let call = json!({ "name": name, "arguments": {} });
    let spec0 = json!({ "tool_name": name, "arguments": {} });
    let explained = json!({ "tool": name });
    vec![
        face(&client.get(&format!("/v1/tools/{name}")).await, name),
        face(&client.call(name, json!({})).await, name),
        face(&client.legacy(&message("tools/call", call.clone())).await, name),
        face(&client.modern("tools/call", call).await, name),
        face(&client.post("/execute", &spec0).await, name),
        face(&client.post("/v1/explain", &explained).await, name),
    ]
}

#[tokio::test]
async fn list_show_and_call_are_one_decision_for_random_keys_and_tools() {
    let deep = std::env::var_os("TOOLKEEP_DEEP").is_some();
    let (keys, tools) = if deep { (1_000, 1_000) } else { (200, 100) };
    let mut dice = Dice(0x5EED_1234_5678_9ABC);
    let offers: Vec<_> = (0..tools).map(|n| dice.offer(n)).collect();
    let server = Server::of(offers).await;
    let names: Vec<_> = (0..tools).map(|n| format!("t{n}")).collect();
    let (mut pairs, mut seen, mut hidden) = (0, 0, 0);
    for id in 0..keys {
        if id % 4 == 0 {
            server.intake.rule(&dice.policy());
        }
        let (client, who) = server.known(dice.key(id)).await;
        let (read_only, no_web, task) = (dice.once_in(6), dice.once_in(6), dice.once_in(6));
        let task_type = task.then(|| "math".to_owned());
        let narrowed = who.narrowed(&Narrowing { read_only, no_web, task_type });
        let query = format!(
            "read_only={read_only}&no_web={no_web}{}",
            if task { "&task_type=math" } else { "" }
        );
        let client = client
            .with("toolkeep-read-only", &read_only.to_string())
            .with("toolkeep-no-web", &no_web.to_string());
        let client = if task { client.with("toolkeep-task-type", "math") } else { client };
        let mut all = lists(&client).await;
        let spec0 = client.get("/tools").await.good();
        let spec0 = spec0["tools"].as_array().unwrap().iter();
        all.push(spec0.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect());
        let by_query = client.get(&format!("/v1/tools?{query}")).await.good();
        let by_query = by_query["tools"].as_array().unwrap().iter();
        all.push(by_query.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect());
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
            let mut codes = calls(&client, name, &json!({})).await;
            codes.dedup();
            assert!(codes.len() == 1 && codes[0].0 != "unknown_tool", "{name}: {codes:?}");
            seen += 1;
        }
        if let Some(name) = names.iter().find(|name| !listed.contains(*name)) {
            let unknown = name.replace('t', "z");
            assert_eq!(faces(&client, name).await, faces(&client, &unknown).await, "{name}");
            hidden += 1;
        }
    }
    println!(
        "{pairs} pairs of keys and tools, 0 differences; {seen} seen and {hidden} hidden at every door"
    );
    assert!(pairs >= if deep { 1_000_000 } else { 20_000 } && seen > keys / 4 && hidden > keys / 4);
}

/// One tool that looks, one that changes, one that reaches the network.
async fn three() -> Server {
    let effect = |name: &str, effects, scopes: Vec<Scope>| {
        let tool = tools::with(name, |tool| {
            (tool.traits.effects, tool.traits.scopes) = (effects, scopes);
        });
        tools::offer(tool, echo())
    };
    Server::of(vec![
        effect("look", Effects::read_only(), vec![]),
        effect("change", Effects::Unknown, vec![]),
        effect("fetch", Effects::read_only(), vec![Scope::Network]),
    ])
    .await
}

#[tokio::test]
async fn context_narrows_at_every_door_and_gives_nothing() {
    let server = three().await;
    let ann = server.agent("ann", Level::User).await;
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
            (ann.with(&header, value), ann.query(&format!("?{word}={value}")));
        for client in [&by_header, &by_query] {
            assert_eq!(seen(&client.get("/v1/tools").await.good()), set(left), "{word}");
            assert_eq!(
                seen(&client.modern("tools/list", json!({})).await.good()["result"]),
                set(left)
            );
            assert_eq!(
                seen(&client.legacy(&message("tools/list", json!({}))).await.good()["result"]),
                set(left)
            );
            assert_eq!(seen(&client.get("/tools").await.good()), set(left));
        }
        let meta = match value {
            "math" => json!({ "_meta": { "toolkeep/task_type": "math" } }),
            _ => json!({ "_meta": { format!("toolkeep/{word}"): value == "true" } }),
        };
        let legacy = ann.legacy(&message("tools/list", meta)).await.good();
        assert_eq!(seen(&legacy["result"]), set(left), "{word} in _meta");
    }
}

/// `tidy_up` of the guide to approvals, whose effects nobody declared, and `look`, which declares that it reads.
async fn undeclared() -> Server {
    let tidy_up = tools::with("tidy_up", |tool| {
        (tool.traits.effects, tool.traits.safety) = (Effects::Unknown, Safety::Dangerous);
        tool.received = tool.received.without("inputSchema");
    });
    let look = tools::with("look", |tool| tool.received = tool.received.without("inputSchema"));
    let offers = [tidy_up, look].map(|it| tools::offer(it, echo())).into();
    let patience = Some(gateway::Patience::default());
    Server::with(Setup { offers, patience, ..Setup::default() }).await
}

/// Clients took a tool without declared effects for one that changes nothing.
#[tokio::test]
async fn undeclared_effects_are_unknown_in_every_list() {
    let server = undeclared().await;
    let ann = server.agent("ann", Level::User).await;
    // REST, spec 3's envelope, MCP of both revisions, gRPC; `look` is the control.
    for (name, words, declared, hint) in [
        ("tidy_up", json!(["unknown"]), Value::Null, Value::Null),
        ("look", json!(["read_only"]), json!(["read_only"]), json!(true)),
    ] {
        let of = |list: &Value| {
            let mut tools = list["tools"].as_array().unwrap().iter();
            tools.find(|tool| tool["name"] == name).unwrap().clone()
        };
        assert_eq!(of(&ann.get("/v1/tools").await.good())["traits"]["effects"], words, "{name}");
        let listed = of(&ann.get("/v1/tools?envelope=list_tools").await.good());
        assert_eq!(listed["side_effects"], declared, "{name}");
        for list in [
            ann.legacy(&message("tools/list", json!({}))).await.good(),
            ann.modern("tools/list", json!({})).await.good(),
        ] {
            assert_eq!(of(&list["result"])["annotations"]["readOnlyHint"], hint, "{name}");
        }
        let metadata = crate::grpc::listed(&server, &ann, name).await;
        assert_eq!(metadata["effects"], words, "{name}");
    }
    let list = ann.get("/v1/tools?read_only=true").await.good();
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["look"]);
}

/// The approver was shown `read_only`, and the record said that the call changes nothing.
#[tokio::test]
async fn undeclared_effects_are_unknown_to_the_approver_and_in_the_record() {
    let server = undeclared().await;
    let (ann, owner) = (server.agent("ann", Level::User).await, server.owner().await);
    let call = json!({ "tool": "tidy_up", "arguments": {} });
    let held = ann.post("/v1/calls", &call).await.json();
    assert_eq!(held["approval"]["side_effects"], json!(["unknown"]));
    let id = held["call_id"].as_str().unwrap();
    let shown = owner.get(&format!("/v1/approvals/{id}")).await.good();
    assert_eq!(shown["side_effects"], json!(["unknown"]));
    // Spec 3's envelope has six values, and none of them is declared.
    let call = json!({ "tool": "tidy_up", "arguments": {} });
    let pending = ann.post("/v1/calls?envelope=tool_output", &call).await.json();
    assert_eq!(pending["side_effects_declared"], json!([]), "{pending}");
    owner.post(&format!("/v1/approvals/{id}/approve"), &json!({})).await.good();
    ann.post(&format!("/v1/calls/{id}/resume?wait=30s"), &json!({})).await.good();
    ann.post("/v1/calls", &json!({ "tool": "look", "arguments": {} })).await.good();
    let intents = server.intents();
    let recorded: Vec<_> = intents.iter().map(|it| (it.effects, it.unknown_effects)).collect();
    assert_eq!(recorded, [(true, true), (false, false)]);
}

#[tokio::test]
async fn context_in_a_body_narrows_and_what_cannot_be_read_is_refused() {
    let server = three().await;
    let ann = server.agent("ann", Level::User).await;
    // In the body of a call.
    let call = async |body: Value| ann.post("/v1/calls", &body).await;
    assert_eq!(call(json!({ "tool": "change", "arguments": {} })).await.status, 200);
    let refused = call(json!({ "tool": "change", "arguments": {}, "read_only": true })).await;
    assert_eq!(refused.error().1, "unknown_tool");
    // What cannot be read is refused: who means to narrow shall not go on without.
    for bad in ["read_only=1", "no_web=yes", "task_type=mth", "task_type=math&task_type=thinking"] {
        let reply = ann.get(&format!("/v1/tools?{bad}")).await;
        assert_eq!(reply.error().1, "invalid_request", "{bad}");
    }
    let meta = json!({ "_meta": { "toolkeep/read_only": "yes" } });
    let reply = ann.legacy(&message("tools/list", meta)).await;
    assert!(
        reply.json()["error"]["message"].as_str().unwrap().contains("read_only"),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn an_explanation_tells_those_with_the_right_and_nobody_else() {
    let server = Server::new().await;
    let at = policy::At { line: 7, column: 9 };
    let deny = vec![Pattern::new("notes.*").unwrap().at(at)];
    let rules = Rules { global: Layer { deny, ..Layer::default() }, ..Rules::default() };
    server.intake.rule(&Policy::new(rules).unwrap());
    let (owner, ann) = (server.owner().await, server.agent("ann", Level::User).await);
    let ask = |client: &Client, body: Value| {
        let client = client.clone();
        async move { client.post("/v1/explain", &body).await }
    };
    let told = ask(&owner, json!({ "tool": "notes.append" })).await.good();
    assert_eq!(
        (&told["decision"], &told["reason"], &told["layer"], &told["rule"], &told["place"]["line"]),
        (&json!("hidden"), &json!("deny_rule"), &json!("global"), &json!("notes.*"), &json!(7))
    );
    let told = ask(&owner, json!({ "tool": "needs.admin", "as": ann.key_id })).await.good();
    assert_eq!((&told["reason"], &told["layer"]), (&json!("level"), &json!("tool")));
    assert_eq!(told["key"], ann.key_id.as_str());
    let told = ask(&owner, json!({ "tool": "dangerous" })).await.good();
    assert_eq!((&told["decision"], &told["reason"]), (&json!("hold"), &json!("dangerous")));
    let told = ask(&owner, json!({ "tool": "no.such" })).await.good();
    assert_eq!((&told["decision"], &told["reason"]), (&json!("hidden"), &json!("unknown")));
    // Without the right: what is there is explained, what is hidden is not there, and others are none of
    // one's business.
    let told = ask(&ann, json!({ "tool": "dangerous" })).await.good();
    assert_eq!((&told["decision"], told.get("layer")), (&json!("hold"), None));
    let same = |name: &str| ask(&ann, json!({ "tool": name }));
    let (hidden, unknown) = (same("notes.append").await, same("notes.appenz").await);
    assert_eq!(face(&hidden, "notes.append"), face(&unknown, "notes.appenz"));
    let refused = ask(&ann, json!({ "tool": "dangerous", "as": owner.key_id })).await;
    assert_eq!(refused.error().1, "forbidden");
    let helper = server.client(|key| key.rights = [Right::PolicyExplain].into()).await;
    assert_eq!(ask(&helper, json!({ "tool": "dangerous", "as": "nobody" })).await.status, 404);
    server.revoke(&ann).await;
    assert_eq!(ask(&owner, json!({ "tool": "dangerous", "as": ann.key_id })).await.status, 409);
    // Nothing of it leaves a record of a call.
    assert!(server.intents().is_empty() && server.refusals().is_empty());
}

#[tokio::test]
async fn an_organisations_list_in_the_store_is_what_its_keys_see() {
    let server = Server::new().await;
    let owner = server.owner().await;
    let made = owner.post("/v1/orgs", &json!({ "name": "acme" })).await.good();
    let acme = server.anyone().key(made["key"].as_str().unwrap(), "first");
    let seen = async || {
        let list = acme.get("/v1/tools").await.good();
        let names = list["tools"].as_array().unwrap().iter();
        names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(seen().await, [""; 0], "an organisation without a list has nothing");
    let put = async |tools: Value| {
        let body = json!({ "tools": tools }).to_string();
        owner.send(hyper::Method::PUT, "/v1/orgs/acme/tools", body.into()).await.good()
    };
    put(json!(["notes.*"])).await;
    assert_eq!(seen().await, ["notes.append"]);
    assert_eq!(acme.call("notes.append", json!({})).await.status, 200);
    assert_eq!(acme.call("says_error", json!({})).await.error().1, "unknown_tool");
    // What the file says narrows it further, and an empty list is none.
    let deny = vec![Pattern::new("notes.*").unwrap()];
    let orgs = [("acme".to_owned(), Layer { deny, ..Layer::default() })];
    let policy = Policy::new(Rules { orgs: orgs.into(), ..Rules::default() }).unwrap();
    server.intake.rule(&policy);
    assert_eq!(seen().await, [""; 0]);
    server.intake.rule(&Policy::default());
    put(json!([])).await;
    assert_eq!(seen().await, [""; 0]);
}

/// What was read of strangers, and of files, stands in the way of what goes out: by what was called, never by
/// what came back.
#[tokio::test]
async fn what_a_caller_has_seen_is_there_for_rules_and_in_explanations() {
    let scoped = |name: &str, scope: Scope| {
        let tool = tools::with(name, |tool| {
            (tool.traits.scopes, tool.traits.effects) = (vec![scope], Effects::read_only());
        });
        tools::offer(tool, echo())
    };
    let (sends, reads) = (scoped("sends", Scope::Network), scoped("reads", Scope::Filesystem));
    let server = Server::of(vec![sends, reads, tools::offer(tools::tool("plain"), echo())]).await;
    let when = "taint.untrusted && taint.private".to_owned();
    let rule = Rule {
        name: "nothing of ours goes out".to_owned(),
        effect: Effect::Deny,
        tools: Some(vec![Pattern::new("group:web").unwrap()]),
        when: Some(Word { text: when, at: At::default() }),
        time: None,
        examples: Vec::new(),
        at: At::default(),
    };
    let global = Layer { rules: vec![rule], ..Layer::default() };
    server.intake.rule(&Policy::new(Rules { global, ..Rules::default() }).unwrap());
    let (ann, bob, owner) = (
        server.agent("ann", Level::User).await,
        server.agent("bob", Level::User).await,
        server.owner().await,
    );
    let code = async |who: &Client, tool: &str| {
        let reply = who.call(tool, json!({})).await;
        if reply.status == 200 { "ran".to_owned() } else { reply.error().1 }
    };
    let told = async || {
        let body = json!({ "tool": "sends", "as": ann.key_id });
        let told = owner.post("/v1/explain", &body).await.good();
        (told["decision"].as_str().unwrap().to_owned(), told["taint"].clone())
    };
    // Each alone is no matter, and what nobody marked stays clean.
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
    let handed = ann.post("/v1/keys/delegate", &json!({})).await.good();
    let handed = server.anyone().key(handed["key"].as_str().unwrap(), "handed");
    assert_eq!(code(&handed, "sends").await, "denied");
    assert_eq!(code(&bob, "sends").await, "ran");
    // An hour without a call, and it begins anew.
    server.clock.advance(Duration::from_mins(59));
    assert_eq!(code(&ann, "sends").await, "denied");
    server.clock.advance(Duration::from_mins(61));
    assert_eq!(code(&ann, "sends").await, "ran");
}
