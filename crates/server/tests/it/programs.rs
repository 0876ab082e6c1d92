//! Tests of `/v1/programs` with and without a key, on stub programs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use identity::Principal;
use serde_json::{Value, json};
use server_core::ProgramRunner;
use tool::call_outcome::CallFailure;
use tool::{BoxFuture, CallId, ErrorCode, PermissionLevel};

use crate::support::{FixtureServer, ServerSetup, tools};

/// Simulates a program for each requested ID, which waits until it is cancelled.
#[derive(Debug)]
pub(crate) struct StubPrograms;

fn program(id: CallId, status: &str) -> Value {
    json!({ "program": id, "status": status, "pending": [] })
}

impl ProgramRunner for StubPrograms {
    fn show_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Value, CallFailure>> {
        let status = if wait.is_zero() { "succeeded" } else { "pending_approval" };
        let own = who.subject() != "stranger";
        let missing = || CallFailure::new(ErrorCode::NotFound, "no program");
        Box::pin(std::future::ready(own.then(|| program(id, status)).ok_or_else(missing)))
    }

    fn resume_program<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Value, CallFailure>> {
        self.show_program(who, id, wait)
    }

    fn watch_program<'a>(
        &'a self,
        _: &'a Principal,
        id: CallId,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Value>, CallFailure>> {
        let states = ["running", "succeeded"].map(|status| program(id, status));
        Box::pin(std::future::ready(Ok(futures_util::stream::iter(states).boxed())))
    }

    fn list_programs<'a>(
        &'a self,
        who: &'a Principal,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Value>, CallFailure>> {
        let own = json!({ "program": who.subject() });
        Box::pin(std::future::ready(Ok(vec![own])))
    }

    fn cancel_program<'a>(
        &'a self,
        _: &'a Principal,
        id: CallId,
    ) -> BoxFuture<'a, Result<Value, CallFailure>> {
        Box::pin(std::future::ready(Ok(program(id, "cancelled"))))
    }

    fn chainable_tools(&self, _: &Principal) -> Result<Value, CallFailure> {
        Ok(json!({ "count": 0, "tools": [] }))
    }

    fn function_descriptions(&self, _: &Principal) -> Option<String> {
        None
    }
}

const ID: &str = "01a1b2c3-0000-7000-8000-000000000000";

#[tokio::test]
async fn programs_are_their_callers_and_wait_is_a_status_of_its_own() {
    let programs: Option<Arc<dyn ProgramRunner>> = Some(Arc::new(StubPrograms));
    let setup =
        ServerSetup { offers: tools::standard_offers(), programs, ..ServerSetup::default() };
    let server = FixtureServer::with_setup(setup).await;
    let ann = server.agent_client("ann", PermissionLevel::User).await;
    let one = format!("/v1/programs/{ID}");
    assert_eq!(
        ann.get("/v1/programs").await.expect_ok(),
        json!({"programs": [{"program": "ann"}]})
    );
    assert_eq!(ann.get(&one).await.expect_ok()["status"], "succeeded");
    let waits = ann.get(&format!("{one}?wait=1s")).await;
    let resumed = ann.post(&format!("{one}/resume?wait=1s"), &json!({})).await;
    assert_eq!(resumed.status, waits.status);
    assert_eq!((waits.status.as_u16(), &waits.json()["program"]), (202, &json!(ID)));
    assert_eq!(
        server.agent_client("stranger", PermissionLevel::User).await.get(&one).await.status,
        404
    );
    assert_eq!(ann.get("/v1/programs/none").await.status, 404);
    assert_eq!(ann.get(&format!("{one}?wait=soon")).await.status, 400);
    let ended = ann.post(&format!("{one}/cancel"), &json!({})).await.expect_ok();
    assert_eq!(ended["status"], "cancelled");
    assert_eq!(ann.get("/v1/programs/tools").await.expect_ok()["count"], 0);
    let slip = ann.post("/v1/programs", &json!({"code": "1", "modus": "dep"})).await;
    assert_eq!(slip.status, 400, "{}", slip.text());
    for path in ["/v1/programs", &one, "/v1/programs/tools"] {
        assert_eq!(server.keyless_client().get(path).await.status, 401, "{path}");
    }
}
