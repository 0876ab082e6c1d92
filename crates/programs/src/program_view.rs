//! JSON view of a program for its caller, with the research registry's fields and its pending
//! calls.

use serde_json::{Value, json};

use crate::program_head::ProgramHead;
use crate::program_state::{ProgramState, ProgramStatus};

/// Returns the complete view of a program.
pub(crate) fn full_view(program: &ProgramState) -> Value {
    let mut all = summarize_head(&ProgramHead::from_program(program, 0));
    let more = json!({
        "result": program.result,
        "error": program.error,
        "printed": program.output,
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
        "tools_success": all_succeeded(program),
        "tool_chains": [tool_chain(program)],
    });
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}

/// Reduces a view to the fields that a model needs; the program's own view has the others.
pub(crate) fn model_view(mut view: Value) -> Value {
    let Some(all) = view.as_object_mut() else { return view };
    let needed = |key: &str, value: &Value| match key {
        "program" | "status" | "result" | "tools_called" => true,
        "error" | "printed" | "pending" | "observation" => {
            !matches!(value, Value::Null) && value != &json!("") && value != &json!([])
        }
        _ => false,
    };
    all.retain(|key, value| needed(key, value));
    // If there is a result, the observation would repeat it.
    if all.get("result").is_some_and(|it| !it.is_null()) {
        all.remove("observation");
    }
    view
}

/// Reduces a view to one list entry.
pub(crate) fn summarize_view(view: &Value) -> Value {
    let keys = ["program", "status", "created", "pending"];
    keys.into_iter().filter_map(|key| Some((key.to_owned(), view.get(key)?.clone()))).collect()
}

/// Returns one list entry.
pub(crate) fn summarize_head(head: &ProgramHead) -> Value {
    let pending = head.pending_calls.iter();
    let pending: Vec<Value> = pending
        .map(|it| json!({ "call": it.call, "approval": it.call, "tool": it.tool }))
        .collect();
    json!({
        "program": head.id,
        "status": status_word(head.state),
        "created": head.created_at.to_string(),
        "pending": pending,
    })
}

pub(crate) fn status_word(state: ProgramStatus) -> &'static str {
    match state {
        ProgramStatus::Running => "running",
        ProgramStatus::PendingApproval => "pending_approval",
        ProgramStatus::Paused => "paused",
        ProgramStatus::Succeeded => "succeeded",
        ProgramStatus::Failed => "failed",
        ProgramStatus::Cancelled => "cancelled",
        ProgramStatus::Expired => "expired",
        ProgramStatus::Unknown => "unknown",
    }
}

/// Returns whether all calls succeeded. A program that ended before its first call, such as a
/// blocked one, did not succeed.
fn all_succeeded(program: &ProgramState) -> bool {
    let ended = matches!(
        program.state,
        ProgramStatus::Failed
            | ProgramStatus::Cancelled
            | ProgramStatus::Expired
            | ProgramStatus::Unknown
    );
    let nothing = ended && program.calls.is_empty();
    !nothing && program.calls.iter().all(|it| it.success == Some(true))
}

/// One entry of the research registry's `tool_chains`.
fn tool_chain(program: &ProgramState) -> Value {
    let used = program.effective_mode.as_str();
    let tools: Vec<&str> = program.calls.iter().map(|it| it.tool.as_str()).collect();
    let timeline: Vec<Value> = program
        .waves
        .iter()
        .enumerate()
        .map(|(index, wave)| {
            json!({
                "wave_index": index, "tools": wave.tools, "mode_used": used,
                "elapsed_ms": wave.elapsed_ms, "fallback_to_seq": program.fell_back_to_sequential,
                "parallel_mutations_enabled": wave.parallel_mutations,
            })
        })
        .collect();
    json!({
        "chain_id": program.id.chain_id(),
        "caller_type": "chain",
        "tools": tools,
        "elapsed_ms": program.elapsed_ms,
        "success": all_succeeded(program),
        "mode_requested": program.mode.as_str(),
        "mode_used": used,
        "fallback_to_seq": program.fell_back_to_sequential,
        "parallel_mutations_enabled": program.parallel_mutations,
        "waves": program.waves.len(),
        "steps": program.calls.len(),
        "wave_timeline": timeline,
    })
}
