use option_types::PackageLimits;

use crate::tests::{faults, good, reading};

#[test]
fn limits_are_read_and_what_is_too_little_is_reported() {
    assert_eq!(good("version: 1\n").tool_packages, PackageLimits::default());
    let text = "version: 1\ntool_packages: { bytes: 20GiB, bytes_per_organisation: 1MiB }\n";
    let limits = PackageLimits { total: 20 << 30, per_organisation: 1 << 20 };
    assert_eq!(good(text).tool_packages, limits);
    let little = reading("version: 1\ntool_packages: { bytes: 1KiB }\n", &[]);
    let told = "2:25 `1KiB` is no such size = allow at least `1MiB`";
    assert_eq!(faults(&little), [told]);
}
