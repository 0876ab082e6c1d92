//! The built-in tools: folders, partners on the net, and what is taken from single tools.

use builtin_manifests::Family;
use egress::ServiceAddress;
use tool::{Level, Safety};
use tool_manifest::Narrowing;

use super::Resolver;
use crate::Place;
use crate::field::Field;
use crate::high::{BuiltinsConfig, FolderConfig, SearchConfig};
use crate::low::{self, SafetyWord};
use crate::node::shorten;
use crate::units;

/// Folders that may be configured.
const FOLDERS: usize = 64;

impl Resolver<'_> {
    /// What is written about them. Whether it may be used is for the faults to say.
    pub(super) fn builtins(&self, low: &low::Builtins) -> BuiltinsConfig {
        let folders = low.roots.get().into_iter().flatten().take(FOLDERS);
        let folders = folders.filter_map(|folder| self.root(folder.given()?)).collect();
        let tools = low.tools.get().into_iter().flatten();
        BuiltinsConfig {
            roots: folders,
            search: low.search.given().and_then(|(search, at)| self.search(search, at)),
            wikipedia: self.partner(&low.wikipedia),
            model_mirror: self.partner(&low.model_mirror),
            tools: tools.map(|(name, told)| (name.clone(), self.narrowing(name, told))).collect(),
        }
    }

    fn root(&self, (folder, place): (&low::Folder, Place)) -> Option<FolderConfig> {
        let Some((path, _)) = folder.path.given() else {
            if folder.path.is_absent() {
                self.sink.tell(place, "the key `path` is missing", "write the folder");
            }
            return None;
        };
        let protect = folder.protect.get().into_iter().flatten();
        let protect = protect.filter_map(|it| it.given().and_then(|it| self.below(it))).collect();
        let write = folder.write.get().copied().unwrap_or(false);
        Some(FolderConfig { path: self.path(path), write, protect })
    }

    fn below(&self, (text, place): (&String, Place)) -> Option<String> {
        let plain =
            !text.is_empty() && text.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !plain {
            let told = format!("`{}` is no path below the folder", shorten(text));
            self.sink.tell(place, told, "write it relative to `path`, such as `private/keys`");
        }
        plain.then(|| text.clone())
    }

    fn search(&self, search: &low::Search, place: Place) -> Option<SearchConfig> {
        match (self.partner(&search.searxng), self.partner(&search.duckduckgo)) {
            (Some(url), None) => Some(SearchConfig::SearXng(url)),
            (None, Some(url)) => Some(SearchConfig::DuckDuckGo(url)),
            (Some(_), Some(_)) => {
                self.sink.tell(place, "`searxng` and `duckduckgo` exclude each other", "keep one");
                None
            }
            (None, None) => None,
        }
    }

    /// The address of a partner.
    fn partner(&self, field: &Field<String>) -> Option<String> {
        let (url, place) = field.given()?;
        match ServiceAddress::parse(url) {
            Ok(_) => Some(url.clone()),
            Err(why) => {
                let told = format!("`{}` cannot be asked: {why}", shorten(url));
                self.sink.tell(place, told, "write it as `https://HOST` or `https://HOST/PATH`");
                None
            }
        }
    }

    /// What is wrong switches the tool off, so that a slip does not open what it should close.
    fn narrowing(&self, name: &str, field: &Field<low::Narrowing>) -> Narrowing {
        let off = Narrowing { off: true, ..Narrowing::default() };
        let Some((low, place)) = field.given() else {
            return if field.is_absent() { Narrowing::default() } else { off };
        };
        let before = self.sink.count();
        let narrowing = self.read(low);
        if let Err(why) = checked(&narrowing, name) {
            self.sink.tell(place, why, "built-in tools can only be narrowed; see their reference");
        }
        let sound = field.is_sound() && self.sink.count() == before;
        if sound { narrowing } else { off }
    }

    fn read(&self, low: &low::Narrowing) -> Narrowing {
        let level = low.required_permission.given().and_then(|(word, place)| {
            let told = |error: tool::traits::UnknownWord| {
                let fix = format!("use one of {}", error.allowed);
                self.sink.tell(place, format!("unknown level `{}`", shorten(word)), &fix);
            };
            word.parse::<Level>().map_err(told).ok()
        });
        let timeout = low.timeout.given().and_then(|(text, place)| {
            let told = |advice: String| {
                self.sink.tell(place, format!("`{}` is no such time", shorten(text)), &advice);
            };
            units::duration(text).map_err(told).ok()
        });
        let maximum = low.maximum.get().into_iter().flatten();
        Narrowing {
            off: low.enabled.get() == Some(&false),
            safety: low.safety.get().map(|word| match word {
                SafetyWord::Safe => Safety::Safe,
                SafetyWord::Cautious | SafetyWord::Moderate => Safety::Cautious,
                SafetyWord::Dangerous => Safety::Dangerous,
            }),
            level,
            destructive: low.destructive.get().copied(),
            chain: low.chain.get().copied(),
            timeout,
            arguments: self.size(&low.arguments, tool::Limits::MOST_ARGUMENTS),
            maximum: maximum
                .filter_map(|(name, most)| Some((name.clone(), *most.get()?)))
                .collect(),
        }
    }
}

