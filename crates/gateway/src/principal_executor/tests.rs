use std::sync::Arc;

use identity::Principal;
use serde_json::json;
use tool::outcome::{Answer, Body};
use tool::{
    Boxed, CallerType, Code, Context, ExecuteError, Executor, Granted, Interface, Json, Level,
    Outcome, Step,
};

use super::{OnBehalf, PrincipalExecutor, PrincipalPort};
use crate::Request;
use crate::tests::{bench, offer, principal};

/// Answers the names that its caller can call.
#[derive(Debug)]
struct ListsTools;

impl PrincipalExecutor for ListsTools {
    fn execute<'a>(
        &'a self,
        caller: OnBehalf<'a>,
        _: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let view = caller.gateway.view(caller.principal, CallerType::Direct);
        let names: Vec<_> = view.tools().map(|entry| entry.name.to_string()).collect();
        Box::pin(std::future::ready(Ok(Step::Done(Outcome::value(Json::of(&names))))))
    }
}

/// An ordinary executor, which tries to open the token, or calls another executor with its context.
#[derive(Debug)]
struct Ordinary(Option<Arc<dyn Executor>>);

impl Executor for Ordinary {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        if let Some(inner) = &self.0 {
            return inner.execute(call, ctx);
        }
        let token = ctx.principal.unwrap();
        let opened = token.downcast::<Principal>().is_some()
            || token.downcast::<Arc<crate::Gateway>>().is_some();
        Box::pin(std::future::ready(Ok(Step::Done(Outcome::value(Json::of(&opened))))))
    }
}

fn named(name: &str, level: Level) -> tool::Tool {
    let mut tool = testkit::tool(name, "d", &json!({"type": "object"}));
    tool.traits.level = level;
    tool
}

async fn call(gateway: &Arc<crate::Gateway>, who: &Principal, name: &str) -> serde_json::Value {
    let answer: Answer =
        gateway.call(who, Request::new(name, "{}".to_owned(), Interface::Library)).await;
    let Ok(Step::Done(Outcome { body: Body::Value(body), .. })) = answer.result else {
        panic!("{answer:?}");
    };
    body.read().unwrap()
}

#[tokio::test]
async fn a_principal_executor_acts_as_the_principal_of_its_call_through_layers_too() {
    let port: Arc<dyn Executor> = Arc::new(PrincipalPort(ListsTools));
    let layered = Arc::new(Ordinary(Some(Arc::clone(&port))));
    let gateway = bench(vec![
        offer(named("list", Level::User), port),
        offer(named("layered", Level::User), layered),
        offer(named("secret", Level::Admin), testkit::executor::echo()),
    ])
    .gateway;
    let admin = principal(Level::Admin);
    for name in ["list", "layered"] {
        let all = call(&gateway, &admin, name).await;
        assert!(all.to_string().contains("secret"), "{all}");
        // Narrowed for this call, the same key sees less.
        let narrowed = call(&gateway, &admin.lowered(Level::User), name).await;
        assert!(narrowed.to_string().contains("layered"), "{narrowed}");
        assert!(!narrowed.to_string().contains("secret"), "{narrowed}");
    }
}

#[tokio::test]
async fn an_ordinary_executor_cannot_open_the_principal_of_its_call() {
    let gateway = bench(vec![offer(named("pries", Level::User), Arc::new(Ordinary(None)))]).gateway;
    assert_eq!(call(&gateway, &principal(Level::Admin), "pries").await, json!(false));
}

#[tokio::test]
async fn a_principal_executor_outside_of_a_gateway_has_no_caller() {
    let tool = Arc::new(named("list", Level::User));
    let failed = testkit::run::run(&tool, &PrincipalPort(ListsTools), "{}").await.unwrap_err();
    assert_eq!(failed.code, Code::Internal);
}
