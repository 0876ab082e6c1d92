//! What takes long because it is large, done where no other call waits for it.

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
