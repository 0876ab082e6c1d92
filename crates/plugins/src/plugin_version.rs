//! Plugin version: a state of the folder and settings, ready for calls.

mod catalog_items;
mod dependencies;
mod mcp_version;
mod module_lookup;
mod plan;
mod version_backend;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sandbox::process::{CommandSpec, EnvValue};
use sandbox::{SandboxLevel, SandboxSpec};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tool::plugin_admin::PluginTool;
use tool::source::ToolAlias;
use tool::{Digest, Json, Offer, Problem};

use crate::AccessGrant;
use crate::access::{EffectiveAccess, PluginRuntimeConfig};
use crate::manifest::{PluginManifest, PluginRuntime};
use crate::parameter_schema;
use crate::plugin_folder::{CopyStore, FolderContent, FolderCopy};
use crate::plugin_process::{LaunchSpec, ProcessSupervisor};
use crate::settings::PluginSettings;
use catalog_items::catalog_item;
use mcp_version::McpBackend;
pub(crate) use mcp_version::fetch_listing;
use plan::BuildPlan;
pub(crate) use version_backend::VersionBackend;

/// Source of the Python worker, passed on the command line.
const WORKER_SOURCE: &str = include_str!("worker.py");
/// Search path of programs inside the sandbox.
const SANDBOX_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Reason why an MCP server that needs the network is not started.
const NETWORK_UNAVAILABLE: &str =
    "it needs network access, which a sandboxed MCP server does not have";
/// Advice for plugins that cannot be attached here.
const SEPARATE_SOURCE_HELP: &str =
    "configure the server as a separate source: `sources: [{ name: NAME, mcp: { command: … } }]`";

/// Builder of plugin versions.
#[derive(Debug)]
pub(crate) struct VersionBuilder {
    pub(crate) config: PluginRuntimeConfig,
    pub(crate) copy_store: CopyStore,
    pub(crate) sandbox_tier: Result<SandboxLevel, String>,
    pub(crate) runtime: Handle,
    pub(crate) tasks: TaskTracker,
    pub(crate) cancellation: CancellationToken,
}

/// A built plugin version.
#[derive(Debug)]
pub(crate) struct PluginVersion {
    pub(crate) manifest: PluginManifest,
    pub(crate) content_digest: Digest,
    pub(crate) settings: PluginSettings,
    pub(crate) grant: AccessGrant,
    pub(crate) offers: Vec<Offer>,
    /// What runs its tools; `None` if it is disabled or cannot run.
    pub(crate) backend: Option<VersionBackend>,
    /// Server information that an MCP server reports.
    pub(crate) server_info: Option<Json>,
    pub(crate) aliases: Vec<ToolAlias>,
    pub(crate) tools: Vec<PluginTool>,
    pub(crate) problems: Vec<Problem>,
    /// Whether the plugin itself has a fault; such a version does not replace a working one.
    pub(crate) is_broken: bool,
    /// Whether the only problem is a failed start, for which the machine may be the cause.
    pub(crate) failed_to_start: bool,
}

impl VersionBuilder {
    /// Builds a version of a folder's content, with its problems. `Err` without a usable manifest.
    pub(crate) async fn build_version(
        &self,
        content: &FolderContent,
        manifest_path: &str,
        (manifest, settings): (PluginManifest, PluginSettings),
        grant: &AccessGrant,
    ) -> PluginVersion {
        let mut plan = BuildPlan::new(content, manifest_path, manifest, settings);
        let (values, setting_errors) =
            plan.settings.effective_values(&plan.manifest.settings_schema);
        plan.problems.extend(setting_errors.into_iter().map(|error| {
            Problem::new(manifest_path, format!("the settings: {error}"))
                .with_help("the default is used until it is corrected")
        }));
        let backend = if plan.is_enabled() {
            self.start_backend(&mut plan, content, grant, &Value::Object(values)).await
        } else {
            plan.disable_tools("the plugin is disabled");
            None
        };
        Self::finish_version(plan, content.digest, grant, backend)
    }

