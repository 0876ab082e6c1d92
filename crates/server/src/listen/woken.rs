//! An answer that is worked on only where it was woken itself.
//!
//! The task of a connection is woken for much that is none of its answer's business: each part of a body
//! that was handed over, a request that came. An answer waits in many places at once, and looking into all
//! of them costs thousands of instructions.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// A future that is polled once, and then whenever it was woken.
pub(super) struct Woken<F> {
    within: F,
    bell: Arc<Bell>,
    waker: Waker,
}

#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.task.wake();
        }
    }
}

impl<F> Woken<F> {
    pub(super) fn new(within: F) -> Self {
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), task: AtomicWaker::new() });
        Self { within, waker: Arc::clone(&bell).into(), bell }
    }
}

impl<F: Future + Unpin> Future for Woken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // First where to be woken, then the look whether it was: no ring between the two is lost.
        self.bell.task.register(cx.waker());
        if !self.bell.rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let Self { within, waker, .. } = &mut *self;
        Pin::new(within).poll(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use tokio::sync::oneshot;

    use super::Woken;

    #[test]
    fn it_is_not_looked_at_for_what_others_were_woken_for() {
        let looks = Cell::new(0);
        let (tell, told) = oneshot::channel();
        let mut told = pin!(told);
        let within = poll_fn(|cx| {
            looks.set(looks.get() + 1);
            told.as_mut().poll(cx)
        });
        let mut woken = pin!(Woken::new(within));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(woken.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(looks.get(), 1);
        tell.send(7).unwrap();
        assert_eq!(woken.as_mut().poll(&mut cx), Poll::Ready(Ok(7)));
    }

    /// Woken by other threads, at any moment.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_is_lost() {
        for _ in 0..2_000 {
            let (tell, told) = oneshot::channel();
            let telling = tokio::spawn(async move { tell.send(()).unwrap() });
            Woken::new(told).await.unwrap();
            telling.await.unwrap();
        }
    }
}
