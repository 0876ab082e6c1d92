//! What woke a connection's task: its line, or one of its calls. Who is not meant is not asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};

use futures_util::task::AtomicWaker;

/// There is something to read or to write.
pub(super) const LINE: u8 = 1;
/// A call goes on.
pub(super) const CALLS: u8 = 2;
/// The task is at work and looks again by itself before it rests.
const BUSY: u8 = 4;

/// What has rung since somebody looked.
pub(super) struct Bell {
    rung: AtomicU8,
    task: AtomicWaker,
}

/// Rings for one of them.
struct Cord<const WHICH: u8>(Arc<Bell>);

impl<const WHICH: u8> Wake for Cord<WHICH> {
    fn wake(self: Arc<Self>) {
        self.0.ring(WHICH);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.ring(WHICH);
    }
}

impl Bell {
    /// One that has rung for both, with what rings for the line and for the calls.
    pub(super) fn hung() -> (Arc<Self>, Waker, Waker) {
        let bell =
            Arc::new(Self { rung: AtomicU8::new(LINE | CALLS), task: AtomicWaker::default() });
        let line = Arc::new(Cord::<LINE>(Arc::clone(&bell)));
        let calls = Arc::new(Cord::<CALLS>(Arc::clone(&bell)));
        (bell, line.into(), calls.into())
    }

    fn ring(&self, which: u8) {
        // Whoever rang before has woken the task already.
        if self.rung.fetch_or(which, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }

    /// The task begins to work; `waker` is its own.
    pub(super) fn begin(&self, waker: &Waker) {
        self.task.register(waker);
        self.rung.fetch_or(BUSY, Ordering::AcqRel);
    }

    /// What has rung; nothing where nothing has, and from then on the task is woken.
    pub(super) fn heard(&self) -> Option<u8> {
        let rest = self.rung.compare_exchange(BUSY, 0, Ordering::AcqRel, Ordering::Acquire);
        rest.err().map(|_| self.rung.swap(BUSY, Ordering::AcqRel))
    }

    /// The task stops although there may be more to do: whoever calls this sees that it is woken.
    pub(super) fn pause(&self) {
        self.rung.fetch_and(!BUSY, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::{BUSY, Bell, CALLS, LINE};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn it_wakes_a_task_that_rests_and_once_and_tells_one_that_works() {
        let count = Arc::new(Count::default());
        let (bell, line, calls) = Bell::hung();
        let task = Waker::from(Arc::clone(&count));
        bell.begin(&task);
        assert_eq!(bell.heard(), Some(BUSY | LINE | CALLS));
        calls.wake_by_ref();
        assert_eq!(bell.heard(), Some(BUSY | CALLS));
        assert_eq!(bell.heard(), None);
        assert_eq!(count.0.load(Ordering::Relaxed), 0, "it was at work");
        line.wake_by_ref();
        calls.wake_by_ref();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        bell.begin(&task);
        assert_eq!(bell.heard(), Some(BUSY | LINE | CALLS));
        bell.pause();
        line.wake_by_ref();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }
}
