use std::time::Duration;

use crate::tests::{faults, good, reading};

#[test]
fn what_is_written_is_used_and_the_secret_does_not_show() {
    let config = good(
        "version: 1\napprovals:\n  expires: 1h\n  pending: 3\n  client_confirm: [abc]\n  page: https://c.example/a/{id}\n  webhook: { url: 'https://h.example/x', secret: 0123456789abcdef }\n",
    );
    let approvals = &config.approvals;
    assert_eq!((approvals.expires, approvals.pending), (Duration::from_hours(1), 3));
    assert!(approvals.client_confirm.contains("abc"));
    assert_eq!(approvals.per_minute, 60);
    assert_eq!(approvals.webhook.as_ref().unwrap().url.as_str(), "https://h.example/x");
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
}

#[test]
fn what_cannot_be_used_is_told() {
    for (yaml, fault) in [
        ("{ expires: 2h }", "`2h` is no such time"),
        ("{ pending: 0 }", "use a number from 1 to 10000"),
        ("{ page: /x }", "`/x` is no page"),
        ("{ webhook: { url: 'https://h' } }", "the key `secret` is missing"),
        ("{ webhook: { url: h, secret: 0123456789abcdef } }", "no address of a webhook"),
        ("{ webhook: { url: 'https://h', secret: hunter2 } }", "at least 16 bytes"),
    ] {
        let text = format!("version: 1\napprovals: {yaml}\n");
        let told = faults(&reading(&text, &[])).join("\n");
        assert!(told.contains(fault) && !told.contains("hunter2"), "{yaml}: {told}");
    }
}
