//! `bench policy`: what a decision costs, within the program: there is no network and no disk in these
//! figures.
//!
//! Admitted is one look into a view that is there; rebuilt is a view made anew, as after a change of
//! catalog or policy, or for a rights class that is new; decided is the second stage of one call.

mod report;
mod world;

use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::policy::{Asking, Facts, Residual, Taint, decide};
use gateway::{Gateway, Request, View};
use identity::Principal;
use tool::{Args, CallerType};

use crate::machine;
use report::{Found, Report};
use world::{NOW, caller, gateway, name};

pub(crate) const USAGE: &str = "usage: cargo xtask bench policy [--write]

  --write   also write the report, docs/reference/benchmarks-policy.md";

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Tools of the catalog.
    tools: usize,
    /// Rights classes that call in turn.
    classes: [usize; 3],
    /// Calls of one slice.
    calls: usize,
    /// Slices of each number of classes, in turn; the median counts.
    rounds: usize,
    /// How often what takes nanoseconds is done at once.
    often: usize,
}

const FULL: Sizes =
    Sizes { tools: 10_000, classes: [1, 10, 1_000], calls: 20_000, rounds: 9, often: 200_000 };

/// Measures, prints, and writes where asked.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    let file = match flags {
        [] => None,
        ["--write", file] => Some(file),
        _ => return Err(USAGE.to_owned()),
    };
    let found = measured(FULL).await?;
    let text = Report { found, machine: machine::describe() }.to_string();
    println!("{text}");
    match file {
        Some(file) => fs::write(file, text).map_err(|error| format!("`{file}`: {error}")),
        None => Ok(()),
    }
}

async fn measured(sizes: Sizes) -> Result<Found, String> {
    let most = sizes.classes.iter().copied().max().unwrap_or(1);
    let gateway = Arc::new(gateway(sizes.tools, most)?);
    let callers = (0..most).map(caller).collect::<Result<Vec<_>, _>>()?;
    let mut rebuilt: Vec<_> = callers.iter().map(|who| rebuilt(&gateway, who)).collect();
    rebuilt.sort_unstable();
    let first = callers.first().ok_or("no caller")?;
    let view = gateway.view(first, CallerType::Direct);
    let names: Vec<_> = (0..sizes.tools).map(name).collect();
    let mut turn = names.iter().cycle();
    let mut next = || turn.next().map_or("", String::as_str);
    let seen = names.iter().filter(|name| view.find(name).is_some()).count();
    let admitted = each(sizes, sizes.often, || {
        let _found = black_box(view.find(next()));
    });
    let looked = each(sizes, sizes.often, || {
        let _found = black_box(gateway.view(first, CallerType::Direct).find(next()));
    });
    let args = Args::check(r#"{"env":"test","n":3,"paths":["/srv/a","/srv/b"]}"#);
    let args = args.map_err(|error| error.to_string())?;
    let decided = Decided { sizes, view: &view, who: first, args: &args };
    let (plain, ruled) = (decided.plain(&names)?, decided.ruled(&names)?);
    let rates = rates(sizes, &gateway, &callers, &open(&view, &names)).await?;
    let (tools, classes) = (sizes.tools, most);
    Ok(Found { tools, classes, seen, rebuilt, admitted, looked, plain, ruled, rates })
}

/// Nanoseconds of one, the median of some rounds.
fn each(sizes: Sizes, often: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<_> = (0..sizes.rounds)
        .map(|_| {
            let begun = Instant::now();
            (0..often).for_each(|_| work());
            begun.elapsed().as_secs_f64() * 1e9 / often as f64
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn rebuilt(gateway: &Gateway, who: &Principal) -> Duration {
    let begun = Instant::now();
    drop(black_box(gateway.view(who, CallerType::Direct)));
    begun.elapsed()
}

/// The second stage.
struct Decided<'a> {
    sizes: Sizes,
    view: &'a View,
    who: &'a Principal,
    args: &'a Args,
}

impl<'a> Decided<'a> {
    fn asking(&self, name: &str) -> Option<(&'a Residual, Asking<'a>)> {
        let (entry, residual) = self.view.find(name)?;
        let asking = Asking {
            caller: self.who.caller(),
            rights: self.who.rights(),
            by: CallerType::Direct,
            tool: Facts::of(&entry.key, &entry.tool),
            args: self.args,
            now: NOW,
            taint: Taint::default(),
        };
        Some((residual, asking))
    }

    /// Of tools without rules of their own.
    fn plain(&self, names: &[String]) -> Result<f64, String> {
        let plain = names.iter().filter(|name| !conditional(name));
        let all: Vec<_> = plain.filter_map(|name| self.asking(name)).collect();
        let mut turn = all.iter().cycle();
        if all.is_empty() {
            return Err("no tool is seen".to_owned());
        }
        Ok(each(self.sizes, self.sizes.often, || {
            let next = turn.next().map(|(residual, asking)| decide(residual, black_box(asking)));
            let _decided = black_box(next);
        }))
    }

    /// Of one with a condition.
    fn ruled(&self, names: &[String]) -> Result<f64, String> {
        let mut ruled = names.iter().filter(|name| conditional(name));
        let (residual, asking) =
            ruled.find_map(|name| self.asking(name)).ok_or("no tool has a rule")?;
        Ok(each(self.sizes, self.sizes.often / 20, || {
            let _decided = black_box(decide(residual, black_box(&asking)));
        }))
    }
}

/// Tools that have a rule of their own.
fn conditional(name: &str) -> bool {
    name.ends_with("77")
}

/// Tools that run at once.
fn open<'a>(view: &View, names: &'a [String]) -> Vec<&'a str> {
    let free = |name: &&str| {
        let found = view.find(name);
        !conditional(name) && found.is_some_and(|(_, residual)| residual.hold.is_none())
    };
    names.iter().map(String::as_str).filter(free).take(100).collect()
}

/// Calls a second by so many classes in turn, slice by slice in turn, each with the ratio to the first of
/// the same round. A view for each is there already.
async fn rates(
    sizes: Sizes,
    gateway: &Arc<Gateway>,
    callers: &[Principal],
    open: &[&str],
) -> Result<Vec<(usize, Vec<f64>)>, String> {
    let mut rates: Vec<_> = sizes.classes.iter().map(|classes| (*classes, Vec::new())).collect();
    for _ in 0..sizes.rounds {
        for (classes, rates) in &mut rates {
            let callers = callers.iter().take(*classes).cycle();
            let begun = Instant::now();
            for (who, name) in callers.zip(open.iter().cycle()).take(sizes.calls) {
                let request = Request::new(*name, "{}", "library");
                let answer = black_box(gateway.call(who, request).await);
                answer.result.map_err(|failure| format!("`{name}`: {}", failure.message))?;
            }
            rates.push(sizes.calls as f64 / begun.elapsed().as_secs_f64());
        }
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::report::Report;
    use super::{Sizes, measured};

    #[tokio::test]
    async fn every_figure_of_a_small_run_is_there() {
        let sizes = Sizes { tools: 500, classes: [1, 2, 3], calls: 50, rounds: 2, often: 40 };
        let found = measured(sizes).await.unwrap();
        assert!(found.seen > 100, "{found:?}");
        assert_eq!(found.rebuilt.len(), 3);
        assert!(found.rates.iter().all(|(_, rates)| rates.len() == 2), "{found:?}");
        let text = Report { found, machine: "two cores".to_owned() }.to_string();
        assert_eq!(text.matches("\n| ").count(), 13, "{text}");
    }
}
