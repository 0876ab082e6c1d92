use serde_json::json;

use crate::program_state::ProgramState;
use crate::program_view::full_view;

#[test]
fn a_program_has_the_research_registry_fields() {
    let id = "01a204dd-6638-777c-9479-183fa4e4fcaf";
    let call = "01a204dd-66ae-7298-b9ac-a7de07aff763";
    let program: ProgramState = serde_json::from_value(json!({
        "id": id, "narrowed": { "read_only": false, "no_web": false, "task_type": null },
        "caller": { "org": "default", "subject": "ann", "key": "k", "level": "user", "agent": false },
        "door": "rest", "created": 0, "state": "succeeded", "code": "…", "inputs": {}, "mode": "dep",
        "used": "dep", "fallback": false, "parallel_mutations": false, "most_calls": 9, "printed": "", "observation": null,
        "calls": [{ "index": 0, "tool": "look", "call": call, "success": true, "elapsed_ms": 3 }],
        "waves": [{ "tools": ["look"], "elapsed_ms": 3, "parallel_mutations": false }],
        "at": null, "result": 7, "error": null, "ended": 9, "elapsed_ms": 4,
    }))
    .unwrap();
    let shown = full_view(&program);
    assert_eq!(
        shown["tool_chains"],
        json!([{
            "chain_id": "183fa4e4fcaf", "caller_type": "chain", "tools": ["look"], "elapsed_ms": 4,
            "success": true, "mode_requested": "dep", "mode_used": "dep", "fallback_to_seq": false,
            "parallel_mutations_enabled": false, "waves": 1, "steps": 1,
            "wave_timeline": [{
                "wave_index": 0, "tools": ["look"], "mode_used": "dep", "elapsed_ms": 3,
                "fallback_to_seq": false, "parallel_mutations_enabled": false,
            }],
        }])
    );
    assert_eq!((&shown["tools_used"], &shown["tools_called"]), (&json!(1), &json!(["look"])));
    assert_eq!(
        shown["tool_timings"],
        json!([{ "tool_name": "look", "elapsed_ms": 3, "success": true }])
    );
    assert_eq!((&shown["tools_success"], &shown["status"]), (&json!(true), &json!("succeeded")));
}
