//! `/v1/programs` with and without a key. The programs themselves are another crate's.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use identity::Principal;
use serde_json::{Value, json};
use server_core::Programs;
use tool::outcome::Failure;
use tool::{Boxed, CallId, Code, Level};

use crate::support::{Server, Setup, tools};

/// A program for each id that is asked for, which waits until it is cancelled.
#[derive(Debug)]
pub(crate) struct One;

fn program(id: CallId, status: &str) -> Value {
    json!({ "program": id, "status": status, "pending": [] })
}

impl Programs for One {
    fn show<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> Boxed<'a, Result<Value, Failure>> {
        let status = if wait.is_zero() { "succeeded" } else { "pending_approval" };
        let own = who.subject() != "stranger";
        let missing = || Failure::new(Code::NotFound, "no program");
        Box::pin(std::future::ready(own.then(|| program(id, status)).ok_or_else(missing)))
    }

    fn resume<'a>(
        &'a self,
        who: &'a Principal,
        id: CallId,
        wait: Duration,
    ) -> Boxed<'a, Result<Value, Failure>> {
        self.show(who, id, wait)
    }

    fn follow<'a>(
        &'a self,
        _: &'a Principal,
        id: CallId,
    ) -> Boxed<'a, Result<BoxStream<'static, Value>, Failure>> {
        let states = ["running", "succeeded"].map(|status| program(id, status));
        Box::pin(std::future::ready(Ok(futures_util::stream::iter(states).boxed())))
    }

    fn list<'a>(&'a self, who: &'a Principal, _: usize) -> Boxed<'a, Result<Vec<Value>, Failure>> {
        let own = json!({ "program": who.subject() });
        Box::pin(std::future::ready(Ok(vec![own])))
    }

    fn cancel<'a>(&'a self, _: &'a Principal, id: CallId) -> Boxed<'a, Result<Value, Failure>> {
        Box::pin(std::future::ready(Ok(program(id, "cancelled"))))
    }

    fn chainable(&self, _: &Principal) -> Result<Value, Failure> {
        Ok(json!({ "count": 0, "tools": [] }))
    }

    fn described(&self, _: &Principal) -> Option<String> {
        None
    }
}

const ID: &str = "01a1b2c3-0000-7000-8000-000000000000";

#[tokio::test]
async fn programs_are_their_callers_and_wait_is_a_status_of_its_own() {
    let programs: Option<Arc<dyn Programs>> = Some(Arc::new(One));
    let setup = Setup { offers: tools::standard(), programs, ..Setup::default() };
    let server = Server::with(setup).await;
    let ann = server.agent("ann", Level::User).await;
    let one = format!("/v1/programs/{ID}");
    assert_eq!(ann.get("/v1/programs").await.good(), json!({"programs": [{"program": "ann"}]}));
    assert_eq!(ann.get(&one).await.good()["status"], "succeeded");
    let waits = ann.get(&format!("{one}?wait=1s")).await;
    let resumed = ann.post(&format!("{one}/resume?wait=1s"), &json!({})).await;
    assert_eq!(resumed.status, waits.status);
    assert_eq!((waits.status.as_u16(), &waits.json()["program"]), (202, &json!(ID)));
    assert_eq!(server.agent("stranger", Level::User).await.get(&one).await.status, 404);
    assert_eq!(ann.get("/v1/programs/none").await.status, 404);
    assert_eq!(ann.get(&format!("{one}?wait=soon")).await.status, 400);
    let ended = ann.post(&format!("{one}/cancel"), &json!({})).await.good();
    assert_eq!(ended["status"], "cancelled");
    assert_eq!(ann.get("/v1/programs/tools").await.good()["count"], 0);
    let slip = ann.post("/v1/programs", &json!({"code": "1", "modus": "dep"})).await;
    assert_eq!(slip.status, 400, "{}", slip.text());
    for path in ["/v1/programs", &one, "/v1/programs/tools"] {
        assert_eq!(server.anyone().get(path).await.status, 401, "{path}");
    }
}
