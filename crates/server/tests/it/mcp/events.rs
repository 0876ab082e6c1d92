//! Tests of events by streams and webhooks: whom they reach, and until when.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use server_core::webhook::{WebhookFailure, WebhookRequest, WebhookSecret, WebhookTransport};
use testkit::source::MockListing;
use tool::ledger::AuditEventRecord;
use tool::source::SourceErrorKind;
use tool::{BoxFuture, Clock as _, Org, PermissionLevel, Problem, SourceError, SourceName};

use crate::support::client::modern_message;
use crate::support::test_server::{ServerSetup, within_a_minute};
use crate::support::token_issuer::{
    NOW, Signer, client_with_token, server_with_issuer_and_setup, valid_claims,
};
use crate::support::{Client, FixtureServer, tools};

pub(super) const HOOK: &str = "https://hooks.example.com/in";

/// A webhook that keeps what it gets. It returns challenges if it should, and takes events or not.
#[derive(Debug, Default)]
pub(super) struct RecordingHook {
    requests: Mutex<Vec<(String, WebhookRequest)>>,
    /// URLs whose owner does not return the challenge.
    mute: Mutex<Vec<String>>,
    refuses: Mutex<bool>,
}

pub(super) fn body(request: &WebhookRequest) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

impl WebhookTransport for RecordingHook {
    fn check_url(&self, url: &str) -> Result<(), String> {
        if url.contains("//10.") { Err("a private address".to_owned()) } else { Ok(()) }
    }

    fn post_request<'a>(
        &'a self,
        url: &'a str,
        request: WebhookRequest,
    ) -> BoxFuture<'a, Result<Bytes, WebhookFailure>> {
        let sent = body(&request);
        self.requests.lock().unwrap().push((url.to_owned(), request));
        let is_mute = self.mute.lock().unwrap().iter().any(|it| it == url);
        let result = match (sent["type"] == "verification", *self.refuses.lock().unwrap()) {
            (true, _) if is_mute => Ok(Bytes::from_static(br#"{"challenge":"another"}"#)),
            (true, _) => Ok(json!({"challenge": sent["challenge"]}).to_string().into()),
            (false, true) => Err(WebhookFailure::Status(StatusCode::GONE)),
            (false, false) => Ok(Bytes::new()),
        };
        Box::pin(std::future::ready(result))
    }
}

impl RecordingHook {
    /// What it got, without verifications.
    pub(super) fn events(&self) -> Vec<WebhookRequest> {
        let all = self.requests.lock().unwrap();
        let events = all.iter().filter(|(_, request)| body(request)["type"] != "verification");
        events.map(|(_, request)| request.clone()).collect()
    }

    fn verifications(&self) -> usize {
        let events = self.events().len();
        self.requests.lock().unwrap().len() - events
    }

