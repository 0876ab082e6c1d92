//! What decisions are measured on: a catalog, a policy of six layers, callers each of a class of its own.

use std::sync::Arc;
use std::time::Duration;

use ::policy::{At, Effect, Layer, Pattern, Policy, Rule, Rules, ScopeRule, Word};
use catalog::{Catalog, Current, Shelf};
use gateway::{Gateway, Options, Parts};
use identity::{Delegation, KeyId, KeyRing, Narrowing, NewKey, Persona, Principal};
use serde_json::json;
use tool::executor::{Credential, Credentials};
use tool::{
    Boxed, Caller, Clock, Context, Durability, Effects, End, ExecuteError, Executor, Granted,
    Intent, Item, Json, Ledger, LedgerError, Level, Listing, Mono, Offer, Org, Outcome, Refusal,
    Scope, Secret, SourceName, Step, Ticket, Tool, ToolName, Traits, Trust, Waited, Wall,
};

/// When it is.
pub(super) const NOW: Wall = Wall(1_795_000_000_000);

pub(super) fn name(at: usize) -> String {
    format!("module{}.tool{at}", at % 50)
}

/// Tools that have a rule of their own.
pub(super) fn conditional(name: &str) -> bool {
    name.ends_with("77")
}

/// Tools that may reach for files beneath some folders.
pub(super) fn reaches_files(name: &str) -> bool {
    name.ends_with("33")
}

/// All others.
pub(super) fn plain(name: &str) -> bool {
    !conditional(name) && !reaches_files(name)
}

/// A gateway over so many tools, with rules for so many classes.
pub(super) fn gateway(tools: usize, classes: usize) -> Result<Gateway, String> {
    let offers = (0..tools).map(|at| {
        let item = Item::Tool(Arc::new(tool(at)?));
        Ok(Offer { item, executor: Arc::new(Nothing) as Arc<dyn Executor> })
    });
    let listing = Listing { offers: offers.collect::<Result<_, String>>()?, ..Listing::default() };
    let source = SourceName::new("s").map_err(|error| error.to_string())?;
    let shelf = Shelf::starting(source, "test", Trust::Full).listed(&Org::default(), listing);
    let catalog = Catalog::merge(1, vec![Arc::new(shelf)]);
    Ok(Gateway::new(Parts {
        current: Arc::new(Current::new(catalog, rules(tools, classes)?)),
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

/// The layer of a role: each takes another tool away, so that no two classes see the same.
fn role(at: usize, tools: usize) -> Result<Layer, String> {
    let mut role = layer(at % 50)?;
    role.deny.push(Pattern::new(name(tools.saturating_sub(at + 1)))?);
    Ok(role)
}

fn rules(tools: usize, classes: usize) -> Result<Policy, String> {
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
    let roles = (0..classes).map(|at| Ok((format!("r{at}"), role(at, tools)?)));
    let beneath = ScopeRule {
        allowed_paths: Some(vec!["/srv/".to_owned(), "/var/lib/".to_owned()]),
        ..ScopeRule::default()
    };
    let rules = Rules {
        global: Layer { rules: vec![rule], ..layer(1)? },
        orgs: named("default", 2)?,
        roles: roles.collect::<Result<_, String>>()?,
        personas: named("p", 3)?,
        tasks: named("math", 4)?,
        scopes: [(Scope::Filesystem, beneath)].into(),
        ..Rules::default()
    };
    Policy::new(rules).map_err(|slips| format!("{slips:?}"))
}

/// A caller of a class of its own.
pub(super) fn caller(at: usize) -> Result<Principal, String> {
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
    // A key that was handed on holds by the one above it.
    let above = KeyId::new("k").map_err(|error| error.to_string())?;
    let above = NewKey { id: above, delegations: Vec::new(), ..key.clone() };
    let issued = |key: NewKey| key.issue([7; 32], Wall(0)).map_err(|error| error.to_string());
    let (secret, record) = issued(key)?;
    let ring = KeyRing::new([issued(above)?.1, record]);
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
        scopes: match at {
            _ if reaches_files(&name) => vec![Scope::Filesystem],
            at if at.is_multiple_of(7) => vec![Scope::Network],
            _ => vec![],
        },
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
