//! Build plan of a plugin version: the disabled tools and the reasons, before anything runs.

use tool::Problem;

use super::module_lookup;
use crate::manifest::{PluginManifest, PluginRuntime, PluginToolDeclaration};
use crate::plugin_folder::FolderContent;
use crate::plugin_process::ReportedProblem;
use crate::settings::PluginSettings;

/// Build plan of a version.
#[derive(Debug, Clone)]
pub(super) struct BuildPlan {
    pub(super) manifest_path: String,
    pub(super) manifest: PluginManifest,
    pub(super) settings: PluginSettings,
    pub(super) problems: Vec<Problem>,
    /// Reason why each tool is disabled, if it is.
    pub(super) disabled_reasons: Vec<Option<String>>,
    pub(super) is_broken: bool,
    /// Whether the problem is a failed start, for which the machine may be the cause.
    pub(super) failed_to_start: bool,
}

impl BuildPlan {
    pub(super) fn new(
        content: &FolderContent,
        manifest_path: &str,
        manifest: PluginManifest,
        settings: PluginSettings,
    ) -> Self {
        let mut problems: Vec<Problem> = manifest
            .warnings
            .iter()
            .map(|message| Problem::new(manifest_path, message.as_str()))
            .collect();
        let skipped = content.skipped.iter().take(10).map(|path| {
            let message = format!("`{}` is omitted", path.escape_debug());
            Problem::new(manifest_path, message)
                .with_help("a plugin can only contain regular files; copy the file there")
        });
        problems.extend(skipped);
        problems.extend(settings.problems.iter().cloned());
        let is_on = |tool: &PluginToolDeclaration| {
            settings.tool_overrides.get(&tool.name).copied().unwrap_or(tool.is_enabled)
        };
        let disabled_reasons = manifest
            .tools
            .iter()
            .map(|tool| (!is_on(tool)).then(|| "it is disabled".to_owned()))
            .collect();
        let mut plan = Self {
            manifest_path: manifest_path.to_owned(),
            manifest,
            settings,
            problems,
            disabled_reasons,
            is_broken: false,
            failed_to_start: false,
        };
        // The server's listing is not known yet.
        if !matches!(plan.manifest.kind, PluginRuntime::Mcp(_)) {
            plan.check_overrides();
        }
        plan
    }

    /// Reports settings for unknown tools.
    pub(super) fn check_overrides(&mut self) {
        let known = |name: &String| self.manifest.tools.iter().any(|tool| tool.name == *name);
        for name in self.settings.tool_overrides.keys().filter(|name| !known(name)) {
            let message = format!(
                "the settings name the tool `{}`, which does not \
                    exist",
                name.escape_debug()
            );
            self.problems.push(Problem::new(self.manifest_path.as_str(), message));
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.settings.enabled.unwrap_or(self.manifest.is_enabled)
    }

    /// Disables all tools that are still enabled.
    pub(super) fn disable_tools(&mut self, message: &str) {
        for reason in &mut self.disabled_reasons {
            reason.get_or_insert_with(|| message.to_owned());
        }
    }

    /// Disables all tools because of a problem that the user can correct.
    pub(super) fn disable_with_problem(&mut self, reason: &str, fix: Option<String>) {
        self.problems.push(Problem {
            location: self.manifest_path.clone(),
            message: reason.to_owned(),
            help: fix,
        });
        self.disable_tools(reason);
    }

    pub(super) fn add_problem(&mut self, problem: &ReportedProblem) {
        self.is_broken |= !problem.is_missing;
        let fix = if problem.is_missing {
            "install it where the plugin runs, or disable the tool".to_owned()
        } else {
            correction_help(&problem.message)
        };
        let Some(name) = &problem.tool else {
            return self.disable_with_problem(&problem.message, Some(fix));
        };
        let tool_path = format!("{} tool `{}`", self.manifest_path, name.escape_debug());
        self.problems.push(Problem::new(tool_path, problem.message.clone()).with_help(fix));
        let tool_index = self.manifest.tools.iter().position(|tool| tool.name == *name);
        if let Some(disabled_reason) = tool_index.and_then(|at| self.disabled_reasons.get_mut(at)) {
            disabled_reason.get_or_insert_with(|| problem.message.clone());
        }
    }

    /// Finds the file of each module.
    pub(super) fn resolve_modules(&mut self, content: &FolderContent) {
        let mut problems = Vec::new();
        let plugin = self.manifest.name.clone();
        for tool in &mut self.manifest.tools {
            match module_lookup::find_module_file(content, &tool.module, &plugin) {
                Some(file) => tool.module = file,
                None => problems.push(ReportedProblem {
                    tool: Some(tool.name.clone()),
                    is_missing: false,
                    message: format!("the module `{}` does not exist in the folder", tool.module),
                }),
            }
        }
        for problem in &problems {
            self.add_problem(problem);
        }
    }

    pub(super) fn needs_process(&self) -> bool {
        // The server's other tools are known only after it has listed them.
        matches!(self.manifest.kind, PluginRuntime::Mcp(_))
            || self.disabled_reasons.iter().any(Option::is_none)
    }
}

/// Returns advice for a fault in the code. The message ends with file and line, if known.
fn correction_help(message: &str) -> String {
    let location = message.strip_suffix(')').and_then(|message| Some(message.rsplit_once('(')?.1));
    match location.filter(|place| place.contains(" line ")) {
        Some(place) => {
            format!("correct {place}; the plugin is loaded again when the file is saved")
        }
        None => "correct the plugin's code; it is loaded again when a file is saved".to_owned(),
    }
}
