//! A Kubernetes API server for the real tests: built once from Debian's source package, and kept in a
//! cache of this user's, outside of the checkout.
//!
//! It takes some minutes, so a run of all tests begins it beside its own compiling, with the least
//! priority, and waits for it before the first test that needs it.

mod generated;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::children::{Ended, quiet};
use crate::provision;
use crate::tools::retry;
use crate::workspace::{Workspace, at};

/// As Debian 12 has it, with all that it is made of.
const VERSION: &str = "1.20.2";
/// What the file is called, here and in `bin/` of what tests find.
const PROGRAM: &str = "kube-apiserver";
/// Where Go looks for it.
const PACKAGE: &str = "k8s.io/kubernetes";
/// Packages of Debian that build it.
const TOOLS: &[(&str, &str)] = &[("go", "golang-go"), ("dpkg-source", "dpkg-dev")];
/// Between two words on what goes on.
const PATIENCE: Duration = Duration::from_mins(1);

/// One that is being made ready.
pub(crate) struct Begun(JoinHandle<Result<Option<String>, String>>);

/// Begins to make it ready, where it is not.
pub(crate) fn begin(workspace: &Workspace) -> Begun {
    let target = workspace.target.clone();
    Begun(thread::spawn(move || ready(&target)))
}

impl Begun {
    /// Waits for it; what was installed, where anything was.
    pub(crate) fn ready(self) -> Result<Option<String>, String> {
        self.0.join().unwrap_or_else(|_| Err("its build ended without a word".to_owned()))
    }
}

/// Makes it ready, and puts its name beside the other programs.
fn ready(target: &Path) -> Result<Option<String>, String> {
    let cache = cache().unwrap_or_else(|| target.join("real/cache"));
    let home = cache.join(format!("kubernetes-{VERSION}"));
    fs::create_dir_all(&home).map_err(|e| at(&home, &e))?;
    // Checkouts share the cache: one of them builds, the others wait.
    let lock = File::create(home.join("lock")).map_err(|e| at(&home, &e))?;
    lock.lock().map_err(|e| at(&home, &e))?;
    let program = home.join(PROGRAM);
    let built = if works(&program) {
        None
    } else {
        let scratch = target.join("real/kubernetes-build");
        let built = build(&scratch, &program);
        // Over a gigabyte, of no use to anybody.
        drop(fs::remove_dir_all(&scratch));
        built?;
        Some(format!("{PROGRAM} {VERSION} of Debian's sources, in {}", home.display()))
    };
    let bin = target.join("real/bin");
    fs::create_dir_all(&bin).map_err(|e| at(&bin, &e))?;
    let link = bin.join(PROGRAM);
    drop(fs::remove_file(&link));
    std::os::unix::fs::symlink(&program, &link).map_err(|e| at(&link, &e))?;
    Ok(built)
}

/// `TOOLKEEP_CACHE`, or `toolkeep` in this user's cache, where he has one.
fn cache() -> Option<PathBuf> {
    let named =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let own = || named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    named("TOOLKEEP_CACHE").or_else(|| Some(own()?.join("toolkeep")))
}

fn works(program: &Path) -> bool {
    quiet(Command::new(program).arg("--version"))
        .is_ok_and(|ended| ended.out.trim() == format!("Kubernetes v{VERSION}"))
}

fn build(scratch: &Path, program: &Path) -> Result<(), String> {
    drop(fs::remove_dir_all(scratch));
    fs::create_dir_all(scratch).map_err(|e| at(scratch, &e))?;
    let lacking = provision::lacking(TOOLS);
    if !lacking.is_empty() {
        say(&format!("installing {} with apt-get", lacking.join(", ")));
        provision::debian(&lacking)?;
    }
    let source = unpacked(scratch)?;
    generated::write(&source, scratch)?;
    let made = scratch.join(PROGRAM);
    let mut go = go(scratch, &source);
    go.args(["build", "-p", "2", "-ldflags", &flags(), "-o"]).arg(&made);
    run("compiling it", go.arg("./cmd/kube-apiserver"))?;
    if !works(&made) {
        return Err(format!("what was built is no Kubernetes v{VERSION}"));
    }
    // Whole or not at all, whatever ends this run.
    let near = program.with_extension("new");
    fs::copy(&made, &near).map_err(|e| at(&near, &e))?;
    fs::rename(&near, program).map_err(|e| at(program, &e))
}

