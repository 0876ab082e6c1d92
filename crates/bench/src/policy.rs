//! `bench policy`: what a decision costs, within the program: there is no network and no disk in these
//! figures.
//!
//! Admitted is one look into a view that is there; rebuilt is a view made anew, as after a change of
//! catalog or policy, or for a rights class that is new; decided is what a call asks: its view looked up, its
//! tool found, the second stage. What of that is remembered is shown by its parts, and by the same with
//! nothing remembered: all six layers gone through for one tool.

mod report;
mod world;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::policy::{Admission, Asking, Decision, Facts, Residual, Taint, decide};
use catalog::Entry;
use gateway::{Gateway, Request, View};
use identity::Principal;
use tool::{Args, CallerType, Interface};

use crate::goal;
use crate::machine;
use report::{Found, Report, Times};
use world::{NOW, caller, conditional, gateway, name, plain, reaches_files};

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
    Sizes { tools: 10_000, classes: [1, 10, 1_000], calls: 10_000, rounds: 31, often: 100_000 };

/// Measures, prints, and writes where asked.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    let file = match flags {
        [] => None,
        ["--write", file] => Some(file),
        _ => return Err(USAGE.to_owned()),
    };
    let found = measured(FULL).await?;
    let text = Report { found, machine: machine::describe() }.to_string();
    goal::publish(&text, file.copied())
}

async fn measured(sizes: Sizes) -> Result<Found, String> {
    let most = sizes.classes.iter().copied().max().unwrap_or(1);
    let gateway = Arc::new(gateway(sizes.tools, most)?);
    let callers = (0..most).map(caller).collect::<Result<Vec<_>, _>>()?;
    let resident = || machine::memory(std::process::id()).0;
    let before = resident();
    let mut rebuilt: Vec<_> = callers.iter().map(|who| rebuilt(&gateway, who)).collect();
    rebuilt.sort_unstable();
    // What the cache let go is held here, so that all of them are counted.
    let held: Vec<_> = callers.iter().map(|who| gateway.view(who, CallerType::Direct)).collect();
    let views = resident() - before;
    drop(held);
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
    let args = Args::check(r#"{"env":"prod","n":3,"paths":["/srv/a","/srv/b"]}"#);
    let args = args.map_err(|error| error.to_string())?;
    let decided = Decided { sizes, gateway: &gateway, view: &view, who: first, args: &args };
    let times = Times {
        admitted,
        looked,
        call: decided.call(&names)?,
        layers: decided.layers(&names, false)?,
        anew: decided.layers(&names, true)?,
        stage: decided.second(&names, &plain)?,
        folders: decided.second(&names, &reaches_files)?,
        ruled: decided.second(&names, &conditional)?,
    };
    let rates = rates(sizes, &gateway, &callers, &open(&view, &names)).await?;
    let (tools, classes) = (sizes.tools, most);
    Ok(Found { tools, classes, seen, rebuilt, views, times, rates })
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

/// Decisions of one caller.
struct Decided<'a> {
    sizes: Sizes,
    gateway: &'a Gateway,
    view: &'a View,
    who: &'a Principal,
    args: &'a Args,
}

impl<'a> Decided<'a> {
    fn asking(&self, entry: &'a Entry) -> Asking<'a> {
        Asking {
            caller: self.who.caller(),
            rights: self.who.rights(),
            by: CallerType::Direct,
            tool: Facts::of(&entry.key, &entry.tool),
            args: self.args,
            now: NOW,
            taint: Taint::default(),
        }
    }

    /// All that is asked of a call by name, for each tool in turn that is seen.
    fn call(&self, names: &[String]) -> Result<f64, String> {
        let seen = names.iter().filter(|name| plain(name) && self.view.find(name).is_some());
        let seen: Vec<_> = seen.collect();
        let mut turn = seen.iter().cycle();
        if seen.is_empty() {
            return Err("no tool is seen".to_owned());
        }
        Ok(each(self.sizes, self.sizes.often, || {
            let view = self.gateway.view(black_box(self.who), CallerType::Direct);
            let found = turn.next().and_then(|name| view.find(black_box(name)));
            let decided = found.map(|(entry, residual)| {
                let args = self.args;
                let tool = Facts::of(&entry.key, &entry.tool);
                let (caller, rights) = (self.who.caller(), self.who.rights());
                let (by, now, taint) = (CallerType::Direct, NOW, Taint::default());
                decide(residual, &Asking { caller, rights, by, tool, args, now, taint })
            });
            let _decided = black_box(decided);
        }))
    }

    /// Both stages with nothing remembered of the tool; nor of the caller's layers, where they are found
    /// anew.
    fn layers(&self, names: &[String], anew: bool) -> Result<f64, String> {
        let found = names.iter().filter(|name| plain(name)).filter_map(|name| self.view.find(name));
        let all: Vec<_> = found.map(|(entry, _)| self.asking(entry)).collect();
        let mut turn = all.iter().cycle();
        let rights = self.who.rights();
        let lens = || self.view.rules().lens(rights, CallerType::Direct, NOW);
        let (kept, first) = (lens(), all.first().ok_or("no tool is seen")?);
        Ok(each(self.sizes, self.sizes.often / 10, || {
            let asking = black_box(turn.next().unwrap_or(first));
            let admitted = if anew { lens().admit(&asking.tool) } else { kept.admit(&asking.tool) };
            let decided = match admitted {
                Admission::Visible(residual) => Some(decide(&residual, asking)),
                Admission::Hidden(_) => None,
            };
            let _decided = black_box(decided);
        }))
    }

    /// The second stage alone, of the tools of one kind in turn.
    fn second(&self, names: &[String], kind: &dyn Fn(&str) -> bool) -> Result<f64, String> {
        let found = names.iter().filter(|name| kind(name)).filter_map(|name| self.view.find(name));
        let all: Vec<(&Residual, Asking<'_>)> =
            found.map(|(entry, residual)| (residual, self.asking(entry))).collect();
        let first = all.first().ok_or("no tool of a kind is seen")?;
        // Each is let through, so that all of it was looked at.
        let denied = |(residual, asking): &&(&Residual, Asking<'_>)| {
            matches!(decide(residual, asking), Decision::Deny(_))
        };
        if all.iter().find(denied).is_some() {
            return Err("a tool that is measured is denied".to_owned());
        }
        let mut turn = all.iter().cycle();
        Ok(each(self.sizes, self.sizes.often / 10, || {
            let (residual, asking) = black_box(turn.next().unwrap_or(first));
            let _decided = black_box(decide(residual, asking));
        }))
    }
}

/// Tools that run at once.
fn open<'a>(view: &View, names: &'a [String]) -> Vec<&'a str> {
    let free = |name: &&str| {
        let found = view.find(name);
        plain(name) && found.is_some_and(|(_, residual)| residual.hold.is_none())
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
    for round in 0..sizes.rounds {
        // In turn forwards and backwards, so that none always comes after the same other.
        if round > 0 {
            rates.reverse();
        }
        for (classes, rates) in &mut rates {
            let callers = callers.iter().take(*classes).cycle();
            let begun = Instant::now();
            for (who, name) in callers.zip(open.iter().cycle()).take(sizes.calls) {
                let request = Request::new(*name, "{}", Interface::Library);
                let answer = black_box(gateway.call(who, request).await);
                answer.result.map_err(|failure| format!("`{name}`: {}", failure.message))?;
            }
            rates.push(sizes.calls as f64 / begun.elapsed().as_secs_f64());
        }
    }
    rates.sort_unstable_by_key(|(classes, _)| *classes);
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
        assert_eq!(text.matches("\n| ").count(), 18, "{text}");
    }
}
