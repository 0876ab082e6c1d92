use option_types::PackageLimits;

use crate::tests::{error_lines, load_yaml, valid_config};

#[test]
fn limits_are_read_and_what_is_too_little_is_reported() {
    assert_eq!(valid_config("version: 1\n").tool_packages, PackageLimits::default());
    let text = "version: 1\ntool_packages: { bytes: 20GiB, bytes_per_organisation: 1MiB }\n";
    let limits = PackageLimits { max_total_bytes: 20 << 30, max_bytes_per_org: 1 << 20 };
    assert_eq!(valid_config(text).tool_packages, limits);
    let little = load_yaml("version: 1\ntool_packages: { bytes: 1KiB }\n", &[]);
    let messages = "2:25 invalid size `1KiB` = allow at least `1MiB`";
    assert_eq!(error_lines(&little), [messages]);
}
