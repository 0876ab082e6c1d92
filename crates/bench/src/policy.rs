//! `bench policy`: what a decision costs, within the program: there is no network and no disk in these
//! figures.
//!
//! Admitted is one look into a view that is there; rebuilt is a view made anew, as after a change of
//! catalog or policy, or for a rights class that is new; decided is the second stage of one call.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::policy::{
    Asking, At, Effect, Facts, Layer, Pattern, Policy, Rule, Rules, Taint, Word, decide,
};
use arc_swap::ArcSwap;
use catalog::{Catalog, Shelf};
use gateway::{Gateway, Options, Parts, Request, View};
use identity::{Delegation, KeyId, KeyRing, Narrowing, NewKey, Persona, Principal};
use serde_json::json;
use tool::executor::{Credential, Credentials};
use tool::{
    Args, Boxed, Caller, CallerType, Clock, Context, Durability, Effects, End, ExecuteError,
    Executor, Granted, Intent, Item, Json, Ledger, LedgerError, Level, Listing, Mono, Offer, Org,
    Outcome, Refusal, Scope, Secret, SourceName, Step, Ticket, Tool, ToolName, Traits, Trust,
    Waited, Wall,
};

/// When it is.
const NOW: Wall = Wall(1_795_000_000_000);
/// Tools of the catalog.
const TOOLS: usize = 10_000;
/// Rights classes that call in turn.
const CLASSES: &[usize] = &[1, 10, 1_000];
/// Calls of one slice.
const CALLS: usize = 20_000;
/// Slices of each number of classes, in turn; the median counts.
const ROUNDS: usize = 9;
/// How often what takes nanoseconds is done at once.
const OFTEN: usize = 200_000;

/// Measures, and prints.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    if !flags.is_empty() {
        return Err("usage: cargo xtask bench policy".to_owned());
    }
    let gateway = Arc::new(gateway()?);
    let most = CLASSES.iter().copied().max().unwrap_or(1);
    let callers = (0..most).map(caller).collect::<Result<Vec<_>, _>>()?;
    println!("{TOOLS} tools, six layers, {most} rights classes\n");
    println!("| what | figure |\n| --- | ---: |");
    let mut times: Vec<_> = callers.iter().map(|who| rebuilt(&gateway, who)).collect();
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    println!("| a view rebuilt, median | {:.2} ms |", millis(at(50)));
    println!("| a view rebuilt, 99 of 100 within | {:.2} ms |", millis(at(99)));
    let first = callers.first().ok_or("no caller")?;
    let view = gateway.view(first, CallerType::Direct);
    let names: Vec<_> = (0..TOOLS).map(name).collect();
    let mut turn = names.iter().cycle();
    let mut next = || turn.next().map_or("", String::as_str);
    let seen = names.iter().filter(|name| view.find(name).is_some()).count();
    println!("| tools of the view | {seen} |");
    let admitted = each(|| {
        let _found = black_box(view.find(next()));
    });
    println!("| admitted from the view at hand | {admitted:.0} ns |");
    let looked = each(|| {
        let _found = black_box(gateway.view(first, CallerType::Direct).find(next()));
    });
    println!("| the view looked up, and admitted from it | {looked:.0} ns |");
    decided(&view, first, &names)?;
    for (classes, rate) in rates(&gateway, &callers, &names).await {
        println!("| calls a second, one at a time, {classes} rights classes | {rate:.0} |");
    }
    Ok(())
}

fn each(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            (0..OFTEN).for_each(|_| work());
            begun.elapsed().as_secs_f64() * 1e9 / OFTEN as f64
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times.get(ROUNDS / 2).copied().unwrap_or_default()
}

fn rebuilt(gateway: &Gateway, who: &Principal) -> Duration {
    let begun = Instant::now();
    drop(black_box(gateway.view(who, CallerType::Direct)));
    begun.elapsed()
}

