//! Tests of attempts to circumvent the policy; each row of the family has a check or a reason.

use identity::NewKey;
use policy::{
    FilePosition, LocatedName, Policy, PolicyDocument, PolicyLayer, PolicyRule, RuleEffect,
    ToolPattern,
};
use serde_json::json;
use testkit::executor::echo_executor;
use testkit::shared_data::read_rows;
use tool::{CallerType, Org, PermissionLevel};

use crate::interfaces::calls_by_interface;
use crate::policy::answers_by_interface;
use crate::support::{Client, FixtureServer, tools};

fn patterns(list: &[&str]) -> Vec<ToolPattern> {
    list.iter().map(|text| ToolPattern::new(*text).unwrap()).collect()
}

fn allow(list: &[&str]) -> PolicyDocument {
    global(PolicyLayer { allow: Some(patterns(list)), ..PolicyLayer::default() })
}

fn global(layer: PolicyLayer) -> PolicyDocument {
    PolicyDocument { global: layer, ..PolicyDocument::default() }
}

fn rule(when: &str) -> PolicyDocument {
    let when = Some(LocatedName { text: when.to_owned(), position: FilePosition::default() });
    let (name, effect, examples) = ("r".to_owned(), RuleEffect::Deny, Vec::new());
    let rule = PolicyRule {
        name,
        effect,
        tools: None,
        condition: when,
        time_window: None,
        examples,
        position: FilePosition::default(),
    };
    global(PolicyLayer { rules: vec![rule], ..PolicyLayer::default() })
}

/// A server under a policy, with the code of a call at every door.
struct PolicyServer {
    server: FixtureServer,
    ann: Client,
}

impl PolicyServer {
    async fn new() -> Self {
        let server = FixtureServer::new().await;
        let ann = server.agent_client("ann", PermissionLevel::Owner).await;
        Self { server, ann }
    }

    fn set_rules(&self, rules: PolicyDocument) {
        self.server.intake.set_policy(&Policy::new(rules).unwrap());
    }

    async fn code(&self, tool: &str) -> String {
        let mut codes = calls_by_interface(&self.ann, tool, &json!({})).await;
        codes.dedup();
        assert_eq!(codes.len(), 1, "the doors differ on {tool}: {codes:?}");
        codes.remove(0).0
    }
}

const NOTES: &str = "notes.append";
const UNKNOWN: &str = "unknown_tool";

