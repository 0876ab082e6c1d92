//! A program as its caller sees it: spec 3's fields, and what it waits for.

use serde_json::{Value, json};

use crate::head::Head;
use crate::program::{Program, State};

/// All of it.
pub(crate) fn shown(program: &Program) -> Value {
    let mut all = line(&Head::of(program, 0));
    let more = json!({
        "result": program.result,
        "error": program.error,
        "printed": program.printed,
        "observation": program.observation,
        "calls": program.calls.iter().map(|it| json!({
            "chain_index": it.index, "tool": it.tool, "call": it.call,
            "success": it.success, "elapsed_ms": it.elapsed_ms,
        })).collect::<Vec<_>>(),
        "tools_used": program.calls.len(),
        "tools_called": program.calls.iter().map(|it| it.tool.as_str()).collect::<Vec<_>>(),
        "tool_timings": program.calls.iter().map(|it| json!({
            "tool_name": it.tool, "elapsed_ms": it.elapsed_ms, "success": it.success == Some(true),
        })).collect::<Vec<_>>(),
        "tools_success": went_well(program),
        "tool_chains": [chain(program)],
    });
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}

/// What a model needs of it: the rest is there for those who ask for the program.
pub(crate) fn told(mut shown: Value) -> Value {
    let Some(all) = shown.as_object_mut() else { return shown };
    let needed = |key: &str, value: &Value| match key {
        "program" | "status" | "result" | "tools_called" => true,
        "error" | "printed" | "pending" | "observation" => {
            !matches!(value, Value::Null) && value != &json!("") && value != &json!([])
        }
        _ => false,
    };
    all.retain(|key, value| needed(key, value));
    // With a result, the text of the turn says the same twice.
    if all.get("result").is_some_and(|it| !it.is_null()) {
        all.remove("observation");
    }
    shown
}

/// One line of a list, of what was shown.
pub(crate) fn line_of(shown: &Value) -> Value {
    let keys = ["program", "status", "created", "pending"];
    keys.into_iter().filter_map(|key| Some((key.to_owned(), shown.get(key)?.clone()))).collect()
}

/// One line of a list.
pub(crate) fn line(head: &Head) -> Value {
    let pending = head.pending.iter();
    let pending: Vec<Value> = pending
        .map(|it| json!({ "call": it.call, "approval": it.call, "tool": it.tool }))
        .collect();
    json!({
        "program": head.id,
        "status": word(head.state),
        "created": head.created.to_string(),
        "pending": pending,
    })
}

fn word(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Waiting => "pending_approval",
        State::Paused => "paused",
        State::Succeeded => "succeeded",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
        State::Expired => "expired",
        State::Unknown => "unknown",
    }
}

/// Whether all calls succeeded. A program that ended before its first one, as where the gate blocked it, did
/// nothing well.
fn went_well(program: &Program) -> bool {
    let ended =
        matches!(program.state, State::Failed | State::Cancelled | State::Expired | State::Unknown);
    let nothing = ended && program.calls.is_empty();
    !nothing && program.calls.iter().all(|it| it.success == Some(true))
}

/// One entry of spec 3's `tool_chains`.
fn chain(program: &Program) -> Value {
    let used = program.used.as_str();
    let tools: Vec<&str> = program.calls.iter().map(|it| it.tool.as_str()).collect();
    let timeline: Vec<Value> = program
        .waves
        .iter()
        .enumerate()
        .map(|(index, wave)| {
            json!({
                "wave_index": index, "tools": wave.tools, "mode_used": used,
                "elapsed_ms": wave.elapsed_ms, "fallback_to_seq": program.fallback,
                "parallel_mutations_enabled": wave.parallel_mutations,
            })
        })
        .collect();
    json!({
        "chain_id": program.id.chain_id(),
        "caller_type": "chain",
        "tools": tools,
        "elapsed_ms": program.elapsed_ms,
        "success": went_well(program),
        "mode_requested": program.mode.as_str(),
        "mode_used": used,
        "fallback_to_seq": program.fallback,
        "parallel_mutations_enabled": program.parallel_mutations,
        "waves": program.waves.len(),
        "steps": program.calls.len(),
        "wave_timeline": timeline,
    })
}
