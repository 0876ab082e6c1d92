//! Scans the segments of a record on several threads.

use std::io;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::legacy_tail::LegacyTail;
use crate::segment::WriterDir;
use crate::segment_scan::SegmentScan;

/// Maximum number of threads of a start, because it reads other things at the same time.
pub(super) const MAX_START_THREADS: usize = 4;
/// Number of segments from which a thread is worth its start.
const MIN_SEGMENTS_PER_THREAD: usize = 2;

/// Number of a segment, with its scan.
type NumberedScan = (u32, io::Result<SegmentScan>);

/// Scans the segments of these numbers, in their order, on at most so many threads.
pub(super) fn scan_segments(
    (writer_dir, max_threads): (&WriterDir, usize),
    numbers: &[u32],
    tail: Option<&LegacyTail>,
) -> Vec<NumberedScan> {
    let next = AtomicUsize::new(0);
    let scan_some = || {
        let mut scans = Vec::new();
        while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
            scans.push((*number, SegmentScan::scan_segment(writer_dir, *number, tail)));
        }
        scans
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(max_threads).min(numbers.len() / MIN_SEGMENTS_PER_THREAD);
    let mut scans = thread::scope(|scope| {
        // The others do the work of a thread that cannot be started.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, scan_some).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut scans = scan_some();
        for other in others {
            scans.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        scans
    });
    scans.sort_unstable_by_key(|(number, _)| *number);
    scans
}