/// Whether the row has a check here. Each has a control: the same call without what the row is about.
#[expect(clippy::cognitive_complexity, reason = "one line for each row")]
async fn run_row(name: &str) -> bool {
    let bench = &PolicyServer::new().await;
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

async fn a_layer_narrows(bench: &PolicyServer) {
    let deny = PolicyLayer { deny: patterns(&[NOTES]), ..PolicyLayer::default() };
    let role = PolicyLayer { allow: Some(patterns(&["*"])), ..PolicyLayer::default() };
    bench.set_rules(PolicyDocument { roles: [("r".to_owned(), role)].into(), ..global(deny) });
    let roles = |key: &mut NewKey| key.roles = vec!["r".to_owned()];
    let worker = bench.server.client_with(roles).await;
    assert_eq!(worker.call_tool(NOTES, json!({})).await.error().1, UNKNOWN);
    assert_eq!(worker.call_tool("says_error", json!({})).await.status, 200);
}

async fn none_is_allowed(bench: &PolicyServer) {
    bench.set_rules(allow(&[]));
    assert_eq!(bench.code(NOTES).await, UNKNOWN);
}

fn a_group_that_is_not_there() {
    let slips = Policy::new(allow(&["group:nosuch"])).unwrap_err();
    assert!(slips[0].message.contains("unknown group"), "{slips:?}");
}

async fn a_star_is_no_name(bench: &PolicyServer) {
    bench.set_rules(allow(&["notes.*"]));
    assert_eq!(bench.code(NOTES).await, "ran");
    for name in ["*", "notes.*", "group:all", "source:s"] {
        assert_eq!(bench.code(name).await, UNKNOWN, "{name}");
    }
}

async fn a_new_name_is_not_allowed(bench: &PolicyServer) {
    bench.set_rules(allow(&[NOTES]));
    let offers = ["notes.renamed", NOTES]
        .map(|name| tools::tool_offer(tools::test_tool(name), echo_executor()));
    bench.server.replace_offers(offers.into()).await;
    assert_eq!(bench.code("notes.renamed").await, UNKNOWN);
    assert_eq!(bench.code(NOTES).await, "ran");
    bench.set_rules(PolicyDocument::default());
    assert_eq!(bench.code("notes.renamed").await, "ran");
}

async fn the_last_only_directly(bench: &PolicyServer) {
    let both = vec![CallerType::Direct, CallerType::Chain];
    let offer = |name: &str, callers: Vec<CallerType>| {
        tools::tool_offer(
            tools::tool_with(name, |tool| tool.traits.allowed_callers = callers),
            echo_executor(),
        )
    };
    let last = offer("c", vec![CallerType::Direct]);
    bench.server.replace_offers(vec![offer("a", both.clone()), offer("b", both), last]).await;
    let (_, who) = bench
        .server
        .client_and_principal(NewKey::for_user(
            server_core::KeyStore::generate_key_id().unwrap(),
            "a",
        ))
        .await;
    let view = bench.server.gateway.view_for(&who, CallerType::Chain);
    let seen = ["a", "b", "c"].map(|name| view.find_tool(name).is_some());
    assert_eq!(seen, [true, true, false]);
    assert_eq!(bench.code("c").await, "ran");
}

async fn nothing_tells_hidden_from_absent(bench: &PolicyServer) {
    bench.set_rules(global(PolicyLayer { deny: patterns(&[NOTES]), ..PolicyLayer::default() }));
    let (hidden, unknown) = (
        answers_by_interface(&bench.ann, NOTES).await,
        answers_by_interface(&bench.ann, "notes.appenz").await,
    );
    assert_eq!(hidden, unknown);
    let resolved = bench.ann.post("/resolve", &json!({ "tool": NOTES })).await;
    assert_eq!(resolved.status, 404);
    assert_ne!(answers_by_interface(&bench.ann, "says_error").await, unknown);
}

async fn a_revoked_key_is_gone(bench: &PolicyServer) {
    bench.server.revoke_key(&bench.ann).await;
    assert_eq!(bench.ann.call_tool(NOTES, json!({})).await.status, 401);
}

async fn what_began_keeps_its_policy(bench: &PolicyServer) {
    let (_, who) = bench
        .server
        .client_and_principal(NewKey::for_user(
            server_core::KeyStore::generate_key_id().unwrap(),
            "a",
        ))
        .await;
    let begun = bench.server.gateway.view_for(&who, CallerType::Direct);
    bench.set_rules(allow(&[]));
    // A running call keeps the complete old policy; a new one gets the new policy.
    assert!(begun.find_tool(NOTES).is_some() && begun.find_tool("says_error").is_some());
    let now = bench.server.gateway.view_for(&who, CallerType::Direct);
    assert!(now.list_tools().next().is_none() && now.policy_digest() != begun.policy_digest());
}

async fn another_organisation(bench: &PolicyServer) {
    let org = Org::new("acme").unwrap();
    let acme = bench.server.client_with(|key| {
        (key.org, key.level) = (org, PermissionLevel::Admin);
        key.rights = [identity::Right::PolicyExplain].into();
    });
    let acme = acme.await;
    assert_eq!(acme.call_tool(NOTES, json!({})).await.error().1, UNKNOWN);
    let body = json!({ "tool": NOTES, "as": bench.ann.key_id });
    assert_eq!(acme.post("/v1/explain", &body).await.status, 404);
    let listed = PolicyLayer { allow: Some(patterns(&["says_*"])), ..PolicyLayer::default() };
    bench.set_rules(PolicyDocument {
        orgs: [("acme".to_owned(), listed)].into(),
        ..PolicyDocument::default()
    });
    assert_eq!(acme.call_tool(NOTES, json!({})).await.error().1, UNKNOWN);
    assert_eq!(acme.call_tool("says_error", json!({})).await.status, 200);
}

async fn nobody_promotes_himself(bench: &PolicyServer) {
    let body = json!({ "level": "owner" });
    let reply = bench.ann.post("/v1/users/ann/promote", &body).await;
    assert_ne!(reply.status, 200, "an agent promotes itself: {}", reply.text());
}

async fn a_fault_denies(bench: &PolicyServer) {
    bench.set_rules(rule("args.missing == 1"));
    assert_eq!(bench.code(NOTES).await, "denied");
    bench.set_rules(rule("has(args.missing)"));
    assert_eq!(bench.code(NOTES).await, "ran");
}

async fn what_is_too_large_denies(bench: &PolicyServer) {
    // Evaluation has no time limit, so expensive rules are rejected when parsed or evaluated.
    let slow = rule("args.a.all(x, args.b.all(y, x != y))");
    assert!(Policy::new(slow).unwrap_err()[0].message.contains("loop"));
    bench.set_rules(rule("has(args.a) && size(args.a) > 5000"));
    let call = async |length: usize| {
        let text = "x".repeat(length);
        bench.ann.call_tool(NOTES, json!({ "a": text })).await
    };
    assert_eq!(call(70_000).await.error().1, "denied");
    assert_eq!(call(1_000).await.status, 200);
}

async fn an_unknown_word(bench: &PolicyServer) {
    assert!("superuser".parse::<PermissionLevel>().is_err());
    lowers(bench, "superuser").await;
}

async fn an_index(bench: &PolicyServer) {
    assert!(serde_json::from_str::<PermissionLevel>("7").is_err());
    lowers(bench, "7").await;
}

/// An unknown word for a level is the lowest.
async fn lowers(bench: &PolicyServer, word: &str) {
    let tools = async |query: String| {
        let list = bench.ann.get(&format!("/tools{query}")).await.expect_ok();
        list["tools"].as_array().unwrap().len()
    };
    let (all, lowest) = (tools(String::new()).await, tools("?permission=guest".to_owned()).await);
    assert!(lowest < all);
    assert_eq!(tools(format!("?permission={word}")).await, lowest);
}

#[tokio::test]
async fn no_row_talks_the_policy_round() {
    let rows = read_rows("attacks/authz_cases.jsonl");
    let rows: Vec<_> = rows.iter().filter(|row| row["family"] == "policy").collect();
    let (mut here, mut elsewhere) = (0, 0);
    for row in &rows {
        if run_row(row["name"].as_str().unwrap()).await {
            here += 1;
        } else {
            elsewhere += 1;
        }
    }
    println!("policy: {here} rows checked here, {elsewhere} elsewhere");
    assert_eq!((rows.len(), elsewhere), (20, 2));
}
