//! A global allocator that counts allocated bytes and ends the process above a limit.
//!
//! Counting is off by default and is enabled in workers only. When it is off, the cost is one load
//! and a null check per allocation.
#![expect(unsafe_code, reason = "an allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Exit code of a worker that exceeded its memory limit.
pub const EXIT_MEMORY_LIMIT: i32 = 65;
/// Start value of the counter, so that releasing earlier allocations cannot make it negative.
const COUNTER_BASE: usize = 1 << 40;

/// The active counter; null while counting is off.
static COUNTER: AtomicPtr<AtomicUsize> = AtomicPtr::new(std::ptr::null_mut());
/// Counter value above which the process ends.
static MEMORY_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Wraps the global allocator with a memory limit.
#[derive(Debug, Clone, Copy)]
pub struct LimitedAllocator<A>(pub A);

/// Starts counting allocations in `counter` and returns its start value. A process that allocates
/// over `max_bytes` further bytes exits with [`EXIT_MEMORY_LIMIT`].
///
/// # Errors
/// If the program's allocator is not a [`LimitedAllocator`].
pub fn start_counting(
    counter: &'static AtomicUsize,
    max_bytes: usize,
) -> Result<usize, &'static str> {
    counter.store(COUNTER_BASE, Ordering::Relaxed);
    MEMORY_LIMIT.store(COUNTER_BASE.saturating_add(max_bytes), Ordering::Relaxed);
    COUNTER.store(std::ptr::from_ref(counter).cast_mut(), Ordering::Release);
    let sample = std::hint::black_box(Box::new([0_u8; 64]));
    let counted = counter.load(Ordering::Relaxed) != COUNTER_BASE;
    drop(sample);
    if counted {
        Ok(COUNTER_BASE)
    } else {
        Err("the program's allocator does not count memory \
        memory")
    }
}

fn active_counter() -> Option<&'static AtomicUsize> {
    // SAFETY: it is null, or was made from a reference that lives as long as the program.
    unsafe { COUNTER.load(Ordering::Relaxed).as_ref() }
}

#[inline]
fn charge_bytes(size: usize) {
    let Some(counter) = active_counter() else { return };
    let taken = counter.fetch_add(size, Ordering::Relaxed).saturating_add(size);
    if taken > MEMORY_LIMIT.load(Ordering::Relaxed) {
        super::syscalls::exit_now(EXIT_MEMORY_LIMIT);
    }
}

#[inline]
fn release_bytes(size: usize) {
    if let Some(counter) = active_counter() {
        counter.fetch_sub(size, Ordering::Relaxed);
    }
}

// SAFETY: every call is forwarded unchanged, and returns the wrapped allocator's result.
unsafe impl<A: GlobalAlloc> GlobalAlloc for LimitedAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge_bytes(layout.size());
        // SAFETY: forwarded as it came.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        release_bytes(layout.size());
        // SAFETY: forwarded as it came.
        unsafe { self.0.dealloc(place, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge_bytes(layout.size());
        // SAFETY: forwarded as it came.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match size.checked_sub(layout.size()) {
            Some(more) => charge_bytes(more),
            None => release_bytes(layout.size() - size),
        }
        // SAFETY: forwarded as it came.
        unsafe { self.0.realloc(place, layout, size) }
    }
}