    async fn start_backend(
        &self,
        plan: &mut BuildPlan,
        content: &FolderContent,
        grant: &AccessGrant,
        values: &Value,
    ) -> Option<VersionBackend> {
        let is_server = matches!(plan.manifest.kind, PluginRuntime::Mcp(_));
        if is_server && !plan.manifest.requested_access.network_hosts.is_empty() {
            plan.disable_with_problem(NETWORK_UNAVAILABLE, Some(SEPARATE_SOURCE_HELP.to_owned()));
            return None;
        }
        let allowed = match EffectiveAccess::resolve(
            &plan.manifest.requested_access,
            grant,
            &plan.manifest.name,
        ) {
            Ok(allowed) => Arc::new(allowed),
            Err((why, fix)) => {
                plan.disable_with_problem(&why, Some(fix));
                return None;
            }
        };
        if let Err(why) = &self.sandbox_tier {
            plan.disable_with_problem(&format!("no sandbox is available for it: {why}"), None);
            return None;
        }
        if plan.manifest.kind == PluginRuntime::Python {
            plan.resolve_modules(content);
        }
        self.check_programs(plan, &allowed).await;
        if !plan.needs_process() {
            return None;
        }
        match self.launch_backend(plan, content, (allowed, values)).await {
            Ok(backend) => Some(backend),
            Err(why) => {
                (plan.is_broken, plan.failed_to_start) = (true, true);
                let what = if is_server { "server" } else { "process" };
                plan.disable_with_problem(&format!("its {what} does not start: {why}"), None);
                None
            }
        }
    }

    async fn launch_backend(
        &self,
        plan: &mut BuildPlan,
        content: &FolderContent,
        (allowed, values): (Arc<EffectiveAccess>, &Value),
    ) -> Result<VersionBackend, String> {
        let copy = self.copy_store.copy_content(content).map_err(|error| error.to_string())?;
        let mut spec = self.command_spec(&plan.manifest, &copy, &allowed)?;
        if matches!(plan.manifest.kind, PluginRuntime::Mcp(_)) {
            spec.env.extend(mcp_version::server_environment(values, &allowed)?);
            let mcp_backend = self.start_server(plan, (copy, spec)).await?;
            return Ok(VersionBackend::McpServer(Box::new(mcp_backend)));
        }
        let launch_spec = LaunchSpec {
            plugin_name: plan.manifest.name.clone(),
            launcher: self.config.launcher.clone(),
            spec,
            hello_line: hello_line(plan, &copy.path, (values, &allowed)),
            access: allowed,
            egress: self.config.egress.clone(),
            clock: Arc::clone(&self.config.clock),
            startup_timeout: self.config.startup_timeout,
            runtime: self.runtime.clone(),
            tasks: self.tasks.clone(),
            cancellation: self.cancellation.clone(),
            _copy: copy,
        };
        let supervisor = Arc::new(ProcessSupervisor::new(launch_spec));
        for problem in &supervisor.start_first().await? {
            plan.add_problem(problem);
        }
        Ok(VersionBackend::Process(supervisor))
    }

    fn command_spec(
        &self,
        manifest: &PluginManifest,
        copy: &FolderCopy,
        allowed: &EffectiveAccess,
    ) -> Result<CommandSpec, String> {
        let mut words = match &manifest.kind {
            PluginRuntime::Python => {
                let python = self
                    .config
                    .python_path
                    .clone()
                    .or_else(|| dependencies::find_program("python3", allowed));
                let python = python.ok_or("python3 is not installed")?;
                let flags = ["-I", "-B", "-u", "-c", WORKER_SOURCE].map(str::to_owned);
                std::iter::once(python.display().to_string()).chain(flags).collect()
            }
            PluginRuntime::Command(words) | PluginRuntime::Mcp(words) => {
                dependencies::resolve_command(words, &copy.path, allowed)?
            }
        };
        let command = words.remove(0);
        let mut sandbox = SandboxSpec::new(self.sandbox_tier.clone()?);
        sandbox.readable_paths = std::iter::once(copy.path.clone())
            .chain(allowed.readable_paths.iter().cloned())
            .chain(allowed.program_folders.iter().cloned())
            .collect();
        sandbox.work_dir.clone_from(&allowed.writable_path);
        sandbox.limits = allowed.limits;
        Ok(CommandSpec {
            command,
            args: words,
            env: process_environment(allowed),
            clear_env: true,
            cwd: Some(copy.path.clone()),
            sandbox: Some(sandbox),
        })
    }

