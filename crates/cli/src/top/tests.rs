use ratatui_crossterm::crossterm::event::KeyCode;
use serde_json::{Value, json};

use super::screen::{render_text, shows_all_arguments};
use super::server_view::{ServerView, ViewPart};
use super::top_state::{TopAction, TopState};

fn approval(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"id": id, "tool": tool, "caller": {"subject": "ann"}, "reason_text": "it is dangerous",
        "arguments": arguments, "arguments_sha256": format!("sha256:{arguments}")})
}

fn view(approvals: Vec<Value>) -> ServerView {
    ServerView {
        attention: ViewPart::Entries(vec![
            json!({"urgency": "urgent", "message": "the source `crm` is unavailable\u{1b}[2J"}),
        ]),
        minutes: ViewPart::Entries(vec![
            json!({"calls": 12, "failed": 1, "refused": 2, "mean_ms": 7}),
        ]),
        approvals: ViewPart::Entries(approvals),
        sources: ViewPart::Entries(vec![
            json!({"name": "crm", "state": "stale", "problems": [{"message": "does not respond"}]}),
        ]),
        records: ViewPart::Error { error: "the key lacks the right `records:read`".to_owned() },
    }
}

fn two() -> Vec<Value> {
    vec![
        approval("1", "run_shell", &json!({"command": "ls"})),
        approval("2", "write_file", &json!({"path": "/tmp/a\u{202e}b"})),
    ]
}

#[test]
fn a_screen_has_every_part_and_tells_what_is_missing() {
    let mut state = TopState::new(view(two()));
    state.handle_key(KeyCode::Char('j'));
    let text = render_text(&state);
    for line in [
        "last minute: 12 calls, 1 failed, 2 refused, mean 7 ms",
        "urgent: the source `crm` is unavailable\u{fffd}[2J",
        "Approvals (2)",
        "  run_shell  ann  it is dangerous",
        "> write_file  ann  it is dangerous",
        r#"{"path":"/tmp/a\u{202e}b"}"#,
        "crm: stale  does not respond",
        "the key lacks the right `records:read`",
        "?: keys   q: quit",
    ] {
        assert!(text.lines().any(|it| it == line), "{line:?} in\n{text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn a_decision_needs_two_keys_and_covers_what_was_shown() {
    let mut state = TopState::new(view(two()));
    assert_eq!(state.handle_key(KeyCode::Char('y')), TopAction::Redraw, "a second key alone");
    for (first, is_approval) in [('a', true), ('d', false)] {
        assert_eq!(state.handle_key(KeyCode::Char(first)), TopAction::Redraw);
        assert!(render_text(&state).contains("run_shell? y: yes"), "{}", render_text(&state));
        let TopAction::Decide(decision) = state.handle_key(KeyCode::Char('y')) else {
            panic!("nothing was decided")
        };
        assert_eq!((decision.id.as_str(), decision.is_approval), ("1", is_approval));
        assert_eq!(decision.arguments_sha256, r#"sha256:{"command":"ls"}"#);
    }
    state.handle_key(KeyCode::Char('a'));
    assert_eq!(state.handle_key(KeyCode::Char('n')), TopAction::Redraw, "any other key is a no");
    assert_eq!(state.handle_key(KeyCode::Char('y')), TopAction::Redraw);
    // The arguments change between both keys.
    state.handle_key(KeyCode::Char('a'));
    state.replace_view(view(vec![approval("1", "run_shell", &json!({"command": "rm"}))]));
    assert_eq!(state.handle_key(KeyCode::Char('y')), TopAction::Redraw);
    assert_eq!(state.message(), "the call is no longer pending with these arguments");
}

#[test]
fn the_selection_stays_with_its_call() {
    let mut state = TopState::new(view(two()));
    let selected = |state: &TopState| state.selected_approval().map(|it| it["id"].clone());
    state.handle_key(KeyCode::Down);
    state.handle_key(KeyCode::Down);
    assert_eq!(selected(&state), Some(json!("2")));
    let mut three = two();
    three.insert(0, approval("0", "new", &json!({})));
    state.replace_view(view(three));
    assert_eq!(selected(&state), Some(json!("2")));
    state.replace_view(view(Vec::new()));
    assert_eq!(selected(&state), None);
    assert_eq!(state.handle_key(KeyCode::Char('a')), TopAction::Redraw);
    assert!(render_text(&state).contains("no call waits"));
    assert_eq!(state.handle_key(KeyCode::Char('q')), TopAction::Quit);
}

#[test]
fn arguments_that_do_not_fit_are_not_decided_about() {
    let short = approval("1", "t", &json!({"a": "b"}));
    let long = approval("1", "t", &json!({"a": "b".repeat(600)}));
    assert!(shows_all_arguments(&short, 80));
    assert!(!shows_all_arguments(&long, 80));
}
