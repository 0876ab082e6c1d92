//! What takes long because it is large, done where no other call waits for it.

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

/// Bytes that are gone through within a millisecond or so.
const QUICK: usize = 1 << 20;

/// Runs `work` on so many bytes: where they are many, the thread's other tasks go on elsewhere.
pub fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let threads = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    if bytes > QUICK && Handle::try_current().is_ok_and(threads) {
        return tokio::task::block_in_place(work);
    }
    work()
}

/// How long what is large is kept after its time: calls that still hold a part of it are over by then, so
/// that none of them is the one that has to clear it away.
const AFTER: Duration = Duration::from_secs(1);

/// Lets go of what is `large`, such as what was made of a whole catalog, where nobody waits for it: a
/// hundred thousand small pieces take tens of milliseconds to be given back.
pub fn away<T: Send + 'static>(large: bool, what: T) {
    let Some(runtime) = Handle::try_current().ok().filter(|_| large) else { return drop(what) };
    let aside = runtime.clone();
    drop(runtime.spawn(async move {
        tokio::time::sleep(AFTER).await;
        drop(aside.spawn_blocking(move || drop(what)));
    }));
}
