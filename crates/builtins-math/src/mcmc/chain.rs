//! One chain of Metropolis and Hastings, and several at once.

#![expect(clippy::indexing_slicing, reason = "all states have one length")]

use std::sync::Mutex;

use builtins::Program;
use rand::RngExt as _;
use rand_distr::{Distribution as _, StandardNormal};

use super::judge::covariance;
use crate::random::{Stream, stream};
use crate::work::Run;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) chains: usize,
    /// Of all chains.
    pub(super) samples: usize,
    /// Of each.
    pub(super) burnin: usize,
    pub(super) thin: usize,
    pub(super) width: f64,
    /// Whether the steps are fitted while the chain burns in; never after it.
    pub(super) adapt: bool,
    pub(super) seed: u64,
}

#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) samples: Vec<Vec<f64>>,
    pub(super) accepted: u64,
    pub(super) steps: u64,
}

/// All chains, each with a stream of its own.
pub(super) fn chains(
    plan: &Plan,
    density: &Program,
    x0: &[f64],
    run: &Run,
) -> Result<Vec<Chain>, String> {
    let done: Mutex<Vec<(usize, Result<Chain, String>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for index in 0..plan.chains {
            let done = &done;
            scope.spawn(move || {
                let chain = one(plan, density, (x0, index), run);
                if let Ok(mut done) = done.lock() {
                    done.push((index, chain));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, chain)| chain).collect()
}

/// Where a chain stands.
struct State<'a> {
    density: &'a Program,
    stack: Vec<f64>,
    x: Vec<f64>,
    log: f64,
    stream: Stream,
    /// Lower triangle that a step's normal numbers are multiplied with.
    shape: Vec<Vec<f64>>,
}

fn one(
    plan: &Plan,
    density: &Program,
    (x0, index): (&[f64], usize),
    run: &Run,
) -> Result<Chain, String> {
    let n = x0.len();
    let shape = (0..n).map(|i| (0..n).map(|j| if i == j { plan.width } else { 0.0 }).collect());
    let mut state = State {
        density,
        stack: Vec::new(),
        x: x0.to_vec(),
        log: f64::NAN,
        stream: stream(plan.seed, index as u64),
        shape: shape.collect(),
    };
    state.start(index)?;
    state.burn(plan, run)?;
    let mut chain = Chain::default();
    let count = plan.samples / plan.chains + usize::from(index < plan.samples % plan.chains);
    for step in 0..count * plan.thin {
        if step % 1_024 == 0 {
            run.go_on()?;
        }
        chain.accepted += u64::from(state.step());
        chain.steps += 1;
        if step % plan.thin == 0 {
            chain.samples.push(state.x.clone());
        }
    }
    Ok(chain)
}

impl State<'_> {
    /// The first chain begins at the place itself, all others near it.
    fn start(&mut self, index: usize) -> Result<(), String> {
        self.log = self.density.real(&self.x, &mut self.stack);
        if !self.log.is_finite() {
            return Err(
                "`log_density` has no finite value at `x0`; start somewhere else".to_owned()
            );
        }
        for _ in 0..if index == 0 { 0 } else { 100 } {
            let near = self.proposed();
            let log = self.density.real(&near, &mut self.stack);
            if log.is_finite() {
                (self.x, self.log) = (near, log);
                break;
            }
        }
        Ok(())
    }

    fn proposed(&mut self) -> Vec<f64> {
        let n = self.x.len();
        let normal: Vec<f64> = (0..n).map(|_| StandardNormal.sample(&mut self.stream)).collect();
        let moved = |i: usize| -> f64 { (0..=i).map(|j| self.shape[i][j] * normal[j]).sum() };
        (0..n).map(|i| self.x[i] + moved(i)).collect()
    }

    /// Whether it was accepted. A density that is no number is none.
    fn step(&mut self) -> bool {
        let next = self.proposed();
        let log = self.density.real(&next, &mut self.stack);
        let chance: f64 = self.stream.random();
        let accepted = log < f64::INFINITY && chance.ln() < log - self.log;
        if accepted {
            (self.x, self.log) = (next, log);
        }
        accepted
    }

    /// Burns in; where asked, in ten rounds after each of which the steps take the shape of what was
    /// seen and the size that accepts about a third.
    fn burn(&mut self, plan: &Plan, run: &Run) -> Result<(), String> {
        let round = (plan.burnin / 10).max(1);
        let (mut seen, mut accepted, mut scale) = (Vec::new(), 0_usize, 1.0_f64);
        for step in 1..=plan.burnin {
            if step % 1_024 == 0 {
                run.go_on()?;
            }
            accepted += usize::from(self.step());
            if !plan.adapt {
                continue;
            }
            seen.push(self.x.clone());
            if step % round == 0 {
                let rate = accepted as f64 / round as f64;
                scale = (scale * ((rate - 0.3) * 2.0).exp()).clamp(1e-6, 1e6);
                let (half, learnt) = (seen.len() / 2, seen.len() >= 20 * self.x.len());
                if !(learnt && self.reshape(&seen[half..], scale)) {
                    let by = ((rate - 0.3) * 2.0).exp();
                    self.shape.iter_mut().flatten().for_each(|x| *x *= by);
                }
                accepted = 0;
            }
        }
        Ok(())
    }

    /// To the covariance of what was seen, times 2.38² / n: Roberts and Rosenthal.
    fn reshape(&mut self, seen: &[Vec<f64>], scale: f64) -> bool {
        let all: Vec<&Vec<f64>> = seen.iter().collect();
        let (_, mut matrix) = covariance(&all);
        let n = matrix.len();
        let by = scale * 2.38 * 2.38 / n as f64;
        for (i, row) in matrix.iter_mut().enumerate() {
            for x in row.iter_mut() {
                *x *= by;
            }
            row[i] += 1e-12 + 1e-9 * row[i];
        }
        let lower = crate::gaussian::cholesky(&matrix);
        let good = lower.is_some();
        if let Some(lower) = lower {
            self.shape = lower;
        }
        good
    }
}
