//! Parallel map over a slice that keeps the order.

use std::num::NonZero;
use std::thread;

/// Minimum items per thread: a thread costs about as much as this many definitions.
const MANY: usize = 200;
/// Maximum threads, because other sources are read at the same time.
const THREADS: usize = 8;

/// Maps the items with `work` in order, in parallel if there are enough.
pub(super) fn each<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    in_parts(all, threads.min(THREADS).min(all.len() / MANY), &work)
}

fn in_parts<T: Sync, R: Send>(
    all: &[T],
    threads: usize,
    work: &(impl Fn(&T) -> R + Sync),
) -> Vec<R> {
    let part = |part: &[T]| part.iter().map(work).collect::<Vec<_>>();
    let mut parts = all.chunks(all.len().div_ceil(threads.max(1)).max(1));
    let first = parts.next().unwrap_or_default();
    thread::scope(|scope| {
        let spawn = |items| {
            // If no thread can be started, the chunk is processed here.
            let thread = thread::Builder::new().spawn_scoped(scope, move || part(items));
            (items, thread)
        };
        let others: Vec<_> = parts.map(spawn).collect();
        let mut done = part(first);
        for (items, thread) in others {
            let result = thread.map_or_else(|_| Ok(part(items)), thread::ScopedJoinHandle::join);
            done.extend(result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::in_parts;

    #[test]
    fn the_order_stays_however_many_threads_there_are() {
        for length in [0, 1, 2, 7, 1_000] {
            let all: Vec<usize> = (0..length).collect();
            let expected: Vec<_> = all.iter().map(|item| item * 2).collect();
            for threads in [0, 1, 2, 3, 8, 2_000] {
                assert_eq!(
                    in_parts(&all, threads, &|item| item * 2),
                    expected,
                    "{length} {threads}"
                );
            }
        }
    }
}
