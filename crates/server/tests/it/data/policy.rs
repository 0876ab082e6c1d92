//! What talks a policy round: each row of the family has its check here, or says where it stands.

use identity::NewKey;
use policy::{At, Effect, Layer, Pattern, Policy, Rule, Rules, Word};
use serde_json::json;
use testkit::data::rows;
use testkit::executor::echo;
use tool::{CallerType, Level, Org};

use crate::doors::calls;
use crate::policy::faces;
use crate::support::{Client, Server, tools};

fn patterns(list: &[&str]) -> Vec<Pattern> {
    list.iter().map(|text| Pattern::new(*text).unwrap()).collect()
}

fn allow(list: &[&str]) -> Rules {
    global(Layer { allow: Some(patterns(list)), ..Layer::default() })
}

fn global(layer: Layer) -> Rules {
    Rules { global: layer, ..Rules::default() }
}

fn rule(when: &str) -> Rules {
    let when = Some(Word { text: when.to_owned(), at: At::default() });
    let (name, effect, examples) = ("r".to_owned(), Effect::Deny, Vec::new());
    let rule = Rule { name, effect, tools: None, when, time: None, examples, at: At::default() };
    global(Layer { rules: vec![rule], ..Layer::default() })
}

/// A server under a policy, with the code of a call at every door.
struct Bench {
    server: Server,
    ann: Client,
}

impl Bench {
    async fn new() -> Self {
        let server = Server::new().await;
        let ann = server.agent("ann", Level::Owner).await;
        Self { server, ann }
    }

    fn under(&self, rules: Rules) {
        self.server.intake.rule(&Policy::new(rules).unwrap());
    }

    async fn code(&self, tool: &str) -> String {
        let mut codes = calls(&self.ann, tool, &json!({})).await;
        codes.dedup();
        assert_eq!(codes.len(), 1, "the doors differ on {tool}: {codes:?}");
        codes.remove(0).0
    }
}

const NOTES: &str = "notes.append";
const UNKNOWN: &str = "unknown_tool";

/// Whether the row has a check here. Each has a control: the same call without what the row is about.
#[expect(clippy::cognitive_complexity, reason = "one line for each row")]
async fn checked(name: &str) -> bool {
    let bench = &Bench::new().await;
    assert_eq!(bench.code(NOTES).await, "ran");
    match name {
        "layer can only narrow" => a_layer_narrows(bench).await,
        "empty allow list" => none_is_allowed(bench).await,
        "unknown group name" => a_group_that_is_not_there(),
        "wildcard tool name" => a_star_is_no_name(bench).await,
        "tool renamed after policy" | "new tool added after policy (default deny)" => {
            a_new_name_is_not_allowed(bench).await;
        }
        "chain of 3 tools each allowed, last only for direct" => {
            the_last_only_directly(bench).await;
        }
        "resolve endpoint leaks a denied tool's address"
        | "error text tells denied from absent" => nothing_tells_hidden_from_absent(bench).await,
        "cached decision after revoke (max age)" => a_revoked_key_is_gone(bench).await,
        "policy reload mid-call" => what_began_keeps_its_policy(bench).await,
        "org A names tool of org B" | "admin of org A on org B" => {
            another_organisation(bench).await;
        }
        "self-promotion through tools (tool that edits users)" => {
            nobody_promotes_himself(bench).await;
        }
        "policy engine error: deny" => a_fault_denies(bench).await,
        "policy time-out: deny" => what_is_too_large_denies(bench).await,
        name if name.starts_with("permission unknown string") => an_unknown_word(bench).await,
        "permission index out of range" => an_index(bench).await,
        // Read by the configuration: `syntax_faults_have_their_place`; and no TOML is read at all.
        "policy with duplicate keys" | "TOML huge" => return false,
        other => panic!("a row that this test does not know: {other}"),
    }
    true
}

async fn a_layer_narrows(bench: &Bench) {
    let deny = Layer { deny: patterns(&[NOTES]), ..Layer::default() };
    let role = Layer { allow: Some(patterns(&["*"])), ..Layer::default() };
    bench.under(Rules { roles: [("r".to_owned(), role)].into(), ..global(deny) });
    let roles = |key: &mut NewKey| key.roles = vec!["r".to_owned()];
    let worker = bench.server.client(roles).await;
    assert_eq!(worker.call(NOTES, json!({})).await.error().1, UNKNOWN);
    assert_eq!(worker.call("says_error", json!({})).await.status, 200);
}

async fn none_is_allowed(bench: &Bench) {
    bench.under(allow(&[]));
    assert_eq!(bench.code(NOTES).await, UNKNOWN);
}

fn a_group_that_is_not_there() {
    let slips = Policy::new(allow(&["group:nosuch"])).unwrap_err();
    assert!(slips[0].message.contains("unknown group"), "{slips:?}");
}

async fn a_star_is_no_name(bench: &Bench) {
    bench.under(allow(&["notes.*"]));
    assert_eq!(bench.code(NOTES).await, "ran");
    for name in ["*", "notes.*", "group:all", "source:s"] {
        assert_eq!(bench.code(name).await, UNKNOWN, "{name}");
    }
}

async fn a_new_name_is_not_allowed(bench: &Bench) {
    bench.under(allow(&[NOTES]));
    let offers = ["notes.renamed", NOTES].map(|name| tools::offer(tools::tool(name), echo()));
    bench.server.relist(offers.into()).await;
    assert_eq!(bench.code("notes.renamed").await, UNKNOWN);
    assert_eq!(bench.code(NOTES).await, "ran");
    bench.under(Rules::default());
    assert_eq!(bench.code("notes.renamed").await, "ran");
}

