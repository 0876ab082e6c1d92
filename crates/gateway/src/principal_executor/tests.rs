use std::sync::Arc;

use identity::Principal;
use serde_json::json;
use tool::call_outcome::{CallResponse, OutcomeBody};
use tool::{
    BoxFuture, CallContext, CallerType, ErrorCode, ExecuteError, ExecutionState, Executor,
    Interface, Json, Outcome, PermissionLevel, RecordedCall,
};

use super::{OnBehalf, PrincipalExecutor, PrincipalPort};
use crate::CallRequest;
use crate::tests::{bench, offer, principal};

/// Answers the names that its caller can call.
#[derive(Debug)]
struct ListsTools;

impl PrincipalExecutor for ListsTools {
    fn execute<'a>(
        &'a self,
        caller: OnBehalf<'a>,
        _: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        let view = caller.gateway.view_for(caller.principal, CallerType::Direct);
        let names: Vec<_> = view.list_tools().map(|entry| entry.name.to_string()).collect();
        Box::pin(std::future::ready(Ok(ExecutionState::Completed(Outcome::from_value(
            Json::encode(&names),
        )))))
    }
}

/// An ordinary executor, which tries to open the token, or calls another executor with its context.
#[derive(Debug)]
struct Ordinary(Option<Arc<dyn Executor>>);

impl Executor for Ordinary {
    fn execute<'a>(
        &'a self,
        call: RecordedCall<'a>,
        ctx: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        if let Some(inner) = &self.0 {
            return inner.execute(call, ctx);
        }
        let token = ctx.principal.unwrap();
        let opened = token.downcast::<Principal>().is_some()
            || token.downcast::<Arc<crate::Gateway>>().is_some();
        Box::pin(std::future::ready(Ok(ExecutionState::Completed(Outcome::from_value(
            Json::encode(&opened),
        )))))
    }
}

fn named(name: &str, level: PermissionLevel) -> tool::Tool {
    let mut tool = testkit::read_only_tool(name, "d", &json!({"type": "object"}));
    tool.traits.min_level = level;
    tool
}

async fn call(gateway: &Arc<crate::Gateway>, who: &Principal, name: &str) -> serde_json::Value {
    let answer: CallResponse =
        gateway.call_tool(who, CallRequest::new(name, "{}".to_owned(), Interface::Library)).await;
    let Ok(ExecutionState::Completed(Outcome { body: OutcomeBody::Value(body), .. })) =
        answer.result
    else {
        panic!("{answer:?}");
    };
    body.decode().unwrap()
}

#[tokio::test]
async fn a_principal_executor_acts_as_the_principal_of_its_call_through_layers_too() {
    let port: Arc<dyn Executor> = Arc::new(PrincipalPort(ListsTools));
    let layered = Arc::new(Ordinary(Some(Arc::clone(&port))));
    let gateway = bench(vec![
        offer(named("list", PermissionLevel::User), port),
        offer(named("layered", PermissionLevel::User), layered),
        offer(named("secret", PermissionLevel::Admin), testkit::executor::echo_executor()),
    ])
    .gateway;
    let admin = principal(PermissionLevel::Admin);
    for name in ["list", "layered"] {
        let all = call(&gateway, &admin, name).await;
        assert!(all.to_string().contains("secret"), "{all}");
        // Narrowed for this call, the same key sees less.
        let narrowed = call(&gateway, &admin.with_max_level(PermissionLevel::User), name).await;
        assert!(narrowed.to_string().contains("layered"), "{narrowed}");
        assert!(!narrowed.to_string().contains("secret"), "{narrowed}");
    }
}

#[tokio::test]
async fn an_ordinary_executor_cannot_open_the_principal_of_its_call() {
    let gateway =
        bench(vec![offer(named("pries", PermissionLevel::User), Arc::new(Ordinary(None)))]).gateway;
    assert_eq!(call(&gateway, &principal(PermissionLevel::Admin), "pries").await, json!(false));
}

#[tokio::test]
async fn a_principal_executor_outside_of_a_gateway_has_no_caller() {
    let tool = Arc::new(named("list", PermissionLevel::User));
    let failed =
        testkit::executor_run::run_call(&tool, &PrincipalPort(ListsTools), "{}").await.unwrap_err();
    assert_eq!(failed.code, ErrorCode::Internal);
}
