//! One version of a plugin: a state of its folder and settings, ready to be called.

mod module;
mod needed;
mod plan;
mod served;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sandbox::process::{EnvValue, Spec};
use sandbox::{Cage, Tier};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::plugin::PluginTool;
use tool::{Digest, Executor, Item, Json, Offer, Problem, Tool, ToolName, Traits};

use crate::Grant;
use crate::execute::Execute;
use crate::folder::{Content, Copied, Copies};
use crate::grant::{Allowed, Means};
use crate::manifest::{Declared, Kind, Manifest};
use crate::parameters;
use crate::process::{Host, Run};
use crate::settings::Settings;
use plan::Plan;
use served::Served;
pub(crate) use served::listed;

/// What runs Python plugins, told on its command line.
const WORKER: &str = include_str!("worker.py");
/// Where a cage sees programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a server that wants the net is not run.
const NO_NET: &str = "it needs the network, and an MCP server in a cage has no way to it";
/// What helps there.
const OWN_SOURCE: &str =
    "write the server as a source of its own: `sources: [{ name: NAME, mcp: { command: … } }]`";

/// What versions are made with.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) means: Means,
    pub(crate) copies: Copies,
    pub(crate) tier: Result<Tier, String>,
    pub(crate) runtime: Handle,
    pub(crate) tasks: TaskTracker,
    pub(crate) end: CancellationToken,
}

/// A version that was made.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) manifest: Manifest,
    pub(crate) digest: Digest,
    pub(crate) settings: Settings,
    pub(crate) grant: Grant,
    pub(crate) offers: Vec<Offer>,
    /// What runs it, where it is no server.
    pub(crate) host: Option<Arc<Host>>,
    /// The server that it is, where it is one.
    pub(crate) served: Option<Box<Served>>,
    /// What a server says of itself.
    pub(crate) about: Option<Json>,
    pub(crate) aliases: Vec<(ToolName, ToolName)>,
    pub(crate) tools: Vec<PluginTool>,
    pub(crate) problems: Vec<Problem>,
    /// Whether something of it is the plugin's own fault: it does not take the place of one that works.
    pub(crate) broken: bool,
    /// Whether that is all that is wrong: nothing started. The machine may be short of something.
    pub(crate) unstarted: bool,
}

/// What runs a version.
pub(crate) enum Runs {
    Host(Arc<Host>),
    Server(Box<Served>),
}

impl Maker {
    /// Makes a version of what is in a folder. What is wrong with it is in it; `Err` where there is no
    /// manifest that can be used.
    pub(crate) async fn make(
        &self,
        content: &Content,
        place: &str,
        (manifest, settings): (Manifest, Settings),
        grant: &Grant,
    ) -> Version {
        let mut plan = Plan::new(content, place, manifest, settings);
        let (values, told) = plan.settings.values(&plan.manifest.settings_schema);
        plan.problems.extend(told.into_iter().map(|told| {
            Problem::new(place, format!("the settings: {told}"))
                .fix("the default counts until it is mended")
        }));
        let runs = if plan.on() {
            self.run(&mut plan, content, grant, &Value::Object(values)).await
        } else {
            plan.all_off("the plugin is switched off");
            None
        };
        Self::finish(plan, content.digest, grant, runs)
    }

    async fn run(
        &self,
        plan: &mut Plan,
        content: &Content,
        grant: &Grant,
        values: &Value,
    ) -> Option<Runs> {
        let is_server = matches!(plan.manifest.kind, Kind::Mcp(_));
        if is_server && !plan.manifest.needs.network.is_empty() {
            plan.withheld(NO_NET, Some(OWN_SOURCE.to_owned()));
            return None;
        }
        let allowed = match Allowed::of(&plan.manifest.needs, grant, &plan.manifest.name) {
            Ok(allowed) => Arc::new(allowed),
            Err((why, fix)) => {
                plan.withheld(&why, Some(fix));
                return None;
            }
        };
        if let Err(why) = &self.tier {
            plan.withheld(&format!("no cage can be made for it: {why}"), None);
            return None;
        }
        if plan.manifest.kind == Kind::Python {
            plan.resolve(content);
        }
        self.programs(plan, &allowed).await;
        if !plan.wants_process() {
            return None;
        }
        match self.begin(plan, content, (allowed, values)).await {
            Ok(runs) => Some(runs),
            Err(why) => {
                (plan.broken, plan.unstarted) = (true, true);
                let what = if is_server { "server" } else { "process" };
                plan.withheld(&format!("its {what} does not start: {why}"), None);
                None
            }
        }
    }

