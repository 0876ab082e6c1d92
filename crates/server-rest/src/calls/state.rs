//! `GET /v1/calls/{id}`: the status of a call, from the ledger and its pending approval.

use axum::extract::{Path, State};
use axum::{Extension, Json as Reply};
use gateway::Shown;
use identity::{Principal, Right};
use schemars::JsonSchema;
use serde::Serialize;
use tool::ledger::{Kind, Record, WaitStep, Waited, standing};
use tool::outcome::Status;
use tool::{CallId, Code, End, Intent, Json, Refusal, Step};
use uuid::Uuid;

use server_core::call_result::shown;
use server_core::error::ApiError;
use server_core::state::Doors;

/// A call in the record.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CallState {
    #[schemars(with = "String")]
    call_id: CallId,
    #[schemars(with = "String")]
    status: Status,
    tool: Option<String>,
    source: Option<String>,
    /// When it began, RFC 3339.
    started: Option<String>,
    elapsed_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    code: Option<Code>,
    /// How it stands with a person's approval, where it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    approval: Option<Shown>,
    /// What a held call answered, for its caller, as long as that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    result: Option<Json>,
    /// All frames of the call.
    #[schemars(with = "Vec<serde_json::Value>")]
    records: Vec<Record>,
}

pub(super) async fn one(
    State(doors): State<Doors>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Reply<CallState>, ApiError> {
    let missing = || ApiError::new(Code::NotFound, format!("no call `{}`", id.escape_debug()));
    let call = id.parse::<Uuid>().map(CallId).map_err(|_| missing())?;
    // Checked before the records are read, so that a call that ends meanwhile is found with its
    // outcome.
    let is_running = doors.parts.records.is_running(call);
    let records = doors.parts.records.of_call(call).await?;
    let status = standing(&records, is_running).ok_or_else(missing)?;
    let state = state_of(call, status, records);
    // A call of another caller is reported as not found.
    let own = state.caller.as_ref().is_some_and(|caller| caller.0 == *principal.org())
        && (principal.may(Right::RecordsRead)
            || state.caller.as_ref().is_some_and(|caller| caller.1 == principal.subject()));
    if !own {
        return Err(missing());
    }
    Ok(Reply(state.shown.with_wait(&doors, &principal).await))
}

impl CallState {
    /// Adds the state of the call's approval, if it had one.
    async fn with_wait(mut self, doors: &Doors, principal: &Principal) -> Self {
        let held = self.records.iter().any(|record| record.kind == Kind::Wait);
        if !held {
            return self;
        }
        let gateway = &doors.parts.gateway;
        self.approval = gateway.approval(principal, self.call_id).await.ok();
        if let Ok(answer) = gateway.standing(principal, self.call_id).await {
            // The approval was consumed, and the process ended before the intent was recorded.
            if answer.status == Status::Unknown && self.status == Status::Waiting {
                self.status = Status::Unknown;
            }
            if let Ok(Step::Done(outcome)) = answer.result {
                self.result = Some(shown(outcome).0);
            }
        }
        self
    }
}

struct Found {
    caller: Option<(tool::Org, String)>,
    shown: CallState,
}

fn state_of(call_id: CallId, status: Status, records: Vec<Record>) -> Found {
    let mut shown = CallState {
        call_id,
        status,
        tool: None,
        source: None,
        started: None,
        elapsed_ms: None,
        code: None,
        approval: None,
        result: None,
        records: Vec::new(),
    };
    let mut caller = None;
    for record in &records {
        match record.kind {
            Kind::Intent => {
                let Ok(intent) = record.body.read::<Intent>() else { continue };
                shown.tool = Some(intent.tool.name.to_string());
                shown.source = Some(intent.tool.source.to_string());
                shown.started = Some(intent.at.to_string());
                caller = Some((intent.caller.org, intent.caller.subject));
            }
            Kind::Outcome => {
                let Ok(end) = record.body.read::<End>() else { continue };
                shown.code = end.code;
                shown.elapsed_ms = Some(end.elapsed_ms);
            }
            Kind::Refused => {
                let Ok(refusal) = record.body.read::<Refusal>() else { continue };
                shown.code = Some(refusal.code);
                shown.tool = Some(refusal.tool);
                shown.started = Some(refusal.at.to_string());
                caller = Some((refusal.caller.org, refusal.caller.subject));
            }
            Kind::Wait => {
                let Ok(waited) = record.body.read::<Waited>() else { continue };
                if waited.step == WaitStep::Held {
                    shown.started = Some(waited.at.to_string());
                }
                shown.tool = Some(waited.tool.name.to_string());
                shown.source = Some(waited.tool.source.to_string());
                caller = Some((waited.caller.org, waited.caller.subject));
            }
            Kind::Checkpoint | Kind::Tombstone | Kind::Gap | Kind::Event => {}
        }
    }
    shown.records = records.into_iter().map(Record::with_times).collect();
    Found { caller, shown }
}
