//! Random number streams per block, and block-parallel computation on all cores.
//!
//! Each block has its own stream, determined by the seed and the block's number, and results are
//! combined in block order. So the same seed gives the same answer with any number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::tool_execution::RunContext;

/// xoshiro256++: fast, without known defects that affect simulations.
pub(crate) type RandomStream = Xoshiro256PlusPlus;

/// Returns the random stream of one block.
pub(crate) fn block_stream(seed: u64, block: u64) -> RandomStream {
    // Weyl's sequence separates neighbouring blocks; `seed_from_u64` then mixes all bits.
    let mixed = mix_seed(seed).wrapping_add(block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Xoshiro256PlusPlus::seed_from_u64(mixed)
}

/// Finalizer of SplitMix64.
fn mix_seed(seed: u64) -> u64 {
    let once = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}

/// Divides `total` into blocks of `size` and computes each, on all cores. Results are in block
/// order. `map_block` receives the block's stream and its length.
pub(crate) fn map_blocks<T: Send>(
    (total, size): (u64, u64),
    seed: u64,
    run: &RunContext,
    map_block: impl Fn(RandomStream, u64) -> T + Sync,
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
            if let Err(why) = run.check_cancelled() {
                if let Ok(mut stopped) = stopped.lock() {
                    stopped.get_or_insert(why);
                }
                break;
            }
            let length = size.min(total - block * size);
            own.push((block, map_block(block_stream(seed, block), length)));
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

/// Count, mean and sum of squared deviations, mergeable across blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunningMoments {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    sum_squared_deviations: f64,
}

impl RunningMoments {
    /// Computes the moments from a sum and a sum of squares.
    pub(crate) fn from_sums(count: f64, sum: f64, squares: f64) -> Self {
        let mean = sum / count;
        Self { count, mean, sum_squared_deviations: (squares - sum * mean).max(0.0) }
    }

    /// Merges the moments of two samples by Chan's formula.
    pub(crate) fn merge_with(self, other: Self) -> Self {
        let count = self.count + other.count;
        if count == 0.0 {
            return self;
        }
        let apart = other.mean - self.mean;
        Self {
            count,
            mean: self.mean + apart * other.count / count,
            sum_squared_deviations: self.sum_squared_deviations
                + other.sum_squared_deviations
                + apart * apart * self.count * other.count / count,
        }
    }

    /// Returns the standard error of the mean.
    pub(crate) fn standard_error(self) -> f64 {
        (self.sum_squared_deviations / (self.count - 1.0).max(1.0) / self.count).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::{block_stream, map_blocks};
    use crate::tool_execution::tests::endless;

    #[test]
    fn blocks_come_in_order_and_cover_all() {
        let lengths = map_blocks((1_000, 64), 1, &endless(), |_, length| length).unwrap();
        assert_eq!((lengths.len(), lengths.iter().sum::<u64>()), (16, 1_000));
        assert_eq!(lengths.last(), Some(&40));
        let first = |_: usize| {
            map_blocks((500, 7), 42, &endless(), |mut stream, _| stream.random::<u64>()).unwrap()
        };
        let all: Vec<_> = (0..5).map(first).collect();
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn streams_differ_by_seed_and_by_block() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..50 {
            for block in 0..50 {
                assert!(seen.insert(block_stream(seed, block).random::<u64>()), "{seed} {block}");
            }
        }
    }
}
