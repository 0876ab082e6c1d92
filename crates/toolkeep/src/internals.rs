//! Handlers of `internal` tools in tool files: what Toolkeep knows of itself, as its caller may see it.

use std::sync::Arc;

use gateway::{OnBehalf, PrincipalExecutor, PrincipalPort, View};
use identity::{Principal, Right};
use serde_json::{Value, json};
use source_tool_files::{Internal, Internals};
use tool::ledger::{Query, Record, Records};
use tool::{
    Boxed, CallerType, Code, Context, Effects, ExecuteError, Executor, Granted, Json, Outcome,
    Step, Traits,
};

/// Items of one answer, where the call names no `limit`, and at most.
const ITEMS: (usize, usize) = (100, 1_000);

/// The handlers, by their names; `records` is where one of them reads.
pub(crate) fn all(records: &Arc<dyn Records>) -> Internals {
    run_by(|asks| Arc::new(PrincipalPort(Handler { records: Arc::clone(records), asks })))
}

/// The same names, each run by `executor`.
pub(crate) fn replaced(executor: &Arc<dyn Executor>) -> Internals {
    run_by(|_| Arc::clone(executor))
}

fn run_by(executor: impl Fn(Asks) -> Arc<dyn Executor>) -> Internals {
    let traits = Traits {
        effects: Effects::read_only(),
        idempotent: true,
        categories: vec!["system".to_owned()],
        ..Traits::default()
    };
    let handler = |asks: Asks| {
        (asks.name().to_owned(), Internal { executor: executor(asks), traits: traits.clone() })
    };
    let all = [Asks::Tools, Asks::Sources, Asks::Records];
    Arc::new(all.into_iter().map(handler).collect())
}

#[derive(Debug, Clone, Copy)]
enum Asks {
    Tools,
    Sources,
    Records,
}

impl Asks {
    fn name(self) -> &'static str {
        match self {
            Self::Tools => "catalog.list",
            Self::Sources => "source.status",
            Self::Records => "record.recent",
        }
    }
}

struct Handler {
    records: Arc<dyn Records>,
    asks: Asks,
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handler").field("asks", &self.asks).finish_non_exhaustive()
    }
}

impl Handler {
    async fn run(&self, caller: OnBehalf<'_>, call: Granted<'_>) -> Result<Step, ExecuteError> {
        // As its request narrowed it: what this tells is what the same request could call.
        let OnBehalf { principal, gateway } = caller;
        let args = call.call().args.value();
        let view = gateway.view(principal, CallerType::Direct);
        let limit = args
            .get("limit")
            .and_then(Value::as_u64)
            .map_or(ITEMS.0, |limit| usize::try_from(limit).unwrap_or(ITEMS.1).clamp(1, ITEMS.1));
        let answer = match self.asks {
            Asks::Tools => tools(&view, args.get("source").and_then(Value::as_str), limit),
            Asks::Sources => sources(&view, principal),
            Asks::Records => records(self.records.as_ref(), principal, limit).await?,
        };
        Ok(Step::Done(Outcome::value(Json::of(&answer))))
    }
}

/// The tools that the caller may call.
fn tools(view: &View, source: Option<&str>, limit: usize) -> Value {
    let of_source = |name: &str| source.is_none_or(|source| source == name);
    let all: Vec<_> = view.tools().filter(|entry| of_source(entry.key.source.as_str())).collect();
    let shown = all.iter().take(limit).map(|entry| {
        let (name, source) = (entry.name.as_str(), entry.key.source.as_str());
        json!({"name": name, "source": source, "description": entry.tool.description})
    });
    json!({"tools": shown.collect::<Vec<_>>(), "count": all.len()})
}

/// The sources whose tools the caller may have; what is wrong with them, for those who may mend it.
fn sources(view: &View, principal: &Principal) -> Value {
    let (catalog, counts) = (view.catalog(), view.count_by_source());
    let seen = |name: &str| principal.rights().allows_source(name);
    let shelves = catalog.shelves().filter(|shelf| seen(shelf.source.as_str()));
    let standing = shelves.map(|shelf| {
        let state = shelf.state.as_str();
        let tools = counts.get(&shelf.source).copied().unwrap_or_default();
        let mut told = json!({"name": shelf.source.as_str(), "kind": shelf.kind, "state": state, "tools": tools});
        if principal.may(Right::SourcesRefresh)
            && let Some(members) = told.as_object_mut()
        {
            let problems: Vec<_> = catalog.problems(&shelf.source).collect();
            members.insert("problems".to_owned(), json!(problems));
        }
        told
    });
    json!({"sources": standing.collect::<Vec<_>>()})
}

/// The newest records of the caller's organisation, for keys that may read the record.
async fn records(
    records: &dyn Records,
    principal: &Principal,
    limit: usize,
) -> Result<Value, ExecuteError> {
    if !principal.may(Right::RecordsRead) {
        let told = "the key lacks the right `records:read`";
        return Err(ExecuteError::before(Code::Denied, told));
    }
    let query = Query { org: Some(principal.org().clone()), limit, ..Query::default() };
    let found = records
        .list(query)
        .await
        .map_err(|error| ExecuteError::during(Code::RecordUnavailable, error.message))?;
    let records: Vec<_> = found.records.into_iter().map(Record::with_times).collect();
    Ok(json!({"records": records}))
}

impl PrincipalExecutor for Handler {
    fn execute<'a>(
        &'a self,
        caller: OnBehalf<'a>,
        call: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        Box::pin(self.run(caller, call))
    }
}
