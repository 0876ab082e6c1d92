//! Handlers of `internal` tools in tool files: they list tools, sources and records visible to the
//! caller.

use std::sync::Arc;

use gateway::{CatalogView, OnBehalf, PrincipalExecutor, PrincipalPort};
use identity::{Principal, Right};
use serde_json::{Value, json};
use source_tool_files::{InternalHandler, InternalHandlers};
use tool::ledger::{LedgerRecord, RecordQuery, RecordReader};
use tool::{
    BoxFuture, CallContext, CallerType, ErrorCode, ExecuteError, ExecutionState, Executor, Json,
    Outcome, RecordedCall, SideEffects, ToolTraits,
};

/// Default and maximum number of items in one result.
const ITEM_LIMITS: (usize, usize) = (100, 1_000);

/// Builds the handlers by name; `record.recent` reads from `records`.
pub(crate) fn internal_tools(records: &Arc<dyn RecordReader>) -> InternalHandlers {
    build_internal_tools(|asks| {
        Arc::new(PrincipalPort(InternalToolExecutor {
            records: Arc::clone(records),
            tool_kind: asks,
        }))
    })
}

/// Builds handlers of the same names that all run `executor`.
pub(crate) fn internal_tools_with(executor: &Arc<dyn Executor>) -> InternalHandlers {
    build_internal_tools(|_| Arc::clone(executor))
}

fn build_internal_tools(
    executor: impl Fn(InternalToolKind) -> Arc<dyn Executor>,
) -> InternalHandlers {
    let traits = ToolTraits {
        effects: SideEffects::read_only(),
        is_idempotent: true,
        categories: vec!["system".to_owned()],
        ..ToolTraits::default()
    };
    let handler = |asks: InternalToolKind| {
        (
            asks.tool_name().to_owned(),
            InternalHandler { executor: executor(asks), traits: traits.clone() },
        )
    };
    let all = [
        InternalToolKind::CatalogList,
        InternalToolKind::SourceStatus,
        InternalToolKind::RecordRecent,
    ];
    Arc::new(all.into_iter().map(handler).collect())
}

#[derive(Debug, Clone, Copy)]
enum InternalToolKind {
    CatalogList,
    SourceStatus,
    RecordRecent,
}

impl InternalToolKind {
    fn tool_name(self) -> &'static str {
        match self {
            Self::CatalogList => "catalog.list",
            Self::SourceStatus => "source.status",
            Self::RecordRecent => "record.recent",
        }
    }
}

struct InternalToolExecutor {
    records: Arc<dyn RecordReader>,
    tool_kind: InternalToolKind,
}

impl std::fmt::Debug for InternalToolExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handler").field("asks", &self.tool_kind).finish_non_exhaustive()
    }
}

impl InternalToolExecutor {
    async fn run_tool(
        &self,
        caller: OnBehalf<'_>,
        call: RecordedCall<'_>,
    ) -> Result<ExecutionState, ExecuteError> {
        // With the restrictions of the request: the result shows only what that request could call.
        let OnBehalf { principal, gateway } = caller;
        let args = call.call().arguments.as_value();
        let view = gateway.view_for(principal, CallerType::Direct);
        let limit = args.get("limit").and_then(Value::as_u64).map_or(ITEM_LIMITS.0, |limit| {
            usize::try_from(limit).unwrap_or(ITEM_LIMITS.1).clamp(1, ITEM_LIMITS.1)
        });
        let result = match self.tool_kind {
            InternalToolKind::CatalogList => {
                list_tools(&view, args.get("source").and_then(Value::as_str), limit)
            }
            InternalToolKind::SourceStatus => list_sources(&view, principal),
            InternalToolKind::RecordRecent => {
                list_records(self.records.as_ref(), principal, limit).await?
            }
        };
        Ok(ExecutionState::Completed(Outcome::from_value(Json::encode(&result))))
    }
}

/// Lists the tools that the caller may call.
fn list_tools(view: &CatalogView, source: Option<&str>, limit: usize) -> Value {
    let of_source = |name: &str| source.is_none_or(|source| source == name);
    let all: Vec<_> =
        view.list_tools().filter(|entry| of_source(entry.tool_key.source.as_str())).collect();
    let listed = all.iter().take(limit).map(|entry| {
        let (name, source) = (entry.name.as_str(), entry.tool_key.source.as_str());
        json!({"name": name, "source": source, "description": entry.tool.description})
    });
    json!({"tools": listed.collect::<Vec<_>>(), "count": all.len()})
}

/// Lists the sources visible to the caller; their problems only with the right `sources:refresh`.
fn list_sources(view: &CatalogView, principal: &Principal) -> Value {
    let (catalog, counts) = (view.full_catalog(), view.count_by_source());
    let is_visible = |name: &str| principal.rights_class().allows_source(name);
    let source_catalogs = catalog.list_sources().filter(|shelf| is_visible(shelf.source.as_str()));
    let states = source_catalogs.map(|shelf| {
        let state = shelf.state.as_str();
        let tools = counts.get(&shelf.source).copied().unwrap_or_default();
        let mut entry = json!({"name": shelf.source.as_str(), "kind": shelf.kind, "state": state, "tools": tools});
        if principal.has_right(Right::SourcesRefresh)
            && let Some(members) = entry.as_object_mut()
        {
            let problems: Vec<_> = catalog.source_problems(&shelf.source).collect();
            members.insert("problems".to_owned(), json!(problems));
        }
        entry
    });
    json!({"sources": states.collect::<Vec<_>>()})
}

/// Lists the newest records of the caller's organisation; requires the right `records:read`.
async fn list_records(
    records: &dyn RecordReader,
    principal: &Principal,
    limit: usize,
) -> Result<Value, ExecuteError> {
    if !principal.has_right(Right::RecordsRead) {
        let message = "the key lacks the right `records:read`";
        return Err(ExecuteError::not_sent(ErrorCode::Denied, message));
    }
    let query = RecordQuery { org: Some(principal.org().clone()), limit, ..RecordQuery::default() };
    let found = records
        .list_records(query)
        .await
        .map_err(|error| ExecuteError::maybe_sent(ErrorCode::RecordUnavailable, error.message))?;
    let records: Vec<_> =
        found.records.into_iter().map(LedgerRecord::with_formatted_times).collect();
    Ok(json!({"records": records}))
}

impl PrincipalExecutor for InternalToolExecutor {
    fn execute<'a>(
        &'a self,
        caller: OnBehalf<'a>,
        call: RecordedCall<'a>,
        _: &'a CallContext<'a>,
    ) -> BoxFuture<'a, Result<ExecutionState, ExecuteError>> {
        Box::pin(self.run_tool(caller, call))
    }
}