    fn finish_version(
        plan: BuildPlan,
        digest: Digest,
        grant: &AccessGrant,
        backend: Option<VersionBackend>,
    ) -> PluginVersion {
        let BuildPlan {
            manifest,
            settings,
            mut problems,
            mut disabled_reasons,
            is_broken,
            manifest_path,
            failed_to_start,
        } = plan;
        let (mut offers, mut aliases) = (Vec::new(), Vec::new());
        for (declared, disabled_reason) in manifest.tools.iter().zip(&mut disabled_reasons) {
            let (Some(backend), None) = (&backend, &disabled_reason) else { continue };
            match catalog_item(&manifest, declared, digest, (grant, backend)) {
                Ok((offer, alias)) => {
                    offers.push(offer);
                    aliases.extend(alias);
                }
                Err(why) => {
                    problems.push(Problem::new(manifest_path.as_str(), why.clone()));
                    *disabled_reason = Some(why);
                }
            }
        }
        let tools =
            manifest.tools.iter().zip(disabled_reasons).map(|(tool, disabled_reason)| PluginTool {
                name: tool.name.clone(),
                description: tool.description.clone(),
                category: tool.category.clone(),
                is_enabled: disabled_reason.is_none(),
                parameters: tool.parameters.clone(),
                disabled_reason,
            });
        let tools = tools.collect();
        let mcp_backend = backend.as_ref().and_then(VersionBackend::mcp_backend);
        offers.extend(mcp_backend.into_iter().flat_map(McpBackend::companion_items));
        let server_info = mcp_backend.and_then(McpBackend::server_info);
        PluginVersion {
            manifest,
            content_digest: digest,
            settings,
            grant: grant.clone(),
            offers,
            backend,
            server_info,
            aliases,
            tools,
            problems,
            is_broken,
            failed_to_start,
        }
    }
}

/// Builds the first line that a process receives: settings, granted paths and tools.
fn hello_line(
    plan: &BuildPlan,
    folder: &Path,
    (values, allowed): (&Value, &EffectiveAccess),
) -> Bytes {
    let tools = plan
        .manifest
        .tools
        .iter()
        .zip(&plan.disabled_reasons)
        .filter(|(_, reason)| reason.is_none());
    let tools = tools.map(|(tool, _)| {
        let parameters = parameter_schema::parameter_names(&tool.input_schema);
        let defaults = tool.input_schema.get("properties").and_then(Value::as_object);
        let defaults =
            defaults.into_iter().flatten().filter(|(_, schema)| schema.get("default").is_some());
        let defaults: Vec<_> = defaults.map(|(name, _)| name).collect();
        json!({
            "name": tool.name, "module": tool.module, "function": tool.function,
            "parameters": parameters.declared, "required": parameters.required, "defaults": defaults,
            "dependencies": dependencies::python_dependencies(&tool.dependencies),
        })
    });
    let tools: Vec<_> = tools.collect();
    let hello = json!({
        "hello": 1,
        "plugin": plan.manifest.name,
        "version": plan.manifest.version,
        "folder": folder.display().to_string(),
        "settings": values,
        "read": allowed.readable_paths,
        "write": allowed.writable_path,
        "dependencies": dependencies::python_dependencies(&plan.manifest.dependencies),
        "tools": tools,
    });
    Bytes::from(format!("{hello}\n"))
}

fn process_environment(allowed: &EffectiveAccess) -> Vec<(String, EnvValue)> {
    let programs = allowed.program_folders.iter().map(|path| path.display().to_string());
    let path: Vec<_> = programs.chain([SANDBOX_PATH.to_owned()]).collect();
    let home =
        allowed.writable_path.as_ref().map_or("/tmp".to_owned(), |path| path.display().to_string());
    [
        ("PATH", path.join(":")),
        ("HOME", home),
        ("LANG", "C.UTF-8".to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value.into()))
    .into()
}
