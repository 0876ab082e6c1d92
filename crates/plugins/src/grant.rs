//! What a manifest asks for, what the operator gives, and what comes of both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use egress::{Class, Egress, Origin};
use sandbox::process::Launcher;
use sandbox::{Share, Tier};
use serde_json::{Map, Value};
use tool::{Clock, Scope};

use crate::Grant;
use crate::manifest::Faults;

const MIB: u64 = 1 << 20;
/// Most memory and processor time that is given where the operator says nothing.
const USUAL: (u64, u64) = (1024, 3_600);

/// What a manifest asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// `read` or `write`.
    pub(crate) files: Option<Files>,
    /// Hosts that are asked; `*` is any.
    pub(crate) network: Vec<String>,
    /// MiB of all its processes.
    pub(crate) memory: Option<u64>,
    /// Processes and threads at once.
    pub(crate) processes: Option<u64>,
}

/// How far into granted folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Files {
    Read,
    Write,
}

impl Needs {
    /// Reads `needs` of a manifest.
    pub(crate) fn read(value: Option<&Value>, faults: &mut Faults) -> Self {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Self::default() };
        let Some(fields) = value.as_object() else {
            faults.tell("'needs' must be an object");
            return Self::default();
        };
        "needs: ".clone_into(&mut faults.of);
        let needs = Self::of(fields, faults);
        faults.of = String::new();
        needs
    }

    fn of(fields: &Map<String, Value>, faults: &mut Faults) -> Self {
        let files = match faults.text(fields, "files").as_deref() {
            None => None,
            Some("read") => Some(Files::Read),
            Some("write") => Some(Files::Write),
            Some(_) => {
                faults.tell("'files' must be read or write");
                None
            }
        };
        let known = ["files", "network", "memory_mb", "processes"];
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            faults.tell(format!(
                "`{}` is none of {}",
                crate::manifest::shown(key),
                known.join(", ")
            ));
        }
        Self {
            files,
            network: faults.texts(fields, "network"),
            memory: faults.number(fields, "memory_mb"),
            processes: faults.number(fields, "processes"),
        }
    }

    /// What its tools reach for.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        let network = (!self.network.is_empty()).then_some(Scope::Network);
        let files = self.files.map(|_| Scope::Filesystem);
        network.into_iter().chain(files).collect()
    }
}

/// What plugins are run with.
#[derive(Debug, Clone)]
pub struct Means {
    /// Starts processes.
    pub launcher: Launcher,
    /// The least that a cage must be.
    pub floor: Tier,
    /// The way out; without one no plugin asks anybody.
    pub egress: Option<Egress>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where versions are copied to: a folder of Toolkeep's own.
    pub copies: PathBuf,
    /// Where settings are.
    pub settings: PathBuf,
    /// The interpreter of Python plugins, absolute; where none is named the system's is looked for.
    pub python: Option<PathBuf>,
    /// How long a process may take to be ready.
    pub ready: Duration,
}

/// What a plugin may use: asked for, and given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowed {
    pub(crate) read: Vec<PathBuf>,
    pub(crate) write: Option<PathBuf>,
    pub(crate) programs: Vec<PathBuf>,
    pub(crate) network: Vec<String>,
    pub(crate) share: Share,
}

impl Allowed {
    /// Both together; else what is asked for and not given, and what to write.
    pub(crate) fn of(needs: &Needs, grant: &Grant, plugin: &str) -> Result<Self, (String, String)> {
        let write = format!("write it under `plugins: {{ grants: {{ {plugin}: {{");
        if let Some(files) = needs.files {
            let given = !grant.read.is_empty() || grant.write.is_some();
            if files == Files::Write && grant.write.is_none() {
                let told = "it needs a folder to write, and none is granted";
                return Err((told.to_owned(), format!("{write} write: FOLDER }} }} }}`")));
            }
            if !given {
                let told = "it needs folders to read, and none is granted";
                return Err((told.to_owned(), format!("{write} read: [FOLDER] }} }} }}`")));
            }
        }
        if !needs.network.is_empty() && grant.network.is_empty() {
            let hosts = crate::manifest::shown(&needs.network.join(", "));
            let told = format!("it needs the network ({hosts}), and none is granted");
            return Err((told, format!("{write} network: [HOST] }} }} }}`")));
        }
        let most = grant.memory.unwrap_or(USUAL.0);
        let memory = needs.memory.unwrap_or(USUAL.0.min(most));
        if memory > most {
            let told = format!("it needs {memory} MiB of memory, and {most} are granted");
            return Err((told, format!("{write} memory: {memory}MiB }} }} }}`")));
        }
        Ok(Self::given(needs, grant, memory))
    }

