//! Parallel map over a slice that keeps the order.

use std::num::NonZero;
use std::thread;

/// Minimum items per thread: a thread costs about as much as this many definitions.
const MIN_PER_THREAD: usize = 200;
/// Maximum threads, because other sources are read at the same time.
const MAX_THREADS: usize = 8;

/// Maps the items with `map_item` in order, in parallel if there are enough.
pub(super) fn map_parallel<T: Sync, R: Send>(
    items: &[T],
    map_item: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    map_chunks(items, threads.min(MAX_THREADS).min(items.len() / MIN_PER_THREAD), &map_item)
}

fn map_chunks<T: Sync, R: Send>(
    all: &[T],
    threads: usize,
    map_item: &(impl Fn(&T) -> R + Sync),
) -> Vec<R> {
    let map_chunk = |part: &[T]| part.iter().map(map_item).collect::<Vec<_>>();
    let mut parts = all.chunks(all.len().div_ceil(threads.max(1)).max(1));
    let first = parts.next().unwrap_or_default();
    thread::scope(|scope| {
        let spawn = |items| {
            // If no thread can be started, the chunk is processed here.
            let thread = thread::Builder::new().spawn_scoped(scope, move || map_chunk(items));
            (items, thread)
        };
        let others: Vec<_> = parts.map(spawn).collect();
        let mut results = map_chunk(first);
        for (items, thread) in others {
            let result =
                thread.map_or_else(|_| Ok(map_chunk(items)), thread::ScopedJoinHandle::join);
            results.extend(result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    })
}

#[cfg(test)]
mod tests {
    use super::map_chunks;

    #[test]
    fn the_order_stays_however_many_threads_there_are() {
        for length in [0, 1, 2, 7, 1_000] {
            let all: Vec<usize> = (0..length).collect();
            let expected: Vec<_> = all.iter().map(|item| item * 2).collect();
            for threads in [0, 1, 2, 3, 8, 2_000] {
                assert_eq!(
                    map_chunks(&all, threads, &|item| item * 2),
                    expected,
                    "{length} {threads}"
                );
            }
        }
    }
}
