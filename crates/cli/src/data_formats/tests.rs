//! Comparison of found and supported versions. Whole data directories are compared in `toolkeep`.

use ledger::{FormatCounts, RecordFormats};

use super::{
    DataFormat, FormatState, RECORD, RECORD_FILTERS, ROW_MACS, STORE, compare_record,
    supported_formats,
};

fn counts(versions: &[u32]) -> FormatCounts {
    versions.iter().map(|version| (*version, 1)).collect()
}

fn state(format: &DataFormat, versions: &[u32]) -> (FormatState, bool, bool) {
    let finding = format.compare(&counts(versions), false);
    (finding.state, finding.first_start.is_some(), finding.is_reversible)
}

#[test]
fn each_version_has_its_consequence() {
    let written = STORE.support.written;
    assert_eq!(state(&STORE, &[]), (FormatState::Absent, false, true));
    assert_eq!(state(&STORE, &[written]), (FormatState::Current, false, true));
    assert_eq!(state(&STORE, &[written - 1]), (FormatState::Older, true, false));
    assert_eq!(state(&STORE, &[written + 1]), (FormatState::Unreadable, false, false));
    assert_eq!(state(&STORE, &[0]), (FormatState::Unreadable, false, false));
    // The newest of several files decides.
    let written = RECORD.support.written;
    assert_eq!(state(&RECORD, &[written - 1]), (FormatState::Older, true, false));
    assert_eq!(state(&RECORD, &[written - 1, written]), (FormatState::Current, false, true));
    assert_eq!(state(&RECORD, &[written, written + 1]), (FormatState::Unreadable, false, false));
}

#[test]
fn what_is_derived_is_built_again_by_every_version() {
    for other in [1, 9] {
        assert_eq!(state(&RECORD_FILTERS, &[other]), (FormatState::Older, true, true));
    }
}

#[test]
fn missing_macs_matter_where_there_is_a_store() {
    let finding = ROW_MACS.compare(&FormatCounts::new(), true);
    assert!(finding.first_start.is_some() && !finding.is_reversible);
    let line = finding.describe_one_way_change().unwrap();
    assert!(line.contains("store.macs") && line.contains("found format none"), "{line}");
    // Control: a new directory.
    assert_eq!(state(&ROW_MACS, &[]), (FormatState::Absent, false, true));
}

#[test]
fn a_tail_is_moved_and_damage_is_named() {
    let formats = RecordFormats {
        segments: counts(&[RECORD.support.written]),
        legacy_tails: 1,
        damaged_segments: 2,
        ..RecordFormats::default()
    };
    let [record, _] = compare_record(&formats);
    assert_eq!((record.state, record.is_reversible), (FormatState::Older, true));
    assert!(record.first_start.unwrap().contains("tail"));
    assert!(record.problem.unwrap().starts_with("2 segments without a valid header"));
    let [record, _] = compare_record(&RecordFormats { legacy_tails: 0, ..formats });
    assert_eq!((record.state, record.first_start), (FormatState::Current, None));
}

#[test]
fn every_format_of_the_table_is_in_the_description_of_the_program() {
    let named: Vec<_> = supported_formats().iter().map(ToString::to_string).collect();
    assert_eq!(named, ["store 1 to 2", "row MACs 1", "record 1 to 2", "record filters 4"]);
}