    pub(super) async fn wait_for(&self, count: usize) -> Vec<WebhookRequest> {
        within_a_minute(async {
            loop {
                let events = self.events();
                if events.len() >= count {
                    return events;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
    }
}

struct EventServer {
    server: FixtureServer,
    hook: Arc<RecordingHook>,
}

impl EventServer {
    async fn new() -> Self {
        let hook = Arc::new(RecordingHook::default());
        let setup = ServerSetup {
            webhooks: Some(Arc::clone(&hook) as _),
            anonymous_level: Some(PermissionLevel::User),
            ..ServerSetup::default()
        };
        Self { server: FixtureServer::with_setup(setup).await, hook }
    }

    /// Adds an event of a pin, which only some callers may see.
    fn change_pin(&self, source: &str) {
        self.server.state.components.events.push_audit_event(&AuditEventRecord {
            recorded_at: self.server.clock.wall_now(),
            org: Org::default(),
            kind: "pin_changed".to_owned(),
            changed_by: None,
            source: Some(SourceName::new(source).unwrap()),
            tool: None,
            digest_before: None,
            digest_after: None,
            comment: None,
        });
    }
}

pub(super) fn secret(byte: char) -> String {
    format!("whsec_{}", byte.to_string().repeat(32))
}

fn subscription(arguments: &Value, url: &str, secret: &str) -> Value {
    let delivery = json!({"mode": "webhook", "url": url, "secret": secret});
    json!({"name": "pin.changed", "arguments": arguments, "delivery": delivery})
}

pub(super) async fn ask(client: &Client, method: &str, params: Value) -> Value {
    client.modern_message(&modern_message(method, params)).await.json()
}

async fn subscribe(client: &Client, arguments: Value) -> Value {
    let params = subscription(&arguments, HOOK, &secret('A'));
    let answer = ask(client, "events/subscribe", params).await;
    assert!(answer["result"].is_object(), "{answer}");
    answer["result"].clone()
}

#[tokio::test]
async fn a_stream_begins_with_its_position_and_ends_with_the_access_of_its_caller() {
    let bench = EventServer::new().await;
    let (owner, ann) = (
        bench.server.owner_client().await,
        bench.server.agent_client("ann", PermissionLevel::User).await,
    );
    let refused = ask(&ann, "events/stream", json!({"name": "pin.changed"})).await;
    assert_eq!(refused["error"]["code"], -32_023, "{refused}");
    let mut stream = owner.modern_stream("events/stream", json!({"name": "pin.changed"})).await;
    let first = stream.next().await;
    assert_eq!(first["method"], "notifications/events/active", "{first}");
    assert_eq!(first["params"]["truncated"], false);
    bench.change_pin("a");
    let event = stream.next().await;
    assert_eq!(event["method"], "notifications/events/event", "{event}");
    let params = &event["params"];
    assert_eq!((&params["name"], &params["data"]["source"]), (&json!("pin.changed"), &json!("a")));
    assert!(params["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number());
    // A stream that begins at the cursor of another has the events since then, and only those.
    bench.change_pin("b");
    let from = json!({"name": "pin.changed", "cursor": params["cursor"]});
    let mut later = owner.modern_stream("events/stream", from).await;
    assert_eq!(later.next().await["params"]["truncated"], false);
    assert_eq!(later.next().await["params"]["data"]["source"], "b");
    assert_eq!(stream.next().await["params"]["data"]["source"], "b");
    bench.server.revoke_key(&owner).await;
    bench.change_pin("c");
    let end = stream.next().await;
    assert_eq!(end["method"], "notifications/events/terminated", "{end}");
    assert_eq!(end["params"]["error"]["code"], -32_024);
    assert_eq!(stream.next().await["result"]["resultType"], "complete");
}

#[tokio::test]
async fn a_webhook_is_verified_signed_and_its_callers_own() {
    let bench = EventServer::new().await;
    let (owner, other) = (bench.server.owner_client().await, bench.server.owner_client().await);
    let granted = subscribe(&owner, json!({"source": "a"})).await;
    assert!(
        granted["id"].as_str().unwrap().starts_with("sub_") && granted["refreshBefore"].is_string()
    );
    bench.change_pin("b");
    bench.change_pin("a");
    let got = bench.hook.wait_for(1).await;
    let sent = body(&got[0]);
    assert_eq!((&sent["name"], &sent["data"]["source"]), (&json!("pin.changed"), &json!("a")));
    let header = |name: &str| got[0].headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("x-mcp-subscription-id"), granted["id"]);
    assert_eq!(header("webhook-id"), sent["eventId"]);
    let sign = |secret: &str| {
        let secret = WebhookSecret::parse(secret).unwrap();
        secret.sign_message(&header("webhook-id"), &header("webhook-timestamp"), &got[0].body)
    };
    assert_eq!(header("webhook-signature"), sign(&secret('A')));
    assert_ne!(header("webhook-signature"), sign(&secret('B')), "control");

    // Another caller has another subscription, which is verified again; its end does not end the first.
    assert_eq!(bench.hook.verifications(), 1);
    let hers = subscribe(&other, json!({"source": "a"})).await;
    assert_ne!(hers["id"], granted["id"]);
    assert_eq!(bench.hook.verifications(), 2);
    let end = |source: &str| subscription(&json!({"source": source}), HOOK, &secret('A'));
    assert_eq!(
        ask(&other, "events/unsubscribe", end("a")).await["result"]["resultType"],
        "complete"
    );
    let again = ask(&other, "events/unsubscribe", end("a")).await;
    assert_eq!(again["error"]["code"], -32_023, "{again}");
    bench.change_pin("a");
    assert_eq!(bench.hook.wait_for(2).await.len(), 2);
    // A refresh replaces the secret; the former one signs too for a while.
    let params = subscription(&json!({"source": "a"}), HOOK, &secret('B'));
    let refreshed = ask(&owner, "events/subscribe", params).await["result"].clone();
    assert_eq!(
        (&refreshed["id"], &refreshed["deliveryStatus"]["active"]),
        (&granted["id"], &json!(true))
    );
    bench.change_pin("a");
    let got = bench.hook.wait_for(3).await;
    let signatures = got[2].headers["webhook-signature"].to_str().unwrap();
    assert_eq!(signatures.split(' ').count(), 2, "{signatures}");
    assert_eq!(bench.hook.verifications(), 2, "the URL is verified");
    // It expires by itself.
    bench.server.clock.advance(Duration::from_hours(2));
    bench.change_pin("a");
    assert_eq!(ask(&owner, "events/unsubscribe", end("a")).await["error"]["code"], -32_023);
    assert_eq!(bench.hook.events().len(), 3);
}

#[tokio::test]
async fn no_webhook_is_called_that_does_not_want_it() {
    let bench = EventServer::new().await;
    let owner = bench.server.owner_client().await;
    let try_one = async |url: &str, secret: &str| {
        let params = subscription(&json!({}), url, secret);
        ask(&owner, "events/subscribe", params).await["error"].clone()
    };
    for url in ["http://hooks.example.com/in", "https://10.0.0.1/in", "ftp://x", ""] {
        assert_eq!(try_one(url, &secret('A')).await["code"], -32_602, "{url}");
    }
    for bad in ["", "whsec_", "0123456789abcdef0123456789abcdef", "whsec_AAAA"] {
        assert_eq!(try_one(HOOK, bad).await["code"], -32_602, "{bad}");
    }
    assert_eq!(bench.hook.verifications(), 0);
    bench.hook.mute.lock().unwrap().push(HOOK.to_owned());
    let error = try_one(HOOK, &secret('A')).await;
    assert_eq!(
        (&error["code"], &error["data"]["reason"]),
        (&json!(-32_027), &json!("challenge_failed"))
    );
    bench.change_pin("a");
    // Nor is a host flooded with verifications.
    for _ in 0..5 {
        assert_eq!(try_one(HOOK, &secret('A')).await["code"], -32_027);
    }
    let error = try_one(HOOK, &secret('A')).await;
    assert_eq!(error["code"], -32_025, "{error}");
    assert_eq!(bench.hook.verifications(), 6);
    // A caller without a key has no webhook.
    let nobody = bench.server.keyless_client();
    let down = json!({"name": "source.down", "delivery":
        {"mode": "webhook", "url": "https://other.example.com", "secret": secret('A')}});
    let refused = ask(&nobody, "events/subscribe", down.clone()).await;
    assert_eq!(refused["error"]["code"], -32_024, "{refused}");
    // The control: the same with a key.
    assert!(ask(&owner, "events/subscribe", down).await["result"].is_object());
    assert_eq!(bench.hook.events().len(), 0);
}

#[tokio::test]
async fn webhooks_of_one_key_are_bounded_and_end_with_its_access() {
    let bench = EventServer::new().await;
    let (owner, other) = (bench.server.owner_client().await, bench.server.owner_client().await);
    for number in 0..16 {
        subscribe(&owner, json!({"source": format!("s{number}")})).await;
    }
    let over = subscription(&json!({"source": "more"}), HOOK, &secret('A'));
    let error = ask(&owner, "events/subscribe", over).await["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["limit"]),
        (&json!(-32_025), &json!("subscriptions"))
    );
    subscribe(&other, json!({"source": "s1"})).await;
    bench.server.revoke_key(&owner).await;
    bench.change_pin("s1");
    // Each of the revoked key's subscriptions ends with a message; the control gets the event.
    let got = bench.hook.wait_for(17).await;
    let ends = got.iter().filter(|it| body(it)["type"] == "terminated").count();
    let events: Vec<_> = got.iter().map(body).filter(|it| it["eventId"].is_string()).collect();
    assert_eq!((ends, events.len()), (16, 1), "{events:?}");
    assert_eq!(events[0]["data"]["source"], "s1");
}

/// The control is a webhook that its caller does not refresh.
#[tokio::test]
async fn a_refresh_with_a_new_token_carries_a_webhook_beyond_the_first_token() {
    for is_refreshed in [false, true] {
        let (signer, hook) = (Signer::new("one"), Arc::new(RecordingHook::default()));
        let setup = ServerSetup {
            offers: tools::standard_offers(),
            webhooks: Some(Arc::clone(&hook) as _),
            ..ServerSetup::default()
        };
        let (server, _keys) = server_with_issuer_and_setup(setup, &signer).await;
        let client = |seconds: u64| {
            let mut claims = valid_claims();
            (claims["scope"], claims["exp"]) = (json!("admin"), json!(NOW + seconds));
            client_with_token(&server, &signer.token(&claims))
        };
        let (first, second) = (client(600), client(3_000));
        let delivery = json!({"mode": "webhook", "url": HOOK, "secret": secret('A')});
        let params = json!({"name": "source.down", "arguments": {}, "delivery": delivery});
        for client in [Some(&first), is_refreshed.then_some(&second)].into_iter().flatten() {
            let answer = ask(client, "events/subscribe", params.clone()).await;
            assert!(answer["result"].is_object(), "{answer}");
        }
        server.clock.advance(Duration::from_secs(700));
        let sent = tokio::select! {
            biased;
            () = server.state.watch_source_states() => unreachable!(),
            sent = async {
                let problem = Problem::new("s", "connection refused");
                let kind = SourceErrorKind::Unreachable;
                server.source.set_answer(MockListing::Error(SourceError { kind, problem }));
                drop(server.intake.refresh_sources(None).await);
                body(&hook.wait_for(1).await[0])
            } => sent,
        };
        assert_eq!(sent["type"] == "terminated", !is_refreshed, "{sent}");
        assert_eq!(sent["name"] == "source.down", is_refreshed, "{sent}");
    }
}

/// A list of pins leaves out the sources that a persona hides, and so do its events.
#[tokio::test]
async fn an_event_of_a_pin_reaches_nobody_who_does_not_see_its_source() {
    let bench = EventServer::new().await;
    bench.server.set_guest_sources(Some(&["s"])).await;
    let reviewer = bench.server.client_with(|key| {
        (key.subject, key.is_agent) = ("rev".to_owned(), false);
        key.rights = [identity::Right::PinsWrite].into();
    });
    let reviewer = reviewer.await;
    let owner = bench.server.owner_client().await;
    let asked = json!({"name": "pin.changed"});
    let mut limited = reviewer.modern_stream("events/stream", asked.clone()).await;
    let mut whole = owner.modern_stream("events/stream", asked).await;
    for stream in [&mut limited, &mut whole] {
        assert_eq!(stream.next().await["method"], "notifications/events/active");
    }
    bench.change_pin("hr");
    bench.change_pin("s");
    assert_eq!(limited.next().await["params"]["data"]["source"], "s");
    assert_eq!(whole.next().await["params"]["data"]["source"], "hr", "the control");
}
