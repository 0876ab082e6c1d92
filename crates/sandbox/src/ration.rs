//! An allocator that can be told to count, for a worker whose memory has a bound.
//!
//! Until it is told, which happens in workers only, it is the allocator that it wraps and one look at a
//! pointer that is null.
#![expect(unsafe_code, reason = "an allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// How a worker ends that took more memory than it may.
pub const TOO_MUCH: i32 = 65;
/// What the counter begins with: memory that was taken before is given back later, and must not take it
/// below nothing.
const BEGIN: usize = 1 << 40;

/// Where what is taken is counted; null where nothing is.
static COUNTER: AtomicPtr<AtomicUsize> = AtomicPtr::new(std::ptr::null_mut());
/// Past this the process ends.
static MOST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Wraps an allocator, as the program's global one.
#[derive(Debug, Clone, Copy)]
pub struct Rationed<A>(pub A);

/// From now on what is taken is counted in `counter`, from the number that is answered; a process that
/// takes `most` bytes more than then ends with [`TOO_MUCH`].
///
/// # Errors
/// Where the program's allocator is not a [`Rationed`].
pub fn ration(counter: &'static AtomicUsize, most: usize) -> Result<usize, &'static str> {
    counter.store(BEGIN, Ordering::Relaxed);
    MOST.store(BEGIN.saturating_add(most), Ordering::Relaxed);
    COUNTER.store(std::ptr::from_ref(counter).cast_mut(), Ordering::Release);
    let sample = std::hint::black_box(Box::new([0_u8; 64]));
    let counted = counter.load(Ordering::Relaxed) != BEGIN;
    drop(sample);
    if counted { Ok(BEGIN) } else { Err("the program's allocator does not count") }
}

fn counter() -> Option<&'static AtomicUsize> {
    // SAFETY: it is null, or was made from a reference that lives as long as the program.
    unsafe { COUNTER.load(Ordering::Relaxed).as_ref() }
}

#[inline]
fn take(size: usize) {
    let Some(counter) = counter() else { return };
    let taken = counter.fetch_add(size, Ordering::Relaxed).saturating_add(size);
    if taken > MOST.load(Ordering::Relaxed) {
        super::sys::leave(TOO_MUCH);
    }
}

#[inline]
fn give(size: usize) {
    if let Some(counter) = counter() {
        counter.fetch_sub(size, Ordering::Relaxed);
    }
}

// SAFETY: every call is forwarded as it came, and answered with what the wrapped allocator answers.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Rationed<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: forwarded as it came.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: forwarded as it came.
        unsafe { self.0.dealloc(place, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: forwarded as it came.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match size.checked_sub(layout.size()) {
            Some(more) => take(more),
            None => give(layout.size() - size),
        }
        // SAFETY: forwarded as it came.
        unsafe { self.0.realloc(place, layout, size) }
    }
}
