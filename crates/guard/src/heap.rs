//! mimalloc, by its shortest way.
//!
//! The crate `mimalloc` asks for an alignment with everything, also where every place that can be had is
//! aligned so. What is aligned is taken in another way: in 65 instructions for some 20, and a place of more
//! than a kilobyte is made larger than it was asked for. A call takes forty places.
#![expect(unsafe_code, reason = "an allocator has no safe form")]

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as sys;

/// What mimalloc aligns by itself: places of 16 bytes and more to 16, smaller ones to the power of two that
/// they have room for, as `malloc` has to (`MI_MAX_ALIGN_SIZE` of its `types.h`).
const OWN: usize = 16;

/// mimalloc, as the program's global allocator.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap;

/// Whether a place of `size` bytes is aligned to `align` without being asked.
#[inline]
const fn is_aligned(size: usize, align: usize) -> bool {
    align <= OWN && align <= size
}

// SAFETY: mimalloc's places are apart from one another, stay where they are until they are given back, and
// are as large and as aligned as asked for: `is_aligned` says when that need not be asked. Where it has
// none it gives null. It never unwinds.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        let place = if is_aligned(size, align) {
            // SAFETY: takes a number only.
            unsafe { sys::mi_malloc(size) }
        } else {
            // SAFETY: takes numbers only; the alignment is a power of two, as a layout's is.
            unsafe { sys::mi_malloc_aligned(size, align) }
        };
        place.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        let place = if is_aligned(size, align) {
            // SAFETY: takes a number only.
            unsafe { sys::mi_zalloc(size) }
        } else {
            // SAFETY: takes numbers only; the alignment is a power of two, as a layout's is.
            unsafe { sys::mi_zalloc_aligned(size, align) }
        };
        place.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, _layout: Layout) {
        // SAFETY: by the caller's promise it is a place of this allocator, in either way.
        unsafe { sys::mi_free(place.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let align = layout.align();
        let place = place.cast();
        let place = if is_aligned(size, align) {
            // SAFETY: by the caller's promise it is a place of this allocator, in either way.
            unsafe { sys::mi_realloc(place, size) }
        } else {
            // SAFETY: the same; the alignment is a power of two, as a layout's is.
            unsafe { sys::mi_realloc_aligned(place, size, align) }
        };
        place.cast()
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc as _, Layout};

    use super::Heap;

    /// Of every size and alignment: aligned, as large as asked for, and with what was in it before.
    #[test]
    fn places_are_aligned_and_keep_what_is_in_them() {
        let sizes = (1..300).chain([1_000, 1_024, 1_025, 1_500, 3_000, 4_096, 70_000, 3_000_000]);
        let mut kept = Vec::new();
        for size in sizes {
            for align in (0..=12).map(|power| 1 << power) {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the size is not 0, and only what was asked for is written.
                let place = unsafe { Heap.alloc(layout) };
                assert_eq!(place.align_offset(align), 0, "{layout:?}");
                // SAFETY: as above.
                unsafe { place.write_bytes(u8::try_from(size % 251).unwrap(), size) };
                // SAFETY: as above.
                let zeroed = unsafe { Heap.alloc_zeroed(layout) };
                assert_eq!(zeroed.align_offset(align), 0, "{layout:?}");
                // SAFETY: as above.
                assert!(
                    unsafe { std::slice::from_raw_parts(zeroed, size) }.iter().all(|b| *b == 0)
                );
                kept.push((place, zeroed, layout));
            }
        }
        for (place, zeroed, layout) in kept {
            let (size, more) = (layout.size(), layout.size() * 2 + 1);
            // SAFETY: it was made with this layout, and is not used any more.
            let place = unsafe { Heap.realloc(place, layout, more) };
            assert_eq!(place.align_offset(layout.align()), 0, "{layout:?} and more");
            let layout_of_more = Layout::from_size_align(more, layout.align()).unwrap();
            // SAFETY: so much was written.
            let read = unsafe { std::slice::from_raw_parts(place, size) };
            assert!(read.iter().all(|byte| usize::from(*byte) == size % 251), "{layout:?}");
            // SAFETY: each was made with the layout that stands here.
            unsafe {
                Heap.dealloc(place, layout_of_more);
                Heap.dealloc(zeroed, layout);
            }
        }
    }
}