/// The second stage: of tools without rules of their own, and of one with a condition.
fn decided(view: &View, who: &Principal, names: &[String]) -> Result<(), String> {
    let args = Args::check(r#"{"env":"test","n":3,"paths":["/srv/a","/srv/b"]}"#);
    let args = args.map_err(|error| error.to_string())?;
    let asking = |name: &str| {
        let (entry, residual) = view.find(name)?;
        let asking = Asking {
            caller: who.caller(),
            rights: who.rights(),
            by: CallerType::Direct,
            tool: Facts::of(&entry.key, &entry.tool),
            args: args.value(),
            now: NOW,
            taint: Taint::default(),
        };
        Some((residual, asking))
    };
    let plain: Vec<_> = names.iter().filter(|name| !name.ends_with("77")).collect();
    let all: Vec<_> = plain.iter().filter_map(|name| asking(name)).collect();
    let mut turn = all.iter().cycle();
    let plain = each(|| {
        let next = turn.next().map(|(residual, asking)| decide(residual, black_box(asking)));
        let _decided = black_box(next);
    });
    println!("| decided | {plain:.0} ns |");
    let ruled = names.iter().filter(|name| name.ends_with("77")).find_map(|name| asking(name));
    let (residual, asking) = ruled.ok_or("no tool has a rule")?;
    let begun = Instant::now();
    let times = OFTEN / 10;
    for _ in 0..times {
        let _decided = black_box(decide(residual, black_box(&asking)));
    }
    let ruled = begun.elapsed().as_secs_f64() * 1e9 / times as f64;
    println!("| decided with a condition in CEL | {ruled:.0} ns |");
    Ok(())
}

/// Calls a second by this many classes in turn. A view for each is there already.
async fn rates(
    gateway: &Arc<Gateway>,
    callers: &[Principal],
    names: &[String],
) -> Vec<(usize, f64)> {
    let view = callers.first().map(|who| gateway.view(who, CallerType::Direct));
    let open = names.iter().filter(|name| !name.ends_with("77"));
    let open = open.filter(|name| view.as_ref().is_some_and(|view| view.find(name).is_some()));
    let open: Vec<_> = open.take(100).collect();
    let mut rates = vec![Vec::new(); CLASSES.len()];
    for _ in 0..ROUNDS {
        for (classes, rates) in CLASSES.iter().zip(&mut rates) {
            let callers = callers.iter().take(*classes).cycle();
            let begun = Instant::now();
            for (who, name) in callers.zip(open.iter().cycle()).take(CALLS) {
                let request = Request::new(name.as_str(), "{}", "library");
                drop(black_box(gateway.call(who, request).await));
            }
            rates.push(CALLS as f64 / begun.elapsed().as_secs_f64());
        }
    }
    let median = |mut rates: Vec<f64>| {
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(ROUNDS / 2).copied().unwrap_or_default()
    };
    CLASSES.iter().copied().zip(rates.into_iter().map(median)).collect()
}

fn name(at: usize) -> String {
    format!("module{}.tool{at}", at % 50)
}

fn gateway() -> Result<Gateway, String> {
    let offers = (0..TOOLS).map(|at| {
        let item = Item::Tool(Arc::new(tool(at)?));
        Ok(Offer { item, executor: Arc::new(Nothing) as Arc<dyn Executor> })
    });
    let listing = Listing { offers: offers.collect::<Result<_, String>>()?, ..Listing::default() };
    let source = SourceName::new("s").map_err(|error| error.to_string())?;
    let shelf = Shelf::starting(source, "test", Trust::Full).listed(&Org::default(), listing);
    let catalog = Catalog::merge(1, vec![Arc::new(shelf)]);
    Ok(Gateway::new(Parts {
        catalog: Arc::new(ArcSwap::from_pointee(catalog)),
        policy: Arc::new(ArcSwap::from_pointee(rules()?)),
        ledger: Arc::new(Nothing),
        clock: Arc::new(Nothing),
        credentials: Arc::new(Nothing),
        mac_key: Secret::new("key"),
        holding: None,
        options: Options::default(),
    }))
}

/// Ten rules in each layer, of each kind.
fn layer(of: usize) -> Result<Layer, String> {
    let denied = (0..10).map(|at| match at % 3 {
        0 => format!("module{of}.tool{at}*9"),
        1 => format!("module{}.tool{}", of + at, of * 100 + at),
        _ => format!("source:away{at}"),
    });
    let pattern = |text: String| Pattern::new(text);
    let deny = denied.map(pattern).collect::<Result<_, _>>()?;
    let allow = ["module*", "group:read", "source:s"].map(Pattern::new);
    let allow = allow.into_iter().collect::<Result<_, _>>()?;
    Ok(Layer { allow: Some(allow), deny, ..Layer::default() })
}

fn rules() -> Result<Policy, String> {
    let when = "args.env == 'prod' && args.paths.exists(p, p.startsWith('/etc/'))";
    let rule = Rule {
        name: "not in production".to_owned(),
        effect: Effect::Deny,
        tools: Some(vec![Pattern::new("*77")?]),
        when: Some(Word { text: when.to_owned(), at: At::default() }),
        time: None,
        examples: Vec::new(),
        at: At::default(),
    };
    let named = |kind: &str, of| Ok::<_, String>([(kind.to_owned(), layer(of)?)].into());
    let roles = CLASSES.iter().copied().max().unwrap_or(1);
    let roles = (0..roles).map(|at| Ok((format!("r{at}"), layer(at % 50)?)));
    let rules = Rules {
        global: Layer { rules: vec![rule], ..layer(1)? },
        orgs: named("default", 2)?,
        roles: roles.collect::<Result<_, String>>()?,
        personas: named("p", 3)?,
        tasks: named("math", 4)?,
        ..Rules::default()
    };
    Policy::new(rules).map_err(|slips| format!("{slips:?}"))
}

/// A caller of a class of its own.
fn caller(at: usize) -> Result<Principal, String> {
    let id = KeyId::new(format!("k{at}")).map_err(|error| error.to_string())?;
    let delegation = Delegation {
        by: "k".to_owned(),
        allow: Some(vec!["module*".to_owned()]),
        deny: vec!["*.tool1234".to_owned()],
        ..Delegation::default()
    };
    let modules = Some(["s".to_owned()].into());
    let key = NewKey {
        level: Level::Owner,
        roles: vec![format!("r{at}")],
        persona: Some(Persona { name: "p".to_owned(), allowed_modules: modules }),
        delegations: vec![delegation],
        ..NewKey::user(id, "ann")
    };
    let (secret, record) = key.issue([7; 32], Wall(0)).map_err(|error| error.to_string())?;
    let ring = KeyRing::new([record]);
    let who = ring.verify(Some(secret.open()), Wall(1)).map_err(|error| error.to_string())?;
    let task_type = Some("math".to_owned());
    Ok(who.narrowed(&Narrowing { task_type, ..Narrowing::default() }))
}

fn tool(at: usize) -> Result<Tool, String> {
    let input = json!({ "type": "object" });
    let name = name(at);
    let received = json!({ "name": name, "description": "A tool.", "inputSchema": input });
    let traits = Traits {
        categories: vec![if at.is_multiple_of(3) { "data" } else { "system" }.to_owned()],
        scopes: if at.is_multiple_of(7) { vec![Scope::Network] } else { vec![] },
        effects: if at.is_multiple_of(5) { Effects::Unknown } else { Effects::read_only() },
        ..Traits::default()
    };
    Ok(Tool {
        name: ToolName::new(name).map_err(|error| error.to_string())?,
        title: None,
        description: "A tool.".to_owned(),
        input: Json::of(&input),
        output: None,
        traits,
        received: Json::of(&received),
    })
}

/// All around a decision, of which nothing is measured: a record that is not kept, a clock that stands
/// still, a tool that gives its arguments back.
#[derive(Debug)]
struct Nothing;

impl Clock for Nothing {
    fn wall(&self) -> Wall {
        NOW
    }
    fn mono(&self) -> Mono {
        Mono(Duration::ZERO)
    }
}

impl Credentials for Nothing {
    fn for_source<'a>(&'a self, _: &'a SourceName, _: &'a Caller) -> Boxed<'a, Credential> {
        Box::pin(async { Credential::None })
    }
}

impl Executor for Nothing {
    fn execute<'a>(
        &'a self,
        call: Granted<'a>,
        _: &'a Context<'a>,
    ) -> Boxed<'a, Result<Step, ExecuteError>> {
        let args = call.call().args.raw().clone();
        Box::pin(async move { Ok(Step::Done(Outcome::value(args))) })
    }
}

impl Ledger for Nothing {
    fn begin(&self, intent: Intent, _: Durability) -> Boxed<'_, Result<Ticket, LedgerError>> {
        Box::pin(async move { Ok(Ticket::issue(intent.call, |_| {})) })
    }
    fn finish(&self, ticket: Ticket, _: End, _: Durability) -> Boxed<'_, Result<(), LedgerError>> {
        let _call = ticket.redeem();
        Box::pin(async { Ok(()) })
    }
    fn wait(&self, _: &Waited) -> Result<(), LedgerError> {
        Ok(())
    }

    fn refuse(&self, _: Refusal) {}
    fn health(&self) -> Result<(), LedgerError> {
        Ok(())
    }
}