    async fn begin(
        &self,
        plan: &mut Plan,
        content: &Content,
        (allowed, values): (Arc<Allowed>, &Value),
    ) -> Result<Runs, String> {
        let copy = self.copies.write(content).map_err(|error| error.to_string())?;
        let mut spec = self.spec(&plan.manifest, &copy, &allowed)?;
        if matches!(plan.manifest.kind, Kind::Mcp(_)) {
            spec.env.extend(served::environment(values, &allowed)?);
            let served = self.serve(plan, (copy, spec)).await?;
            return Ok(Runs::Server(Box::new(served)));
        }
        let run = Run {
            plugin: plan.manifest.name.clone(),
            launcher: self.means.launcher.clone(),
            spec,
            hello: hello(plan, &copy.path, (values, &allowed)),
            allowed,
            egress: self.means.egress.clone(),
            clock: Arc::clone(&self.means.clock),
            ready: self.means.ready,
            runtime: self.runtime.clone(),
            tasks: self.tasks.clone(),
            end: self.end.clone(),
            _copy: copy,
        };
        let host = Arc::new(Host::new(run));
        for told in &host.begin().await? {
            plan.tell(told);
        }
        Ok(Runs::Host(host))
    }

    fn spec(&self, manifest: &Manifest, copy: &Copied, allowed: &Allowed) -> Result<Spec, String> {
        let mut words = match &manifest.kind {
            Kind::Python => {
                let python =
                    self.means.python.clone().or_else(|| needed::found("python3", allowed));
                let python = python.ok_or("there is no python3 on this machine")?;
                let flags = ["-I", "-B", "-u", "-c", WORKER].map(str::to_owned);
                std::iter::once(python.display().to_string()).chain(flags).collect()
            }
            Kind::Command(words) | Kind::Mcp(words) => needed::placed(words, &copy.path, allowed)?,
        };
        let command = words.remove(0);
        let mut cage = Cage::new(self.tier.clone()?);
        cage.readable = std::iter::once(copy.path.clone())
            .chain(allowed.read.iter().cloned())
            .chain(allowed.programs.iter().cloned())
            .collect();
        cage.work.clone_from(&allowed.write);
        cage.share = allowed.share;
        Ok(Spec {
            command,
            args: words,
            env: environment(allowed),
            clear_env: true,
            cwd: Some(copy.path.clone()),
            cage: Some(cage),
        })
    }

    fn finish(plan: Plan, digest: Digest, grant: &Grant, runs: Option<Runs>) -> Version {
        let Plan { manifest, settings, mut problems, mut off, broken, place, unstarted } = plan;
        let (mut offers, mut aliases) = (Vec::new(), Vec::new());
        for (declared, off) in manifest.tools.iter().zip(&mut off) {
            let (Some(runs), None) = (&runs, &off) else { continue };
            match offer(&manifest, declared, digest, (grant, runs)) {
                Ok((offer, alias)) => {
                    offers.push(offer);
                    aliases.extend(alias);
                }
                Err(why) => {
                    problems.push(Problem::new(place.as_str(), why.clone()));
                    *off = Some(why);
                }
            }
        }
        let tools = manifest.tools.iter().zip(off).map(|(tool, why)| PluginTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            category: tool.category.clone(),
            enabled: why.is_none(),
            parameters: tool.parameters.clone(),
            why,
        });
        let tools = tools.collect();
        let grant = grant.clone();
        let (host, served) = match runs {
            None => (None, None),
            Some(Runs::Host(host)) => (Some(host), None),
            Some(Runs::Server(served)) => (None, Some(served)),
        };
        offers.extend(served.iter().flat_map(|served| served.beside()));
        let about = served.as_ref().and_then(|served| served.about());
        Version {
            manifest,
            digest,
            settings,
            grant,
            offers,
            host,
            served,
            about,
            aliases,
            tools,
            problems,
            broken,
            unstarted,
        }
    }
}