/// Debian's package of it, where Go wants it.
fn unpacked(scratch: &Path) -> Result<PathBuf, String> {
    let sources = scratch.join("apt.sources");
    fs::write(&sources, deb822()?).map_err(|e| at(&sources, &e))?;
    for folder in ["lists/partial", "cache/archives/partial", "package"] {
        let folder = scratch.join(folder);
        fs::create_dir_all(&folder).map_err(|e| at(&folder, &e))?;
    }
    let apt = || {
        let mut apt = Command::new("apt-get");
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        // A state of its own: the machine's own needs root, and may know no sources.
        for (name, value) in [
            ("Dir::Etc::sourcelist", sources.as_path()),
            ("Dir::Etc::sourceparts", Path::new("/dev/null")),
            ("Dir::State::lists", &scratch.join("lists")),
            ("Dir::Cache", &scratch.join("cache")),
            ("APT::Sandbox::User", Path::new("root")),
        ] {
            apt.args(["-o", &option(name, value)]);
        }
        apt.current_dir(scratch.join("package"));
        apt
    };
    retry("the source of Kubernetes", || {
        let asked = run("asking Debian for its source", apt().args(["update", "-qq"]));
        let wanted = ["source", "-qq", "--download-only", "kubernetes"];
        let loaded = asked.and_then(|_| run("loading its source, 34 MB", apt().args(wanted)));
        Ok(loaded.map_err(|why| say(&why)).is_ok())
    })?;
    let package = scratch.join("package");
    let listed = fs::read_dir(&package).map_err(|e| at(&package, &e))?;
    let all = listed.flatten().map(|entry| entry.path());
    // Debian 12 calls it `1.20.5+really1.20.2-1`.
    let wanted = format!("{VERSION}-");
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let described = path.extension().is_some_and(|it| it == "dsc");
        name.starts_with("kubernetes_") && name.contains(&wanted) && described
    };
    let described = all.into_iter().find(named).ok_or_else(|| {
        format!("this machine's Debian has another version of Kubernetes than {VERSION}")
    })?;
    let source = scratch.join("gopath/src").join(PACKAGE);
    let parent = source.parent().unwrap_or(&source);
    fs::create_dir_all(parent).map_err(|e| at(parent, &e))?;
    // Its hashes are those of the signed list that apt has read.
    let mut unpack = Command::new("dpkg-source");
    unpack.args(["--no-check", "-x"]).arg(described).arg(&source);
    run("unpacking it", &mut unpack)?;
    Ok(source)
}

/// The machine's own mirrors, asked for sources.
fn deb822() -> Result<String, String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    files.extend(parts.map(|entry| entry.path()));
    files.sort();
    let mut stanzas = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap_or_default();
        match file.extension().and_then(|it| it.to_str()) {
            Some("sources") => stanzas.extend(of_stanzas(&text)),
            Some("list") => stanzas.extend(text.lines().filter_map(of_line)),
            _ => {}
        }
    }
    let told = || "apt knows no mirror of Debian on this machine".to_owned();
    (!stanzas.is_empty()).then(|| stanzas.join("\n\n") + "\n").ok_or_else(told)
}

fn of_stanzas(text: &str) -> Vec<String> {
    let stanza = |part: &str| {
        let types = part.lines().find_map(|line| line.strip_prefix("Types:"))?;
        types.split_whitespace().any(|it| it == "deb").then_some(())?;
        let kept = part.lines().filter(|line| !line.starts_with("Types:"));
        let kept: Vec<&str> = kept.collect();
        Some(format!("Types: deb-src\n{}", kept.join("\n").trim()))
    };
    text.split("\n\n").filter_map(stanza).collect()
}

