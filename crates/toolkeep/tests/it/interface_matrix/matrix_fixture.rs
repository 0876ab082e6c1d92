//! Fixture of the interface matrix: a server and random principals.

use identity::Right;
use serde_json::{Value, json};

use crate::real_support::expect_ok;
use crate::support::installation::Installation;
use crate::support::rest_client::Client;
use crate::support::seeded_random::Random;
use crate::support::server_process::{Server, start_server};

/// Tools by what decides about them, and tools that describe the server.
const TOOLS: &str = "
version: 2
tools:
  - name: pass_guest
    description: For all.
    parameters: {type: object}
    side_effects: [read_only]
    allowed_callers: [direct, chain]
    implementation: {type: mock, mock_response: 1}
  - name: pass_admin
    description: For administrators.
    required_permission: admin
    parameters: {type: object}
    side_effects: [read_only]
    allowed_callers: [direct, chain]
    implementation: {type: mock, mock_response: 1}
  - name: direct_only
    description: For no program.
    parameters: {type: object}
    side_effects: [read_only]
    allowed_callers: [direct]
    implementation: {type: mock, mock_response: 1}
  - name: chain_only
    description: For programs alone.
    parameters: {type: object}
    side_effects: [read_only]
    allowed_callers: [chain]
    implementation: {type: mock, mock_response: 1}
  - name: held_user
    description: Needs an approval.
    required_permission: user
    parameters: {type: object}
    side_effects: [modifies_files]
    safety: dangerous
    allowed_callers: [direct, chain]
    implementation: {type: mock, mock_response: 1}
  - name: what_is_there
    description: The tools you may call.
    parameters: {type: object, properties: {limit: {type: integer}}}
    implementation: {type: internal, handler: catalog.list}
  - name: how_are_sources
    description: How the sources stand.
    parameters: {type: object}
    implementation: {type: internal, handler: source.status}
  - name: what_happened
    description: The newest records.
    parameters: {type: object, properties: {limit: {type: integer}}}
    implementation: {type: internal, handler: record.recent}
  - name: unknown
    description: Nobody can run this.
    parameters: {type: object}
    implementation: {type: internal, handler: none}
";

/// Tools among them that respond or are pending.
pub(super) const MATRIX_TOOLS: [&str; 5] =
    ["pass_guest", "pass_admin", "direct_only", "chain_only", "held_user"];

pub(super) struct MatrixFixture {
    pub(super) server: Server,
    pub(super) owner: Client,
    /// A program of the owner's that waits.
    pub(super) program: String,
    /// An answer of the owner's that is stored.
    pub(super) artefact: String,
    /// A call of the agent's that was denied.
    pub(super) denied: String,
    /// A call of the owner's.
    pub(super) call: String,
    /// A key that was revoked.
    pub(super) revoked: String,
    _home: Installation,
}

/// One principal.
pub(super) struct Person {
    pub(super) client: Client,
    pub(super) key: String,
    /// Attributes that its key was created with.
    pub(super) told: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

impl MatrixFixture {
    pub(super) async fn new() -> Self {
        let home = crate::plugins::home(
            "version: 1\nsources:\n  - { name: local, tools: ./tools.yaml }\nplugins:\n  folders: [./plugins]\nlimits: { result_bytes: 256KiB }\n",
        );
        home.write("tools.yaml", TOOLS);
        let server = start_server(&home).await;
        let (owner, agent) = (server.owner(), server.agent());
        // It waits for an approval, and so is there as long as the test.
        let program = owner.post("/v1/programs", &json!({ "code": "held_user()" })).await;
        assert_eq!(program.status, 202, "{program:?}");
        let program = text(&program.body["program"]);
        let large = owner.call("echo", &json!({ "message": "x".repeat(400_000) })).await;
        let (_, artefact) = large.body.to_string().split_once("art_").map_or_else(
            || panic!("nothing is stored of {} bytes", large.body.to_string().len()),
            |(before, rest)| (before.len(), rest.to_owned()),
        );
        let artefact: String = artefact.chars().take_while(char::is_ascii_alphanumeric).collect();
        let held = agent.call("held_user", &json!({})).await;
        let denied = held.call_id().to_owned();
        expect_ok(owner.post(&format!("/v1/approvals/{denied}/deny"), &json!({})).await);
        let call = owner.call("pass_guest", &json!({})).await.call_id().to_owned();
        let made = expect_ok(owner.post("/v1/keys", &json!({ "subject": "gone" })).await);
        let revoked = text(&made["id"]);
        let gone = format!("/v1/keys/{revoked}");
        expect_ok(owner.try_send(http::Method::DELETE, &gone, String::new()).await.unwrap());
        let ward = json!({ "subject": "ward", "level": "user" });
        expect_ok(owner.post("/v1/users", &ward).await);
        let artefact = format!("art_{artefact}");
        Self { server, owner, program, artefact, denied, call, revoked, _home: home }
    }

    /// A key for a random principal; by chance one that was delegated, or acts for a user.
    pub(super) async fn person(&self, random: &mut Random, number: usize) -> Person {
        let mut once_in = |times: usize| random.index(times) == 0;
        let agent = once_in(3);
        let rights: Vec<_> = Right::ALL
            .iter()
            .filter(|it| once_in(2) && (!agent || it.is_allowed_for_agents()))
            .filter(|it| **it != Right::NodesJoin)
            .collect();
        let level = ["guest", "user", "admin", "owner"][random.index(4)];
        let mut body = json!({
            "subject": format!("person{number}"), "level": level, "agent": agent, "rights": rights,
        });
        if random.index(3) == 0 {
            let all = ["local", "builtin", "plugins", "p"];
            let modules: Vec<_> = all.iter().filter(|_| random.index(2) == 0).collect();
            body["persona_modules"] = json!(modules);
        }
        let made = expect_ok(self.owner.post("/v1/keys", &body).await);
        let (mut key, mut told) = (text(&made["key"]), body.to_string());
        let acts = rights.contains(&&Right::ActAs) && random.index(3) == 0;
        if acts || random.index(3) == 0 {
            let person = !agent && !acts;
            let kept = rights.iter().filter(|it| person || it.is_allowed_for_agents());
            let kept: Vec<_> = kept.filter(|_| random.index(3) > 0).collect();
            let mut hand = json!({ "rights": kept, "person": person });
            if acts {
                hand["act_as"] = json!("ward");
            }
            if random.index(3) == 0 {
                hand["deny"] = json!([MATRIX_TOOLS[random.index(MATRIX_TOOLS.len())]]);
            }
            if random.index(4) == 0 {
                hand["read_only"] = json!(true);
            }
            let own = Client::for_url(&self.server.url).with_key(&key);
            let made = expect_ok(own.post("/v1/keys/delegate", &hand).await);
            (key, told) = (text(&made["key"]), format!("{told}, delegated as {hand}"));
        }
        let client = Client::for_url(&self.server.url).with_key(&key);
        Person { client, key, told }
    }
}
