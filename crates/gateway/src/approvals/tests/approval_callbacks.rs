//! Approvals that a function of the embedding program gives.

use std::sync::Arc;

use identity::Principal;
use serde_json::json;
use tokio::task::JoinSet;

use super::{Bench, agent, owner};
use crate::approvals::ApprovalDetails;
use crate::result_formats::{ApprovalCallback, CallbackVerdict, ModelToolCall, ToolRunner};

/// Contracts 1.5: the function says approved, denied with or without a reason, or modified; what does not
/// fit, and a function without the right, run nothing.
#[tokio::test]
async fn golden_results_of_the_approval_callback_have_the_safety_level_librarys_texts() {
    type Verdict = fn(&ApprovalDetails) -> CallbackVerdict;
    let modified =
        |_: &ApprovalDetails| CallbackVerdict::ApprovedWithArguments(r#"{"n":2}"#.into());
    let unfit =
        |_: &ApprovalDetails| CallbackVerdict::ApprovedWithArguments(r#"{"n":"two"}"#.into());
    let cases: [(&str, Verdict, Principal); 6] = [
        ("approved", |_| CallbackVerdict::Approved, owner()),
        ("denied", |_| CallbackVerdict::Denied(None), owner()),
        (
            "denied with a reason",
            |_| CallbackVerdict::Denied(Some("not today".to_owned())),
            owner(),
        ),
        ("modified", modified, owner()),
        ("modified to what does not fit", unfit, owner()),
        ("a function without the right", |_| CallbackVerdict::Approved, agent()),
    ];
    let mut results = Vec::new();
    for (name, verdict, who) in cases {
        let bench = Bench::new();
        let runner = ToolRunner::new(Arc::clone(&bench.gateway), agent())
            .with_approval_callback(who, verdict);
        let args = r#"{"n":1}"#.into();
        let tool_call =
            ModelToolCall { id: "call_1".to_owned(), name: "rm".to_owned(), arguments: args };
        let mut result = runner.execute_call(tool_call).await;
        result.metadata.execution_time_ms = 0;
        assert_eq!((result.id.as_str(), result.success), ("call_1", result.error.is_none()));
        assert_eq!(bench.executor.call_count(), usize::from(result.success), "{name}");
        assert_eq!(result.metadata.is_approved, result.success, "{name}");
        results.push(json!({"function": name, "result": result}));
    }
    insta::assert_json_snapshot!("approval_callback", results);
}

/// Who decides first counts, also where the function never says anything; and no call waits for ever.
#[tokio::test(start_paused = true)]
async fn a_callback_that_says_nothing_holds_nobody_for_ever() {
    struct Silent;
    impl ApprovalCallback for Silent {
        fn request_verdict<'a>(
            &'a self,
            _: &'a ApprovalDetails,
        ) -> tool::BoxFuture<'a, CallbackVerdict> {
            Box::pin(std::future::pending())
        }
    }
    let bench = Bench::new();
    let runner = ToolRunner::new(Arc::clone(&bench.gateway), agent())
        .with_approval_callback(owner(), Silent);
    let tool_call = || ModelToolCall {
        id: "1".to_owned(),
        name: "rm".to_owned(),
        arguments: r#"{"n":1}"#.into(),
    };
    let mut tasks = JoinSet::new();
    let first = runner.clone();
    let first_call = tool_call();
    tasks.spawn(async move { first.execute_call(first_call).await });
    let id = loop {
        let page = bench.gateway.list_approvals(&owner(), true, (None, 10)).await.unwrap();
        if let Some(shown) = page.approvals.first() {
            break shown.id;
        }
        tokio::task::yield_now().await;
    };
    bench.approve(id).await.unwrap();
    let result = tasks.join_next().await.unwrap().unwrap();
    assert!(result.success, "{result:?}");
    assert!(!result.metadata.is_approved, "another agreed, not the function");
}