async fn the_last_only_directly(bench: &Bench) {
    let both = vec![CallerType::Direct, CallerType::Chain];
    let offer = |name: &str, callers: Vec<CallerType>| {
        tools::offer(tools::with(name, |tool| tool.traits.callers = callers), echo())
    };
    let last = offer("c", vec![CallerType::Direct]);
    bench.server.relist(vec![offer("a", both.clone()), offer("b", both), last]).await;
    let (_, who) =
        bench.server.known(NewKey::user(server_core::Keys::fresh_id().unwrap(), "a")).await;
    let view = bench.server.gateway.view(&who, CallerType::Chain);
    let seen = ["a", "b", "c"].map(|name| view.find(name).is_some());
    assert_eq!(seen, [true, true, false]);
    assert_eq!(bench.code("c").await, "ran");
}

async fn nothing_tells_hidden_from_absent(bench: &Bench) {
    bench.under(global(Layer { deny: patterns(&[NOTES]), ..Layer::default() }));
    let (hidden, unknown) =
        (faces(&bench.ann, NOTES).await, faces(&bench.ann, "notes.appenz").await);
    assert_eq!(hidden, unknown);
    let resolved = bench.ann.post("/resolve", &json!({ "tool": NOTES })).await;
    assert_eq!(resolved.status, 404);
    assert_ne!(faces(&bench.ann, "says_error").await, unknown);
}

async fn a_revoked_key_is_gone(bench: &Bench) {
    bench.server.revoke(&bench.ann).await;
    assert_eq!(bench.ann.call(NOTES, json!({})).await.status, 401);
}

async fn what_began_keeps_its_policy(bench: &Bench) {
    let (_, who) =
        bench.server.known(NewKey::user(server_core::Keys::fresh_id().unwrap(), "a")).await;
    let begun = bench.server.gateway.view(&who, CallerType::Direct);
    bench.under(allow(&[]));
    // What began keeps one whole policy; what begins now has the other.
    assert!(begun.find(NOTES).is_some() && begun.find("says_error").is_some());
    let now = bench.server.gateway.view(&who, CallerType::Direct);
    assert!(now.tools().next().is_none() && now.policy() != begun.policy());
}

async fn another_organisation(bench: &Bench) {
    let org = Org::new("acme").unwrap();
    let acme = bench.server.client(|key| {
        (key.org, key.level) = (org, Level::Admin);
        key.rights = [identity::Right::PolicyExplain].into();
    });
    let acme = acme.await;
    assert_eq!(acme.call(NOTES, json!({})).await.error().1, UNKNOWN);
    let body = json!({ "tool": NOTES, "as": bench.ann.key_id });
    assert_eq!(acme.post("/v1/explain", &body).await.status, 404);
    let listed = Layer { allow: Some(patterns(&["says_*"])), ..Layer::default() };
    bench.under(Rules { orgs: [("acme".to_owned(), listed)].into(), ..Rules::default() });
    assert_eq!(acme.call(NOTES, json!({})).await.error().1, UNKNOWN);
    assert_eq!(acme.call("says_error", json!({})).await.status, 200);
}

async fn nobody_promotes_himself(bench: &Bench) {
    let body = json!({ "level": "owner" });
    let reply = bench.ann.post("/v1/users/ann/promote", &body).await;
    assert_ne!(reply.status, 200, "an agent promotes itself: {}", reply.text());
}

async fn a_fault_denies(bench: &Bench) {
    bench.under(rule("args.missing == 1"));
    assert_eq!(bench.code(NOTES).await, "denied");
    bench.under(rule("has(args.missing)"));
    assert_eq!(bench.code(NOTES).await, "ran");
}

async fn what_is_too_large_denies(bench: &Bench) {
    // There is no clock in it: what could take long is refused, when read or when asked.
    let slow = rule("args.a.all(x, args.b.all(y, x != y))");
    assert!(Policy::new(slow).unwrap_err()[0].message.contains("loop"));
    bench.under(rule("has(args.a) && size(args.a) > 5000"));
    let call = async |length: usize| {
        let text = "x".repeat(length);
        bench.ann.call(NOTES, json!({ "a": text })).await
    };
    assert_eq!(call(70_000).await.error().1, "denied");
    assert_eq!(call(1_000).await.status, 200);
}

async fn an_unknown_word(bench: &Bench) {
    assert!("superuser".parse::<Level>().is_err());
    lowers(bench, "superuser").await;
}

async fn an_index(bench: &Bench) {
    assert!(serde_json::from_str::<Level>("7").is_err());
    lowers(bench, "7").await;
}

/// An unknown word for a level is the lowest.
async fn lowers(bench: &Bench, word: &str) {
    let tools = async |query: String| {
        let list = bench.ann.get(&format!("/tools{query}")).await.good();
        list["tools"].as_array().unwrap().len()
    };
    let (all, lowest) = (tools(String::new()).await, tools("?permission=guest".to_owned()).await);
    assert!(lowest < all);
    assert_eq!(tools(format!("?permission={word}")).await, lowest);
}

#[tokio::test]
async fn no_row_talks_the_policy_round() {
    let rows = rows("attacks/authz_cases.jsonl");
    let rows: Vec<_> = rows.iter().filter(|row| row["family"] == "policy").collect();
    let (mut here, mut elsewhere) = (0, 0);
    for row in &rows {
        if checked(row["name"].as_str().unwrap()).await {
            here += 1;
        } else {
            elsewhere += 1;
        }
    }
    println!("policy: {here} rows checked here, {elsewhere} elsewhere");
    assert_eq!((rows.len(), elsewhere), (20, 2));
}
