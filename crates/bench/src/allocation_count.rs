//! Global allocator that counts, while a measurement asks for it. Otherwise its cost is one load per
//! allocation.
#![expect(unsafe_code, reason = "an allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

/// Wraps the allocator of the product.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountingAllocator<A>(pub(crate) A);

/// Allocations of a piece of work, on all threads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AllocationCount {
    /// Number of allocations.
    pub(crate) allocations: u64,
    /// Bytes that were allocated and not released since.
    pub(crate) live_bytes: i64,
}

/// Counts from its creation on. One at a time.
#[derive(Debug)]
pub(crate) struct AllocationCounter {
    before: AllocationCount,
}

impl AllocationCounter {
    /// Starts to count the allocations of all threads.
    pub(crate) fn start() -> Self {
        IS_COUNTING.store(true, Ordering::SeqCst);
        Self { before: AllocationCount::read() }
    }

    /// Returns what was counted so far.
    pub(crate) fn count(&self) -> AllocationCount {
        let now = AllocationCount::read();
        AllocationCount {
            allocations: now.allocations - self.before.allocations,
            live_bytes: now.live_bytes - self.before.live_bytes,
        }
    }
}

impl AllocationCount {
    fn read() -> Self {
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        Self { allocations, live_bytes: LIVE_BYTES.load(Ordering::Relaxed) }
    }
}

impl Drop for AllocationCounter {
    fn drop(&mut self) {
        IS_COUNTING.store(false, Ordering::SeqCst);
    }
}

fn note(allocations: u64, bytes: usize, sign: i64) {
    if IS_COUNTING.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
        let bytes = i64::try_from(bytes).unwrap_or_default();
        LIVE_BYTES.fetch_add(sign * bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is forwarded unchanged, and returns the wrapped allocator's result.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size(), 1);
        // SAFETY: forwarded as it came.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(0, layout.size(), -1);
        // SAFETY: forwarded as it came.
        unsafe { self.0.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size(), 1);
        // SAFETY: forwarded as it came.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(1, new_size, 1);
        note(0, layout.size(), -1);
        // SAFETY: forwarded as it came.
        unsafe { self.0.realloc(place, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::AllocationCounter;

    #[test]
    fn it_counts_what_is_allocated_and_what_stays() {
        let counter = AllocationCounter::start();
        let before = counter.count();
        let kept = std::hint::black_box(vec![0_u8; 100_000]);
        drop(std::hint::black_box(vec![1_u8; 50_000]));
        let after = counter.count();
        // Other threads of the test runner may allocate a little.
        assert!(after.allocations - before.allocations >= 2);
        let live = after.live_bytes - before.live_bytes;
        assert!((100_000..140_000).contains(&live), "{live}");
        drop((kept, counter));
        let counter = AllocationCounter::start();
        assert!(counter.count().allocations < 10);
    }
}
