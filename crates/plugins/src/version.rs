//! One version of a plugin: a state of its folder and settings, ready to be called.

mod module;
mod needed;
mod plan;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use guard::process::{EnvValue, Spec};
use guard::sandbox::{Cage, Tier};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::plugin::PluginTool;
use tool::{Digest, Executor, Item, Json, Offer, Problem, Tool, ToolName};

use crate::execute::Execute;
use crate::folder::{Content, Copied, Copies};
use crate::grant::{Allowed, Grant, Means};
use crate::manifest::{Declared, Kind, Manifest};
use crate::parameters;
use crate::process::{Host, Run, Told};
use crate::settings::Settings;
use plan::Plan;

/// What runs Python plugins, told on its command line.
const WORKER: &str = include_str!("worker.py");
/// Where a cage sees programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
    /// What runs it, where anything does.
    pub(crate) host: Option<Arc<Host>>,
    pub(crate) aliases: Vec<(ToolName, ToolName)>,
    pub(crate) tools: Vec<PluginTool>,
    pub(crate) problems: Vec<Problem>,
    /// Whether something of it is the plugin's own fault: it does not take the place of one that works.
    pub(crate) broken: bool,
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
        let host = if plan.on() {
            self.host(&mut plan, content, grant, &Value::Object(values)).await
        } else {
            plan.all_off("the plugin is switched off");
            None
        };
        Self::finish(plan, content.digest, grant, host)
    }

    async fn host(
        &self,
        plan: &mut Plan,
        content: &Content,
        grant: &Grant,
        values: &Value,
    ) -> Option<Arc<Host>> {
        if matches!(plan.manifest.kind, Kind::Mcp(_)) {
            let fix = "write the server as a source of its own: `sources: [{ name: …, mcp: { command: … } }]`";
            plan.withheld("plugins of the kind mcp are not run yet", Some(fix.to_owned()));
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
        needed::commands(plan, &allowed);
        if !plan.wants_process() {
            return None;
        }
        match self.begin(plan, content, (allowed, values)).await {
            Ok((host, told)) => {
                for told in &told {
                    plan.tell(told);
                }
                Some(host)
            }
            Err(why) => {
                plan.broken = true;
                plan.withheld(&format!("its process does not start: {why}"), None);
                None
            }
        }
    }

    async fn begin(
        &self,
        plan: &Plan,
        content: &Content,
        (allowed, values): (Arc<Allowed>, &Value),
    ) -> Result<(Arc<Host>, Vec<Told>), String> {
        let copy = self.copies.write(content).map_err(|error| error.to_string())?;
        let spec = self.spec(&plan.manifest, &copy, &allowed)?;
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
        let told = host.begin().await?;
        Ok((host, told))
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

    fn finish(plan: Plan, digest: Digest, grant: &Grant, host: Option<Arc<Host>>) -> Version {
        let Plan { manifest, settings, mut problems, mut off, broken, place } = plan;
        let (mut offers, mut aliases) = (Vec::new(), Vec::new());
        for (declared, off) in manifest.tools.iter().zip(&mut off) {
            let (Some(host), None) = (&host, &off) else { continue };
            match offer(&manifest, declared, digest, host) {
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
        Version {
            manifest,
            digest,
            settings,
            grant,
            offers,
            host,
            aliases,
            tools,
            problems,
            broken,
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
    host: &Arc<Host>,
) -> Result<(Offer, Option<(ToolName, ToolName)>), String> {
    let name = ToolName::new(format!("{}.{}", manifest.name, declared.name));
    let name = name.map_err(|error| error.to_string())?;
    let mut traits = declared.traits.clone();
    for scope in manifest.needs.scopes() {
        if !traits.scopes.contains(&scope) {
            traits.scopes.push(scope);
        }
    }
    let received = Json::fields([
        ("plugin", &Json::of(&manifest.name)),
        ("version", &Json::of(&manifest.version)),
        ("content", &Json::of(&digest)),
        ("tool", &declared.received),
    ]);
    let tool = Tool {
        name: name.clone(),
        title: None,
        description: declared.description.clone(),
        input: Json::of(&declared.input),
        output: None,
        traits,
        received,
    };
    let executor: Arc<dyn Executor> =
        Arc::new(Execute { host: Arc::clone(host), tool: declared.name.clone() });
    let alias = ToolName::new(&declared.name).ok().map(|alias| (alias, name));
    Ok((Offer { item: Item::Tool(Arc::new(tool)), executor }, alias))
}
