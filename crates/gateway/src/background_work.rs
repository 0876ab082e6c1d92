//! Runs work on large inputs without blocking the other tasks of a runtime thread.

use std::cell::Cell;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// Number of bytes that all checks of a call process within about a millisecond.
const INLINE_BYTES: usize = 256 << 10;

/// Runs `work` on this many bytes; if there are many, the thread's other tasks move to another
/// thread.
pub fn run_blocking_if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    block_in_place_if(bytes > INLINE_BYTES, work)
}

/// Runs `work`. If it `is_large`, the thread's other tasks move to another thread meanwhile.
pub fn block_in_place_if<T>(is_large: bool, work: impl FnOnce() -> T) -> T {
    let threads = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    if is_large && Handle::try_current().is_ok_and(threads) {
        return tokio::task::block_in_place(|| time_blocking(work));
    }
    work()
}

thread_local! {
    /// Time of this thread in `block_in_place_if`, since it was taken.
    static BLOCKING_TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Work within work counts once.
fn time_blocking<T>(work: impl FnOnce() -> T) -> T {
    let (begin, before) = (Instant::now(), BLOCKING_TIME.get());
    let result = work();
    BLOCKING_TIME.set(before + begin.elapsed());
    result
}

/// Takes the time that this thread spent on work for which its other tasks moved to another thread.
pub fn take_blocking_time() -> Duration {
    BLOCKING_TIME.take()
}

/// Delay before large values are dropped: calls that share parts of them have ended by then, so
/// that none of them pays for the deallocation.
const DROP_DELAY: Duration = Duration::from_secs(1);

/// Drops a large value, such as data derived from a whole catalog, in the background: freeing a
/// hundred thousand small allocations takes tens of milliseconds.
pub fn drop_in_background<T: Send + 'static>(is_large: bool, value: T) {
    let Some(runtime) = Handle::try_current().ok().filter(|_| is_large) else { return drop(value) };
    let aside = runtime.clone();
    drop(runtime.spawn(async move {
        tokio::time::sleep(DROP_DELAY).await;
        drop(aside.spawn_blocking(move || drop(value)));
    }));
}
