use serde_json::{Value, json};

use crate::tests::played::Played;

fn approval() -> Value {
    json!({
        "id": "c1", "state": "pending", "tool": "rm", "source": "files", "reason": "dangerous",
        "why": "the tool is dangerous and needs an approval", "door": "mcp",
        "asked_by": { "subject": "ag\u{1b}ent", "key": "k1", "level": "user", "agent": true },
        "arguments": { "path": "a\\u{200b}b" }, "arguments_sha256": "sha256:00", "edits": 0,
        "side_effects": ["unknown"], "created": "T1", "expires": "T2",
    })
}

#[test]
fn what_waits_is_listed_and_shown() {
    let played = Played::default()
        .answers("GET /v1/approvals?limit=50", &json!({ "approvals": [approval()] }))
        .answers("GET /v1/approvals?state=all&limit=5", &json!({ "approvals": [] }))
        .answers("GET /v1/approvals/c1", &approval());
    let expected = "\
ID  STATE    TOOL  WHO     WHY        EXPIRES  ARGUMENTS
c1  pending  rm    ag\u{fffd}ent  dangerous  T2       {\"path\":\"a\\\\u{200b}b\"}
";
    assert_eq!(played.run(&["approval", "list"]).out, expected);
    assert_eq!(
        played.run(&["approval", "list", "--all", "--limit", "5"]).out,
        "no pending calls\n"
    );
    let shown = played.run(&["approval", "show", "c1"]).out;
    for line in [
        "tool      rm (source files)",
        "asked by  ag\u{fffd}ent (an agent, key k1, user)",
        "\\u{200b}",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn decisions_are_sent_as_they_were_typed() {
    let with = |state: &str| {
        let mut approval = approval();
        approval["state"] = json!(state);
        approval
    };
    let played = Played::default()
        .answers("POST /v1/approvals/c1/approve", &with("approved"))
        .answers("POST /v1/approvals/c1/deny", &with("denied"))
        .answers("POST /v1/approvals/c1/edit", &with("pending"));
    for (words, sent, told) in [
        (&["approve", "c1"][..], "{}", "approved: rm"),
        (&["approve", "c1", "--sha256", "h"], r#"{"arguments_sha256":"h"}"#, "approved: rm"),
        (&["deny", "c1", "--reason", "no"], r#"{"reason":"no"}"#, "denied: rm"),
        (
            &["edit", "c1", "--args", "{\"n\": 1.0}"],
            r#"{"arguments":{"n": 1.0},"approve":false}"#,
            "changed: rm now waits for approval with sha256:00",
        ),
    ] {
        let ran = played.run(&[&["approval"], words].concat());
        assert_eq!((ran.exit, played.body().as_str()), (0, sent), "{}", ran.err);
        assert!(ran.out.starts_with(told), "{}", ran.out);
    }
    let bad = played.run(&["approval", "edit", "c1", "--args", "{"]);
    assert_eq!(bad.exit, 2);
}

#[test]
fn a_held_call_says_what_to_do_and_can_be_waited_for() {
    let held = json!({ "call_id": "c1", "status": "waiting", "approval":
        { "id": "c1", "reason": "it is dangerous", "expires": "T", "approved": false } });
    let done =
        json!({ "call_id": "c1", "status": "succeeded", "result": "gone", "is_error": false });
    let played = Played::default()
        .answers("POST /v1/calls", &held)
        .answers("POST /v1/calls?wait=20s", &held)
        .answers("POST /v1/calls/c1/resume?wait=20s", &done);
    let ran = played.run(&["tool", "call", "rm"]);
    let expected = "\
pending: call c1 needs approval until T: it is dangerous
  toolkeep approval approve c1
  toolkeep record show c1
";
    assert_eq!((ran.exit, ran.out.as_str()), (3, expected), "{}", ran.err);
    let ran = played.run(&["tool", "call", "rm", "--wait"]);
    assert_eq!((ran.exit, ran.out.as_str()), (0, "gone\n"), "{}", ran.err);
}
