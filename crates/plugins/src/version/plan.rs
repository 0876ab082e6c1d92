//! What is known of a version before anything of it runs: which tools are off, and why.

use tool::Problem;

use super::module;
use crate::folder::Content;
use crate::manifest::{Declared, Kind, Manifest};
use crate::process::Told;
use crate::settings::Settings;

/// What is known before anything runs.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) place: String,
    pub(super) manifest: Manifest,
    pub(super) settings: Settings,
    pub(super) problems: Vec<Problem>,
    /// Of each tool: why it is not offered.
    pub(super) off: Vec<Option<String>>,
    pub(super) broken: bool,
    /// Whether what is wrong is that nothing started, which may be the machine's fault.
    pub(super) unstarted: bool,
}

impl Plan {
    pub(super) fn new(
        content: &Content,
        place: &str,
        manifest: Manifest,
        settings: Settings,
    ) -> Self {
        let mut problems: Vec<Problem> =
            manifest.remarks.iter().map(|told| Problem::new(place, told.as_str())).collect();
        let left = content.left_out.iter().take(10).map(|path| {
            let told = format!("`{}` is left out", path.escape_debug());
            Problem::new(place, told).fix("a plugin is regular files; put the file itself there")
        });
        problems.extend(left);
        problems.extend(settings.problems.iter().cloned());
        let on =
            |tool: &Declared| settings.overrides.get(&tool.name).copied().unwrap_or(tool.enabled);
        let off =
            manifest.tools.iter().map(|tool| (!on(tool)).then(|| "it is switched off".to_owned()));
        let off = off.collect();
        let place = place.to_owned();
        let (broken, unstarted) = (false, false);
        let mut plan = Self { place, manifest, settings, problems, off, broken, unstarted };
        // What a server lists is not known yet.
        if !matches!(plan.manifest.kind, Kind::Mcp(_)) {
            plan.overridden();
        }
        plan
    }

    /// Tells of settings for tools that are not there.
    pub(super) fn overridden(&mut self) {
        let known = |name: &String| self.manifest.tools.iter().any(|tool| tool.name == *name);
        for name in self.settings.overrides.keys().filter(|name| !known(name)) {
            let told =
                format!("the settings name a tool `{}`, which is not there", name.escape_debug());
            self.problems.push(Problem::new(self.place.as_str(), told));
        }
    }

    pub(super) fn on(&self) -> bool {
        self.settings.enabled.unwrap_or(self.manifest.enabled)
    }

    /// Switches all off that is not yet.
    pub(super) fn all_off(&mut self, why: &str) {
        for off in &mut self.off {
            off.get_or_insert_with(|| why.to_owned());
        }
    }

    /// All off for something that is to be mended.
    pub(super) fn withheld(&mut self, why: &str, fix: Option<String>) {
        self.problems.push(Problem { place: self.place.clone(), message: why.to_owned(), fix });
        self.all_off(why);
    }

    pub(super) fn tell(&mut self, told: &Told) {
        self.broken |= !told.missing;
        let fix = if told.missing {
            "install it where the plugin runs, or switch the tool off".to_owned()
        } else {
            correction(&told.message)
        };
        let Some(name) = &told.tool else {
            return self.withheld(&told.message, Some(fix));
        };
        let place = format!("{} tool `{}`", self.place, name.escape_debug());
        self.problems.push(Problem::new(place, told.message.clone()).fix(fix));
        let at = self.manifest.tools.iter().position(|tool| tool.name == *name);
        if let Some(off) = at.and_then(|at| self.off.get_mut(at)) {
            off.get_or_insert_with(|| told.message.clone());
        }
    }

    /// Finds the file of each module.
    pub(super) fn resolve(&mut self, content: &Content) {
        let mut told = Vec::new();
        let plugin = self.manifest.name.clone();
        for tool in &mut self.manifest.tools {
            match module::file(content, &tool.module, &plugin) {
                Some(file) => tool.module = file,
                None => told.push(Told {
                    tool: Some(tool.name.clone()),
                    missing: false,
                    message: format!("there is no module `{}` in the folder", tool.module),
                }),
            }
        }
        for told in &told {
            self.tell(told);
        }
    }

    pub(super) fn wants_process(&self) -> bool {
        // What a server offers beside is known when it lists.
        matches!(self.manifest.kind, Kind::Mcp(_)) || self.off.iter().any(Option::is_none)
    }
}

/// What to do about a fault in the code: the message ends with the file and line, where they are known.
fn correction(message: &str) -> String {
    let place = message.strip_suffix(')').and_then(|message| Some(message.rsplit_once('(')?.1));
    match place.filter(|place| place.contains(" line ")) {
        Some(place) => {
            format!("correct {place}; the plugin is loaded again when the file is saved")
        }
        None => "correct the plugin's code; it is loaded again when a file is saved".to_owned(),
    }
}