/// Also of those that another crate than `builtins` has.
fn checked(narrowing: &Narrowing, name: &str) -> Result<(), String> {
    let general = Family::General.registry();
    match builtin_manifests::tool(name) {
        Some(tool) if general.get(name).is_none() => narrowing.check_tool(&tool),
        _ => narrowing.check(general, name),
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{faults, good, reading};

    fn told(text: &str) -> (bool, Vec<String>) {
        let reading = reading(text, &[]);
        (reading.config.is_none(), faults(&reading))
    }

    #[test]
    fn a_tool_is_narrowed_and_never_widened() {
        let text = "version: 1\nbuiltins:\n  roots: [{ path: /srv/a, write: true, protect: [x/y] }]\n  \
                    search: { searxng: 'http://127.0.0.1:8888' }\n  tools:\n    write_file: { enabled: false }\n    \
                    read_file: { safety: dangerous, maximum: { max_bytes: 100 }, timeout: 2s }\n    sql_query: { arguments: 2MiB }\n";
        let config = good(text);
        assert!(config.builtins.tools["write_file"].off);
        assert_eq!(config.builtins.tools["read_file"].maximum["max_bytes"], 100);
        assert_eq!(config.builtins.tools["sql_query"].arguments, Some(2 << 20));
        assert_eq!(config.builtins.roots[0].protect, ["x/y"]);
        // Those of other crates too.
        for name in ["calculate", "symbolic_solve", "embed_text", "run_program"] {
            let text =
                format!("version: 1\nbuiltins: {{ tools: {{ {name}: {{ enabled: false }} }} }}\n");
            assert!(good(&text).builtins.tools[name].off, "{name}");
        }
        for (wrong, told) in [
            ("write_file: { safety: safe }", "`safety`"),
            ("read_file: { maximum: { max_bytes: 99000000 } }", "max_bytes"),
            ("read_file: { maximum: { path: 1 } }", "path"),
            ("read_file: { chain: true, required_permission: guest }", "required_permission"),
            ("sql_query: { arguments: 65MiB }", "out of range"),
            ("read_file: { arguments: 2MiB }", "`arguments`"),
            ("rm: { enabled: false }", "`rm`"),
            ("mcmc: { maximum: { n_samples: 5 } }", "`maximum`"),
        ] {
            let text = format!("version: 1\nbuiltins:\n  tools:\n    {wrong}\n");
            let (refused, faults) = self::told(&text);
            assert!(faults.len() == 1 && faults[0].contains(told), "{wrong}: {faults:?}");
            assert!(refused, "{wrong}");
        }
        let math = "version: 1\nbuiltins: { tools: { mcmc: { enabled: false }, calculate: { safety: dangerous } } }\n";
        assert!(good(math).builtins.tools["mcmc"].off);
        for wrong in [
            "roots: [{ write: true }]",
            "search: { searxng: 'ftp://x' }",
            "roots: [{ path: a, protect: ['../b'] }]",
        ] {
            let (_, faults) = told(&format!("version: 1\nbuiltins:\n  {wrong}\n"));
            assert_eq!(faults.len(), 1, "{wrong}: {faults:?}");
        }
    }
}
