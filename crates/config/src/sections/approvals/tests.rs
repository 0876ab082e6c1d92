use std::time::Duration;

use crate::tests::{error_lines, load_yaml, valid_config};

#[test]
fn what_is_written_is_used_and_the_secret_does_not_show() {
    let config = valid_config(
        "version: 1\napprovals:\n  expires: 1h\n  pending: 3\n  client_confirm: [abc]\n  page: https://c.example/a/{id}\n  webhook: { url: 'https://h.example/x', secret: 0123456789abcdef }\n",
    );
    let approvals = &config.approvals;
    assert_eq!((approvals.expires_after, approvals.max_pending), (Duration::from_hours(1), 3));
    assert!(approvals.client_confirm.contains("abc"));
    assert_eq!(approvals.max_requests_per_minute, 60);
    assert_eq!(approvals.webhook.as_ref().unwrap().url.as_str(), "https://h.example/x");
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
}

#[test]
fn what_cannot_be_used_is_told() {
    for (yaml, error) in [
        ("{ expires: 2h }", "invalid duration `2h`"),
        ("{ pending: 0 }", "`0` is out of range = use a number from 1 to 10000"),
        ("{ page: /x }", "invalid page URL `/x`"),
        ("{ webhook: { url: 'https://h' } }", "the key `secret` is missing"),
        ("{ webhook: { url: h, secret: 0123456789abcdef } }", "invalid webhook URL"),
        ("{ webhook: { url: 'https://h', secret: hunter2 } }", "at least 16 bytes"),
    ] {
        let text = format!("version: 1\napprovals: {yaml}\n");
        let messages = error_lines(&load_yaml(&text, &[])).join("\n");
        assert!(messages.contains(error) && !messages.contains("hunter2"), "{yaml}: {messages}");
    }
}