/// The first line of a process.
fn hello(plan: &Plan, folder: &Path, (values, allowed): (&Value, &Allowed)) -> Bytes {
    let tools = plan.manifest.tools.iter().zip(&plan.off).filter(|(_, off)| off.is_none());
    let tools = tools.map(|(tool, _)| {
        let (named, required, _) = parameters::names(&tool.input);
        let defaults = tool.input.get("properties").and_then(Value::as_object);
        let defaults = defaults.into_iter().flatten().filter(|(_, it)| it.get("default").is_some());
        let defaults: Vec<_> = defaults.map(|(name, _)| name).collect();
        json!({
            "name": tool.name, "module": tool.module, "function": tool.function,
            "parameters": named, "required": required, "defaults": defaults,
            "dependencies": needed::python(&tool.dependencies),
        })
    });
    let tools: Vec<_> = tools.collect();
    let hello = json!({
        "hello": 1,
        "plugin": plan.manifest.name,
        "version": plan.manifest.version,
        "folder": folder.display().to_string(),
        "settings": values,
        "read": allowed.read,
        "write": allowed.write,
        "dependencies": needed::python(&plan.manifest.dependencies),
        "tools": tools,
    });
    Bytes::from(format!("{hello}\n"))
}

fn environment(allowed: &Allowed) -> Vec<(String, EnvValue)> {
    let programs = allowed.programs.iter().map(|path| path.display().to_string());
    let path: Vec<_> = programs.chain([PATH.to_owned()]).collect();
    let home = allowed.write.as_ref().map_or("/tmp".to_owned(), |path| path.display().to_string());
    [
        ("PATH", path.join(":")),
        ("HOME", home),
        ("LANG", "C.UTF-8".to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value.into()))
    .into()
}

/// A tool as it is offered, and its bare name.
fn offer(
    manifest: &Manifest,
    declared: &Declared,
    digest: Digest,
    (grant, runs): (&Grant, &Runs),
) -> Result<(Offer, Option<(ToolName, ToolName)>), String> {
    let name = ToolName::new(format!("{}.{}", manifest.name, declared.name));
    let name = name.map_err(|error| error.to_string())?;
    let alias = ToolName::new(&declared.name).ok().map(|alias| (alias, name.clone()));
    let tool = Tool {
        name,
        title: None,
        description: declared.description.clone(),
        input: Json::of(&declared.input),
        output: None,
        traits: traits(manifest, declared, grant),
        received: pinned(manifest, digest, &declared.received),
    };
    let offer = match runs {
        Runs::Host(host) => {
            let (host, tool_of) = (Arc::clone(host), declared.name.clone());
            let executor: Arc<dyn Executor> = Arc::new(Execute { host, tool: tool_of });
            Offer { item: Item::Tool(Arc::new(tool)), executor }
        }
        Runs::Server(served) => {
            let found = served.offer(manifest, &declared.name);
            let (of, offer) = found.ok_or("the server does not list it")?;
            let (title, output) = (of.title.clone(), of.output.clone());
            let received = pinned(manifest, digest, &of.received);
            let tool = Tool { title, output, received, ..tool };
            served.through(offer, Item::Tool(Arc::new(tool)))
        }
    };
    Ok((offer, alias))
}

/// What the manifest says, and what the whole plugin reaches for. Its cage sees no folders of this machine
/// but those that are granted: whatever a call names or leaves out, it is in one of them.
fn traits(manifest: &Manifest, declared: &Declared, grant: &Grant) -> Traits {
    let mut traits = declared.traits.clone();
    for scope in manifest.needs.scopes() {
        if !traits.scopes.contains(&scope) {
            traits.scopes.push(scope);
        }
    }
    if let Ok(allowed) = Allowed::of(&manifest.needs, grant, &manifest.name) {
        let granted = allowed.read.iter().chain(&allowed.write);
        let granted: Option<Vec<_>> =
            granted.map(|path| path.to_str().map(str::to_owned)).collect();
        traits.base_folders = granted.filter(|granted| !granted.is_empty());
    }
    traits
}

/// What a pin holds: the whole folder, and the definition as it came.
fn pinned(manifest: &Manifest, digest: Digest, definition: &Json) -> Json {
    Json::fields([
        ("plugin", &Json::of(&manifest.name)),
        ("version", &Json::of(&manifest.version)),
        ("content", &Json::of(&digest)),
        ("tool", definition),
    ])
}
