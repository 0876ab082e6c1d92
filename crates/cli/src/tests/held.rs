//! Output of the command line for a pending call.

use serde_json::json;

use super::played::Played;

/// `toolkeep approval approve ID` was all that was printed, and was then forbidden.
#[test]
fn an_own_call_that_is_held_is_printed_with_the_way_to_have_it_approved() {
    let held = |by_agent: bool| {
        let approval = json!({ "reason": "it writes", "expires": "E", "approved": false, "by_agent": by_agent });
        let played = Played::default()
            .answers("POST /v1/calls", &json!({ "call_id": "c1", "approval": approval }));
        let ran = played.run(&["tool", "call", "write_file", "--args", "{}"]);
        assert_eq!(ran.exit, 3, "{}", ran.err);
        ran.out
    };
    let own = held(false);
    assert!(own.contains("nobody can approve their own call"), "{own}");
    assert!(own.contains("toolkeep approval approve c1 --key KEY"), "{own}");
    assert!(own.contains("toolkeep tool call write_file … --agent"), "{own}");
    // The control: of an agent's call the one command is enough.
    let expected = "pending: call c1 needs approval until E: it writes\n  \
                    toolkeep approval approve c1\n  toolkeep record show c1\n";
    assert_eq!(held(true), expected);
}
