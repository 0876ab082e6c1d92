//! `solve_ode`: integrates dy/dt = f(t, y) by the Dormand–Prince method of orders 5 and 4.
//!
//! Steps, error estimates and interpolation match scipy's `RK45`, so that both can be compared step
//! by step.

mod dormand_prince;
mod right_hand_side;

use serde_json::{Value, json};

use crate::tool_arguments::ToolArguments;
use crate::tool_execution::{Answer, RunContext};
use dormand_prince::{AcceptedStep, Rk45Integrator, Tolerances};

/// Maximum numbers of a state, and of an answer.
const STATE: usize = 1_000;
const WRITTEN: usize = 400_000;
/// Maximum output times.
const TIMES: usize = 100_000;

/// Runs the tool `solve_ode` with its arguments.
pub(crate) fn solve_ode(arguments: ToolArguments<'_>, run: &RunContext) -> Result<Answer, String> {
    let y0 = arguments.f64_list("y0", 1..=STATE)?;
    let (start, end) = time_span(arguments)?;
    let tolerances = Tolerances {
        relative: arguments.positive_or("rtol", 1e-6)?,
        absolute: arguments.positive_or("atol", 1e-9)?,
    };
    let most = arguments.usize_in("max_steps", 10_000, 1..=10_000_000)?;
    let wanted = output_times(arguments, (start, end))?;
    let mut system = right_hand_side::parse_system(arguments, y0.len())?;
    let width = y0.len();
    let mut kept =
        TrajectoryRecorder { wanted, next: 0, t: Vec::new(), y: Vec::new(), forward: end > start };
    kept.record_start(start, &y0);
    let mut walk = Rk45Integrator::new(&mut *system, (start, end), y0, tolerances)?;
    while let Some(step) = walk.advance_step(&mut *system)? {
        if step.number % 64 == 0 {
            run.check_cancelled()?;
        }
        if step.number > most {
            let at = step.t;
            return Err(format!(
                "stopped at t = {at} after {most} steps (`max_steps`): raise it, loosen `rtol`, or \
                 use a shorter `t_span`; a system that needs so many steps is often stiff, which \
                 this method does not handle"
            ));
        }
        kept.record_step(&step);
        if kept.y.len() * width > WRITTEN {
            return Err(format!(
                "the result would have more than {WRITTEN} numbers; request fewer times with \
                 `n_points`"
            ));
        }
    }
    let stats = json!({
        "steps": walk.steps, "rejected": walk.rejected, "evaluations": walk.evaluations,
        "method": "RK45",
    });
    Ok(json!({ "t": kept.t, "y": kept.y, "stats": stats }).into())
}

fn time_span(fields: ToolArguments<'_>) -> Result<(f64, f64), String> {
    match fields.f64_list("t_span", 2..=2)?.as_slice() {
        [start, end] if (end - start).abs() > 0.0 && (end - start).is_finite() => {
            Ok((*start, *end))
        }
        _ => Err("`t_span` must be two times that differ, such as [0, 10]".to_owned()),
    }
}

/// Returns the output times; `None` for the times of the steps.
fn output_times(
    fields: ToolArguments<'_>,
    (start, end): (f64, f64),
) -> Result<Option<Vec<f64>>, String> {
    if fields.has_value("t_eval") {
        let times = fields.f64_list("t_eval", 1..=TIMES)?;
        let rising = times.is_sorted_by(|a, b| if end > start { a < b } else { a > b });
        let inside = |t: &f64| (*t - start) * (end - *t) >= 0.0;
        if !rising || !times.iter().all(inside) {
            return Err(
                "`t_eval` must go from one end of `t_span` to the other, and stay inside".into()
            );
        }
        return Ok(Some(times));
    }
    if !fields.has_value("n_points") {
        return Ok(None);
    }
    let count = fields.usize_in("n_points", 100, 2..=TIMES)?;
    let step = (end - start) / (count - 1) as f64;
    let mut times: Vec<f64> = (0..count - 1).map(|i| start + step * i as f64).collect();
    times.push(end);
    Ok(Some(times))
}

/// Recorder of the output times and states.
struct TrajectoryRecorder {
    wanted: Option<Vec<f64>>,
    next: usize,
    t: Vec<f64>,
    y: Vec<Value>,
    forward: bool,
}

impl TrajectoryRecorder {
    fn record_start(&mut self, t: f64, y: &[f64]) {
        if self.wanted.is_none() {
            self.t.push(t);
            self.y.push(json!(y));
        }
    }

    fn record_step(&mut self, step: &AcceptedStep<'_>) {
        let Some(wanted) = &self.wanted else {
            self.t.push(step.t);
            self.y.push(json!(step.y));
            return;
        };
        while let Some(t) = wanted.get(self.next).copied() {
            if if self.forward { t > step.t } else { t < step.t } {
                break;
            }
            self.t.push(t);
            self.y.push(json!(step.interpolate_at(t)));
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests;
