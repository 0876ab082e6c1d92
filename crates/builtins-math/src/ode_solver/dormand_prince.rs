//! Dormand–Prince method with Shampine's interpolant: Hairer, Nørsett and Wanner, Solving Ordinary
//! Differential Equations I, II.4 and II.6.

#![expect(clippy::indexing_slicing, reason = "all states are as long, all tables are fixed")]

use super::right_hand_side::RightHandSide;

const C: [f64; 6] = [0.0, 1.0 / 5.0, 3.0 / 10.0, 4.0 / 5.0, 8.0 / 9.0, 1.0];
const A: [[f64; 5]; 6] = [
    [0.0, 0.0, 0.0, 0.0, 0.0],
    [1.0 / 5.0, 0.0, 0.0, 0.0, 0.0],
    [3.0 / 40.0, 9.0 / 40.0, 0.0, 0.0, 0.0],
    [44.0 / 45.0, -56.0 / 15.0, 32.0 / 9.0, 0.0, 0.0],
    [19372.0 / 6561.0, -25360.0 / 2187.0, 64448.0 / 6561.0, -212.0 / 729.0, 0.0],
    [9017.0 / 3168.0, -355.0 / 33.0, 46732.0 / 5247.0, 49.0 / 176.0, -5103.0 / 18656.0],
];
const B: [f64; 6] =
    [35.0 / 384.0, 0.0, 500.0 / 1113.0, 125.0 / 192.0, -2187.0 / 6784.0, 11.0 / 84.0];
const E: [f64; 7] = [
    -71.0 / 57600.0,
    0.0,
    71.0 / 16695.0,
    -71.0 / 1920.0,
    17253.0 / 339_200.0,
    -22.0 / 525.0,
    1.0 / 40.0,
];
const P: [[f64; 4]; 7] = [
    [
        1.0,
        -8_048_581_381.0 / 2_820_520_608.0,
        8_663_915_743.0 / 2_820_520_608.0,
        -12_715_105_075.0 / 11_282_082_432.0,
    ],
    [0.0; 4],
    [
        0.0,
        131_558_114_200.0 / 32_700_410_799.0,
        -68_118_460_800.0 / 10_900_136_933.0,
        87_487_479_700.0 / 32_700_410_799.0,
    ],
    [
        0.0,
        -1_754_552_775.0 / 470_086_768.0,
        14_199_869_525.0 / 1_410_260_304.0,
        -10_690_763_975.0 / 1_880_347_072.0,
    ],
    [
        0.0,
        127_303_824_393.0 / 49_829_197_408.0,
        -318_862_633_887.0 / 49_829_197_408.0,
        701_980_252_875.0 / 199_316_789_632.0,
    ],
    [
        0.0,
        -282_668_133.0 / 205_662_961.0,
        2_019_193_451.0 / 616_988_883.0,
        -1_453_857_185.0 / 822_651_844.0,
    ],
    [0.0, 40_617_522.0 / 29_380_423.0, -110_615_467.0 / 29_380_423.0, 69_997_945.0 / 29_380_423.0],
];

/// Limits of step growth and shrinkage, and the safety factor.
const GROWS: f64 = 10.0;
const SHRINKS: f64 = 0.2;
const SAFETY: f64 = 0.9;

/// Error tolerances of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerances {
    pub(super) relative: f64,
    pub(super) absolute: f64,
}

impl Tolerances {
    /// Returns the allowed error of a value of this size.
    fn scale_of(self, size: f64) -> f64 {
        self.absolute + size * self.relative
    }
}

/// Integrator with its current state.
pub(super) struct Rk45Integrator {
    t: f64,
    end: f64,
    y: Vec<f64>,
    previous_state: Vec<f64>,
    /// Stage slopes of a step; the last one is the first of the next step.
    stage_slopes: [Vec<f64>; 7],
    /// Absolute length of the next step.
    step_size: f64,
    tolerances: Tolerances,
    pub(super) steps: usize,
    pub(super) rejected: usize,
    pub(super) evaluations: usize,
}

/// Step that met the tolerance.
pub(super) struct AcceptedStep<'a> {
    /// Number of the step, from 1.
    pub(super) number: usize,
    pub(super) t: f64,
    pub(super) y: &'a [f64],
    from: f64,
    before: &'a [f64],
    k: &'a [Vec<f64>; 7],
}

impl AcceptedStep<'_> {
    /// Returns the state at a time inside the step.
    pub(super) fn interpolate_at(&self, t: f64) -> Vec<f64> {
        let h = self.t - self.from;
        let x = (t - self.from) / h;
        let powers = [x, x * x, x * x * x, x * x * x * x];
        let weight = |i: usize| P[i].iter().zip(powers).map(|(p, x)| p * x).sum::<f64>();
        let weights: [f64; 7] = std::array::from_fn(weight);
        let at = |j: usize| {
            let slope: f64 = weights.iter().zip(self.k).map(|(w, k)| w * k[j]).sum();
            self.before[j] + h * slope
        };
        (0..self.before.len()).map(at).collect()
    }
}

impl Rk45Integrator {
    pub(super) fn new(
        system: &mut RightHandSide<'_>,
        (start, end): (f64, f64),
        y: Vec<f64>,
        tolerances: Tolerances,
    ) -> Result<Self, String> {
        let n = y.len();
        let mut k: [Vec<f64>; 7] = std::array::from_fn(|_| vec![0.0; n]);
        system(start, &y, &mut k[6]);
        if !k[6].iter().all(|x| x.is_finite()) {
            return Err(format!("the system has no finite value at t = {start}, `y0`"));
        }
        let relative = tolerances.relative.max(100.0 * f64::EPSILON);
        let tolerances = Tolerances { relative, ..tolerances };
        let before = y.clone();
        let (steps, rejected, evaluations) = (0, 0, 2);
        let mut walk = Self {
            t: start,
            end,
            y,
            previous_state: before,
            stage_slopes: k,
            step_size: 0.0,
            tolerances,
            steps,
            rejected,
            evaluations,
        };
        walk.step_size = walk.initial_step_size(system);
        Ok(walk)
    }

