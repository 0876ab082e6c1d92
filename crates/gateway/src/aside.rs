//! Work that would block a runtime thread because its input is large.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

/// Number of bytes that are processed within about a millisecond.
const QUICK: usize = 1 << 20;

/// Runs `work` on this many bytes; if there are many, the thread's other tasks move to another
/// thread.
pub fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    aside_if(bytes > QUICK, work)
}

/// Runs `work`, which takes long where it `is_large`: then the thread's other tasks go on elsewhere.
pub fn aside_if<T>(is_large: bool, work: impl FnOnce() -> T) -> T {
    let threads = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    if is_large && Handle::try_current().is_ok_and(threads) {
        return tokio::task::block_in_place(work);
    }
    work()
}

/// Delay before large values are dropped: calls that share parts of them have ended by then, so
/// that none of them pays for the deallocation.
const AFTER: Duration = Duration::from_secs(1);

/// Drops a large value, such as data derived from a whole catalog, in the background: freeing a
/// hundred thousand small allocations takes tens of milliseconds.
pub fn away<T: Send + 'static>(large: bool, what: T) {
    let Some(runtime) = Handle::try_current().ok().filter(|_| large) else { return drop(what) };
    let aside = runtime.clone();
    drop(runtime.spawn(async move {
        tokio::time::sleep(AFTER).await;
        drop(aside.spawn_blocking(move || drop(what)));
    }));
}
