//! `solve_ode`: dy/dt = f(t, y) by Dormand and Prince's pair of orders 5 and 4.
//!
//! Steps, errors and what lies between the steps are computed as scipy's `RK45` does, so that the two
//! can be compared step by step.

mod pair;
mod system;

use serde_json::{Value, json};

use crate::fields::Fields;
use crate::work::{Answer, Run};
use pair::{Step, Walk};

/// Numbers of a state, and numbers in an answer.
const STATE: usize = 1_000;
const WRITTEN: usize = 400_000;
/// Times that can be asked for.
const TIMES: usize = 100_000;

/// Runs the tool.
pub(crate) fn solve(fields: Fields<'_>, run: &Run) -> Result<Answer, String> {
    let y0 = fields.numbers("y0", 1..=STATE)?;
    let (start, end) = span(fields)?;
    let (rtol, atol) = (fields.positive("rtol", 1e-6)?, fields.positive("atol", 1e-9)?);
    let most = fields.count("max_steps", 10_000, 1..=10_000_000)?;
    let wanted = times(fields, (start, end))?;
    let mut system = system::read(fields, y0.len())?;
    let width = y0.len();
    let mut kept = Kept { wanted, next: 0, t: Vec::new(), y: Vec::new(), forward: end > start };
    kept.first(start, &y0);
    let mut walk = Walk::new(&mut *system, (start, end), y0, (rtol, atol))?;
    while let Some(step) = walk.step(&mut *system)? {
        if step.number % 64 == 0 {
            run.go_on()?;
        }
        if step.number > most {
            let at = step.t;
            return Err(format!(
                "at t = {at} after {most} steps, `max_steps`: raise it, loosen `rtol`, or take a shorter \
                 `t_span`; a system that needs so many is often stiff, which this method is not made for"
            ));
        }
        kept.take(&step);
        if kept.y.len() * width > WRITTEN {
            return Err(format!(
                "the answer would have more than {WRITTEN} numbers; ask for fewer times by `n_points`"
            ));
        }
    }
    let stats = json!({
        "steps": walk.steps, "rejected": walk.rejected, "evaluations": walk.evaluations,
        "method": "RK45",
    });
    Ok(json!({ "t": kept.t, "y": kept.y, "stats": stats }).into())
}

fn span(fields: Fields<'_>) -> Result<(f64, f64), String> {
    match fields.numbers("t_span", 2..=2)?.as_slice() {
        [start, end] if (end - start).abs() > 0.0 && (end - start).is_finite() => {
            Ok((*start, *end))
        }
        _ => Err("`t_span` must be two times that differ, such as [0, 10]".to_owned()),
    }
}

/// The times of the answer; none where those of the steps are meant.
fn times(fields: Fields<'_>, (start, end): (f64, f64)) -> Result<Option<Vec<f64>>, String> {
    if fields.has("t_eval") {
        let times = fields.numbers("t_eval", 1..=TIMES)?;
        let rising = times.is_sorted_by(|a, b| if end > start { a < b } else { a > b });
        let inside = |t: &f64| (*t - start) * (end - *t) >= 0.0;
        if !rising || !times.iter().all(inside) {
            return Err(
                "`t_eval` must go from one end of `t_span` to the other, and stay inside".into()
            );
        }
        return Ok(Some(times));
    }
    if !fields.has("n_points") {
        return Ok(None);
    }
    let count = fields.count("n_points", 100, 2..=TIMES)?;
    let step = (end - start) / (count - 1) as f64;
    let mut times: Vec<f64> = (0..count - 1).map(|i| start + step * i as f64).collect();
    times.push(end);
    Ok(Some(times))
}

/// What goes into the answer.
struct Kept {
    wanted: Option<Vec<f64>>,
    next: usize,
    t: Vec<f64>,
    y: Vec<Value>,
    forward: bool,
}

impl Kept {
    fn first(&mut self, t: f64, y: &[f64]) {
        if self.wanted.is_none() {
            self.t.push(t);
            self.y.push(json!(y));
        }
    }

    fn take(&mut self, step: &Step<'_>) {
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
            self.y.push(json!(step.between(t)));
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests;