    fn time_direction(&self) -> f64 {
        if self.end >= self.t { 1.0 } else { -1.0 }
    }

    fn initial_step_size(&self, system: &mut RightHandSide<'_>) -> f64 {
        let whole = (self.end - self.t).abs();
        let scale: Vec<f64> = self.y.iter().map(|y| self.tolerances.scale_of(y.abs())).collect();
        let slope = &self.stage_slopes[6];
        let (size, steep) = (rms_norm(&self.y, &scale), rms_norm(slope, &scale));
        let tiny = size < 1e-5 || steep < 1e-5;
        let guess = if tiny { 1e-6 } else { 0.01 * size / steep }.min(whole);
        let h = guess * self.time_direction();
        let ahead: Vec<f64> = self.y.iter().zip(slope).map(|(y, k)| y + h * k).collect();
        let mut there = vec![0.0; ahead.len()];
        system(self.t + h, &ahead, &mut there);
        let change: Vec<f64> = there.iter().zip(slope).map(|(a, b)| a - b).collect();
        let bent = rms_norm(&change, &scale) / guess;
        let better = if steep <= 1e-15 && bent <= 1e-15 {
            (guess * 1e-3).max(1e-6)
        } else {
            (0.01 / steep.max(bent)).powf(0.2)
        };
        let length = (100.0 * guess).min(better).min(whole);
        if length.is_finite() { length } else { guess }
    }

    /// Advances one step; `None` at the end.
    pub(super) fn advance_step(
        &mut self,
        system: &mut RightHandSide<'_>,
    ) -> Result<Option<AcceptedStep<'_>>, String> {
        if self.t.total_cmp(&self.end).is_eq() {
            return Ok(None);
        }
        self.stage_slopes.swap(0, 6);
        let direction = self.time_direction();
        let least = 10.0 * (next_towards(self.t, direction) - self.t).abs();
        let mut length = self.step_size.max(least);
        let mut refused = false;
        let (from, next) = loop {
            if length < least {
                return Err(self.step_too_small_error());
            }
            let mut t = self.t + length * direction;
            if direction * (t - self.end) > 0.0 {
                t = self.end;
            }
            let h = t - self.t;
            length = h.abs();
            let next = self.try_step(h, system);
            let error = self.error_norm(h, &next);
            if error < 1.0 {
                let factor =
                    if error == 0.0 { GROWS } else { (SAFETY * error.powf(-0.2)).min(GROWS) };
                self.step_size = length * if refused { factor.min(1.0) } else { factor };
                break (std::mem::replace(&mut self.t, t), next);
            }
            self.rejected += 1;
            refused = true;
            // NaN shrinks the step as much as possible.
            length *= (SAFETY * error.powf(-0.2)).max(SHRINKS);
        };
        self.previous_state = std::mem::replace(&mut self.y, next);
        self.steps += 1;
        Ok(Some(AcceptedStep {
            number: self.steps,
            t: self.t,
            y: &self.y,
            from,
            before: &self.previous_state,
            k: &self.stage_slopes,
        }))
    }

    /// Computes all slopes of a step `h`, and returns its end state.
    fn try_step(&mut self, h: f64, system: &mut RightHandSide<'_>) -> Vec<f64> {
        let n = self.y.len();
        let mut at = vec![0.0; n];
        for s in 1..6 {
            for (j, at) in at.iter_mut().enumerate() {
                let slope: f64 = (0..s).map(|i| A[s][i] * self.stage_slopes[i][j]).sum();
                *at = self.y[j] + h * slope;
            }
            system(self.t + C[s] * h, &at, &mut self.stage_slopes[s]);
        }
        for (j, at) in at.iter_mut().enumerate() {
            let slope: f64 = (0..6).map(|i| B[i] * self.stage_slopes[i][j]).sum();
            *at = self.y[j] + h * slope;
        }
        system(self.t + h, &at, &mut self.stage_slopes[6]);
        self.evaluations += 6;
        at
    }

    /// Returns the error relative to the tolerance; 1 is the limit.
    fn error_norm(&self, h: f64, next: &[f64]) -> f64 {
        let sizes = self.y.iter().zip(next).map(|(a, b)| a.abs().max(b.abs()));
        let scale: Vec<f64> = sizes.map(|size| self.tolerances.scale_of(size)).collect();
        let of = |j: usize| h * (0..7).map(|i| E[i] * self.stage_slopes[i][j]).sum::<f64>();
        let errors: Vec<f64> = (0..next.len()).map(of).collect();
        let error = rms_norm(&errors, &scale);
        if error.is_nan() { f64::INFINITY } else { error }
    }

    fn step_too_small_error(&self) -> String {
        format!(
            "at t = {} the steps became too small: the solution may diverge to infinity there, or \
             the system has no value",
            self.t
        )
    }
}

fn rms_norm(values: &[f64], scale: &[f64]) -> f64 {
    let squares: f64 = values.iter().zip(scale).map(|(v, s)| (v / s).powi(2)).sum();
    (squares / values.len() as f64).sqrt()
}

fn next_towards(t: f64, direction: f64) -> f64 {
    if direction > 0.0 { t.next_up() } else { t.next_down() }
}