    fn given(needs: &Needs, grant: &Grant, memory: u64) -> Self {
        let mut share = Share { cpu: USUAL.1, together: memory * MIB, ..Share::default() };
        share.processes = needs.processes.unwrap_or(share.processes).min(256);
        share.descriptors = 256;
        let reads = needs.files.is_some();
        let writes = needs.files == Some(Files::Write);
        let mut read = if reads { grant.read.clone() } else { Vec::new() };
        // What may be written may be read; one that only reads does not get it to write.
        if reads && !writes {
            read.extend(grant.write.clone());
        }
        Self {
            read,
            write: grant.write.clone().filter(|_| writes),
            programs: grant.programs.clone(),
            network: if needs.network.is_empty() { Vec::new() } else { grant.network.clone() },
            share,
        }
    }

    /// As what a request to `url` goes out; `None` where no granted host is meant.
    pub(crate) fn class(&self, url: &str) -> Option<Class> {
        let origin = Origin::parse(url).ok()?;
        for given in &self.network {
            if given.contains("://") {
                let given = Origin::parse(given).ok()?;
                if given == origin {
                    return Some(Class::Operator { origin });
                }
            }
        }
        let authority = origin.authority();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).to_lowercase();
        let fits = |given: &String| match given.strip_prefix("*.") {
            _ if given == "*" => true,
            Some(end) => host.strip_suffix(&end.to_lowercase()).is_some_and(|it| it.ends_with('.')),
            None => given.to_lowercase() == host,
        };
        self.network.iter().any(fits).then_some(Class::Caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(files: Option<Files>, network: &[&str]) -> Needs {
        let network = network.iter().map(|host| (*host).to_owned()).collect();
        Needs { files, network, ..Needs::default() }
    }

    #[test]
    fn what_is_asked_and_not_given_is_told_with_what_to_write() {
        let told = |needs: &Needs, grant: &Grant| Allowed::of(needs, grant, "web").unwrap_err();
        let (message, fix) = told(&needs(None, &["docs.rs"]), &Grant::default());
        assert_eq!(message, "it needs the network (docs.rs), and none is granted");
        assert_eq!(fix, "write it under `plugins: { grants: { web: { network: [HOST] } } }`");
        let (message, _) = told(&needs(Some(Files::Read), &[]), &Grant::default());
        assert_eq!(message, "it needs folders to read, and none is granted");
        let read = Grant { read: vec!["/r".into()], ..Grant::default() };
        let (message, _) = told(&needs(Some(Files::Write), &[]), &read);
        assert_eq!(message, "it needs a folder to write, and none is granted");
        let much = Needs { memory: Some(4_000), ..Needs::default() };
        let (message, _) = told(&much, &Grant::default());
        assert_eq!(message, "it needs 4000 MiB of memory, and 1024 are granted");
    }

    #[test]
    fn what_is_given_and_not_asked_is_not_given() {
        let grant = Grant {
            read: vec!["/r".into()],
            write: Some("/w".into()),
            network: vec!["*".to_owned()],
            ..Grant::default()
        };
        let allowed = Allowed::of(&Needs::default(), &grant, "p").unwrap();
        assert!(allowed.read.is_empty() && allowed.write.is_none());
        assert!(allowed.class("https://example.org/").is_none());
        let allowed = Allowed::of(&needs(Some(Files::Read), &[]), &grant, "p").unwrap();
        assert_eq!(allowed.read, [PathBuf::from("/r"), "/w".into()]);
        assert!(allowed.write.is_none());
    }

    #[test]
    fn hosts_are_matched_whole() {
        let allowed = |hosts: &[&str]| {
            let network = hosts.iter().map(|host| (*host).to_owned()).collect();
            let grant = Grant { network, ..Grant::default() };
            Allowed::of(&needs(None, &["*"]), &grant, "p").unwrap()
        };
        let docs = allowed(&["docs.rs", "*.Example.org", "http://127.0.0.1:99"]);
        for good in ["https://docs.rs/x", "https://a.example.org/", "http://DOCS.rs:81/"] {
            assert_eq!(docs.class(good), Some(Class::Caller), "{good}");
        }
        for bad in
            ["https://xdocs.rs/", "https://example.org/", "https://docs.rs.evil.org/", "file:///x"]
        {
            assert_eq!(docs.class(bad), None, "{bad}");
        }
        assert!(matches!(docs.class("http://127.0.0.1:99/a"), Some(Class::Operator { .. })));
        assert_eq!(docs.class("http://127.0.0.1:98/a"), None);
        assert_eq!(allowed(&["*"]).class("http://127.0.0.1:98/"), Some(Class::Caller));
    }
}
