//! Random numbers, and work in blocks on all cores.
//!
//! Each block has a stream of its own that only the seed and the block's number fix, and blocks are put
//! together in their order: the same seed gives the same answer, however many threads there are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::work::Run;

/// xoshiro256++: fast, with no known fault that a simulation would see.
pub(crate) type Stream = Xoshiro256PlusPlus;

/// The stream of one block.
pub(crate) fn stream(seed: u64, block: u64) -> Stream {
    // Weyl's sequence keeps neighbours apart; `seed_from_u64` mixes all bits after it.
    let mixed = mix(seed).wrapping_add(block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Xoshiro256PlusPlus::seed_from_u64(mixed)
}

/// SplitMix64's finish.
fn mix(seed: u64) -> u64 {
    let once = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}

/// Cuts `total` into blocks of `size` and computes each, on all cores. The answers are in the order of
/// the blocks. `each` is told the block's stream and how many are in it.
pub(crate) fn in_blocks<T: Send>(
    (total, size): (u64, u64),
    seed: u64,
    run: &Run,
    each: impl Fn(Stream, u64) -> T + Sync,
) -> Result<Vec<T>, String> {
    let count = total.div_ceil(size);
    let next = AtomicU64::new(0);
    let done: Mutex<Vec<(u64, T)>> = Mutex::new(Vec::new());
    let stopped: Mutex<Option<String>> = Mutex::new(None);
    let worker = || {
        let mut own = Vec::new();
        loop {
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= count {
                break;
            }
            if let Err(why) = run.go_on() {
                if let Ok(mut stopped) = stopped.lock() {
                    stopped.get_or_insert(why);
                }
                break;
            }
            let length = size.min(total - block * size);
            own.push((block, each(stream(seed, block), length)));
        }
        if let Ok(mut done) = done.lock() {
            done.append(&mut own);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = cores.min(usize::try_from(count).unwrap_or(usize::MAX)).max(1);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
    if let Some(why) = stopped.into_inner().unwrap_or(None) {
        return Err(why);
    }
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|(block, _)| *block);
    Ok(done.into_iter().map(|(_, answer)| answer).collect())
}

/// Count, mean and sum of squared deviations, as they are put together from parts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moments {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    squares: f64,
}

impl Moments {
    /// Of a sum and a sum of squares around zero of so many.
    pub(crate) fn of(count: f64, sum: f64, squares: f64) -> Self {
        let mean = sum / count;
        Self { count, mean, squares: (squares - sum * mean).max(0.0) }
    }

    /// Chan's way.
    pub(crate) fn with(self, other: Self) -> Self {
        let count = self.count + other.count;
        if count == 0.0 {
            return self;
        }
        let apart = other.mean - self.mean;
        Self {
            count,
            mean: self.mean + apart * other.count / count,
            squares: self.squares
                + other.squares
                + apart * apart * self.count * other.count / count,
        }
    }

    /// Of the mean.
    pub(crate) fn standard_error(self) -> f64 {
        (self.squares / (self.count - 1.0).max(1.0) / self.count).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::{in_blocks, stream};
    use crate::work::tests::endless;

    #[test]
    fn blocks_come_in_order_and_cover_all() {
        let lengths = in_blocks((1_000, 64), 1, &endless(), |_, length| length).unwrap();
        assert_eq!((lengths.len(), lengths.iter().sum::<u64>()), (16, 1_000));
        assert_eq!(lengths.last(), Some(&40));
        let first = |_: usize| {
            in_blocks((500, 7), 42, &endless(), |mut stream, _| stream.random::<u64>()).unwrap()
        };
        let all: Vec<_> = (0..5).map(first).collect();
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn streams_differ_by_seed_and_by_block() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..50 {
            for block in 0..50 {
                assert!(seen.insert(stream(seed, block).random::<u64>()), "{seed} {block}");
            }
        }
    }
}
