//! What a server answers beside the calls of its tools: prompts, resources, completions, log levels.

use std::sync::Arc;

use ::mcp::Era;
use serde_json::json;
use tool::{
    Boxed, CallerType, Context, Effects, ExecuteError, Executor, Granted, Item, Json, METHODS,
    Offer, Safety, Step, Tool, ToolName, Traits,
};

use super::call::Support;
use super::greeting::Can;
use super::link::Link;
use super::request::Params;
use super::run::{Job, Run};
use super::subscription::Subscription;
use super::upstream::Upstream;

/// MCP's method that lasts.
const SUBSCRIBE: &str = "resources/subscribe";

/// The methods a server has, as it says.
pub(super) fn offers(upstream: &Arc<Upstream>, link: &Link) -> Vec<Offer> {
    let can = link.greeted().can;
    let has = METHODS.into_iter().filter(|(_, method)| has(can, method, link.era()));
    has.filter_map(|(name, method)| {
        let item = Item::Method(Arc::new(shown(upstream, name, method)?));
        let upstream = Arc::clone(upstream);
        let executor: Arc<dyn Executor> = if method == SUBSCRIBE {
            Arc::new(Subscription::new(upstream))
        } else {
            Arc::new(Method { upstream, method })
        };
        Some(Offer { item, executor })
    })
    .collect()
}

fn has(can: Can, method: &str, era: Era) -> bool {
    match method {
        "prompts/get" => can.prompts.is_some(),
        "resources/read" => can.resources.is_some(),
        SUBSCRIBE => can.resources.is_some_and(|listed| listed.subscribe),
        "completion/complete" => can.completions,
        // From 2026-07-28 on the level stands in each request.
        "logging/setLevel" => can.logging && era == Era::Handshake,
        _ => false,
    }
}

/// How it stands in catalogs. It changes nothing; its level is the source's.
fn shown(upstream: &Upstream, name: &str, method: &str) -> Option<Tool> {
    let input = json!({"type": "object"});
    let description = format!("`{method}` of the source `{}`.", upstream.name);
    let received = json!({"name": name, "description": description, "inputSchema": input});
    let marks = &upstream.options.marks;
    Some(Tool {
        name: ToolName::new(name).ok()?,
        title: None,
        description,
        input: Json::of(&input),
        output: None,
        traits: Traits {
            level: marks.level.unwrap_or(tool::Level::Guest),
            safety: Safety::Safe,
            effects: Effects::Declared(Vec::new()),
            callers: vec![CallerType::Direct],
            timeout: marks.timeout,
            ..Traits::default()
        },
        received: Json::of(&received),
    })
}

/// One method of one server. The arguments are its params.
#[derive(Debug)]
struct Method {
    upstream: Arc<Upstream>,
    method: &'static str,
}

impl Method {
    async fn run(&self, call: Granted<'_>, ctx: &Context<'_>) -> Result<Step, ExecuteError> {
        let call = call.call();
        let params = Params::Whole(call.args.raw());
        let support = Support::None;
        let job = Job { method: self.method, params, mirror: None, bare: false, support };
        let own = self.upstream.of_caller(call, ctx).await?;
        Run::new(own.as_ref().unwrap_or(&self.upstream), call, ctx).job(job).await
    }
}

impl Executor for Method {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        ctx: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(call, ctx))
    }
}