/// One line of the older form.
fn of_line(line: &str) -> Option<String> {
    let rest = line.trim().strip_prefix("deb ")?.trim();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?, words.next()?);
    let parts: Vec<&str> = words.collect();
    let mut stanza = format!("Types: deb-src\nURIs: {uri}\nSuites: {suite}");
    if !parts.is_empty() {
        stanza.push_str("\nComponents: ");
        stanza.push_str(&parts.join(" "));
    }
    let signed = options.split_whitespace().find_map(|it| it.strip_prefix("signed-by="));
    if let Some(key) = signed {
        stanza.push_str("\nSigned-By: ");
        stanza.push_str(key);
    }
    Some(stanza)
}

/// Go without modules and without the network: all that it needs is in the package.
fn go(scratch: &Path, source: &Path) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19", "go"]).current_dir(source).env("PWD", source);
    nice.env("GOPATH", scratch.join("gopath")).env("GOCACHE", scratch.join("gocache"));
    nice.env("GOTMPDIR", scratch).env("GOFLAGS", "");
    nice.env("GO111MODULE", "off").env("CGO_ENABLED", "0").env("GOPROXY", "off");
    nice
}

/// What it says of itself: without this a client takes it for version 0.
fn flags() -> String {
    let version = format!("v{VERSION}");
    let values = [
        ("gitVersion", version.as_str()),
        ("gitMajor", "1"),
        ("gitMinor", "20"),
        ("gitTreeState", "clean"),
    ];
    let packages = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
    let mut flags = vec!["-s -w".to_owned()];
    for package in packages {
        for at in ["", "k8s.io/kubernetes/vendor/"] {
            let each = values.map(|(name, value)| format!("-X {at}{package}.{name}={value}"));
            flags.extend(each);
        }
    }
    flags.join(" ")
}

/// Runs it, says what it is for, and every minute that it goes on; its own words where it failed.
fn run(what: &str, command: &mut Command) -> Result<Ended, String> {
    say(what);
    let since = Instant::now();
    let ended = thread::scope(|scope| {
        let (done, waits) = mpsc::channel::<()>();
        scope.spawn(move || {
            while waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                say(&format!("{what}: {} s so far", since.elapsed().as_secs()));
            }
        });
        let ended = quiet(command);
        drop(done);
        ended
    })?;
    if ended.status.success() {
        return Ok(ended);
    }
    let words: Vec<&str> = ended.err.lines().chain(ended.out.lines()).collect();
    let last = words.get(words.len().saturating_sub(12)..).unwrap_or_default();
    Err(format!("{what} failed:\n{}", last.join("\n")))
}

fn say(what: &str) {
    println!("the Kubernetes API server of the tests: {what}");
}

#[cfg(test)]
mod tests {
    use super::{of_line, of_stanzas};

    #[test]
    fn mirrors_are_read_in_both_forms() {
        let said = "Types: deb\n# a word\nURIs: http://m/debian\nSuites: s s-updates\nComponents: main\n\n\
                    Types: deb-src\nURIs: http://other\nSuites: s\nComponents: main\n";
        let read = "Types: deb-src\n# a word\nURIs: http://m/debian\nSuites: s s-updates\nComponents: main";
        assert_eq!(of_stanzas(said), [read]);
        let line = "deb [arch=amd64 signed-by=/k.gpg] http://m/debian s main contrib";
        let read = "Types: deb-src\nURIs: http://m/debian\nSuites: s\nComponents: main contrib\nSigned-By: /k.gpg";
        assert_eq!(of_line(line).unwrap(), read);
        for none in ["# deb http://m s main", "deb-src http://m s main", "", "deb [x http://m"] {
            assert_eq!(of_line(none), None, "{none}");
        }
    }
}
