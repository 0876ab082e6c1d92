//! Kubernetes API server for the real tests, built once from Debian's source package and cached for
//! the user, outside of the checkout.
//!
//! The build takes some minutes, at the lowest priority.

mod openapi_generation;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::child_processes::{FinishedCommand, run_quiet};
use crate::test_installs;
use crate::test_runner::retry_install;
use crate::workspace::file_error;

/// Version of the API server, as Debian 12 packages it.
const SERVER_VERSION: &str = "1.20.2";
/// File name of the program, also in `bin/`, where tests find it.
const SERVER_PROGRAM: &str = "kube-apiserver";
/// Import path at which Go finds it.
const GO_PACKAGE: &str = "k8s.io/kubernetes";
/// Packages of Debian that build it.
const BUILD_TOOLS: &[(&str, &str)] = &[("go", "golang-go"), ("dpkg-source", "dpkg-dev")];
/// Interval of progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_mins(1);

/// Builds the program if needed and links it next to the other programs.
///
/// # Errors
/// If a step of the build failed.
pub(crate) fn ensure_built(target: &Path) -> Result<Option<String>, String> {
    let cache = cache_dir().unwrap_or_else(|| target.join("real/cache"));
    let home = cache.join(format!("kubernetes-{SERVER_VERSION}"));
    fs::create_dir_all(&home).map_err(|e| file_error(&home, &e))?;
    // Checkouts share the cache: one builds, the others wait.
    let lock = File::create(home.join("lock")).map_err(|e| file_error(&home, &e))?;
    lock.lock().map_err(|e| file_error(&home, &e))?;
    let program = home.join(SERVER_PROGRAM);
    let built = if is_expected_version(&program) {
        None
    } else {
        let scratch = target.join("real/kubernetes-build");
        let built = build_server(&scratch, &program);
        // Over a gigabyte, of no use to anybody.
        drop(fs::remove_dir_all(&scratch));
        built?;
        Some(format!(
            "{SERVER_PROGRAM} {SERVER_VERSION} of Debian's sources, in {}",
            home.display()
        ))
    };
    let bin = target.join("real/bin");
    fs::create_dir_all(&bin).map_err(|e| file_error(&bin, &e))?;
    let link = bin.join(SERVER_PROGRAM);
    drop(fs::remove_file(&link));
    std::os::unix::fs::symlink(&program, &link).map_err(|e| file_error(&link, &e))?;
    Ok(built)
}

/// Returns `TOOLKEEP_CACHE`, or `toolkeep` in the user's cache directory, if there is one.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    let named =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let user_cache = || named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    named("TOOLKEEP_CACHE").or_else(|| Some(user_cache()?.join("toolkeep")))
}

fn is_expected_version(program: &Path) -> bool {
    run_quiet(Command::new(program).arg("--version"))
        .is_ok_and(|ended| ended.stdout_text.trim() == format!("Kubernetes v{SERVER_VERSION}"))
}

fn build_server(scratch: &Path, program: &Path) -> Result<(), String> {
    drop(fs::remove_dir_all(scratch));
    fs::create_dir_all(scratch).map_err(|e| file_error(scratch, &e))?;
    let lacking = test_installs::missing_packages(BUILD_TOOLS);
    if !lacking.is_empty() {
        print_progress(&format!("installing {} with apt-get", lacking.join(", ")));
        test_installs::install_debian(&lacking)?;
    }
    let source = unpack_source(scratch)?;
    openapi_generation::generate_openapi(&source, scratch)?;
    let built_program = scratch.join(SERVER_PROGRAM);
    let mut go = go_command(scratch, &source);
    go.args(["build", "-p", "2", "-ldflags", &linker_flags(), "-o"]).arg(&built_program);
    run_step("compiling it", go.arg("./cmd/kube-apiserver"))?;
    if !is_expected_version(&built_program) {
        return Err(format!("what was built is no Kubernetes v{SERVER_VERSION}"));
    }
    // Renamed atomically, so that an interrupted run leaves no partial file.
    let temp_path = program.with_extension("new");
    fs::copy(&built_program, &temp_path).map_err(|e| file_error(&temp_path, &e))?;
    fs::rename(&temp_path, program).map_err(|e| file_error(program, &e))
}

/// Unpacks Debian's source package where Go expects it.
fn unpack_source(scratch: &Path) -> Result<PathBuf, String> {
    let sources = scratch.join("apt.sources");
    fs::write(&sources, source_stanzas()?).map_err(|e| file_error(&sources, &e))?;
    for folder in ["lists/partial", "cache/archives/partial", "package"] {
        let folder = scratch.join(folder);
        fs::create_dir_all(&folder).map_err(|e| file_error(&folder, &e))?;
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
    retry_install("the source of Kubernetes", || {
        let updated = run_step("asking Debian for its source", apt().args(["update", "-qq"]));
        let wanted = ["source", "-qq", "--download-only", "kubernetes"];
        let loaded =
            updated.and_then(|_| run_step("loading its source, 34 MB", apt().args(wanted)));
        Ok(loaded.map_err(|why| print_progress(&why)).is_ok())
    })?;
    let package = scratch.join("package");
    let listed = fs::read_dir(&package).map_err(|e| file_error(&package, &e))?;
    let all = listed.flatten().map(|entry| entry.path());
    // Debian 12 calls it `1.20.5+really1.20.2-1`.
    let wanted = format!("{SERVER_VERSION}-");
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let described = path.extension().is_some_and(|it| it == "dsc");
        name.starts_with("kubernetes_") && name.contains(&wanted) && described
    };
    let described = all.into_iter().find(named).ok_or_else(|| {
        format!("this machine's Debian has another version of Kubernetes than {SERVER_VERSION}")
    })?;
    let source = scratch.join("gopath/src").join(GO_PACKAGE);
    let parent = source.parent().unwrap_or(&source);
    fs::create_dir_all(parent).map_err(|e| file_error(parent, &e))?;
    // Its hashes are those of the signed list that apt has read.
    let mut unpack = Command::new("dpkg-source");
    unpack.args(["--no-check", "-x"]).arg(described).arg(&source);
    run_step("unpacking it", &mut unpack)?;
    Ok(source)
}

/// The machine's own mirrors, asked for sources.
fn source_stanzas() -> Result<String, String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    files.extend(parts.map(|entry| entry.path()));
    files.sort();
    let mut stanzas = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap_or_default();
        match file.extension().and_then(|it| it.to_str()) {
            Some("sources") => stanzas.extend(parse_stanzas(&text)),
            Some("list") => stanzas.extend(text.lines().filter_map(parse_line)),
            _ => {}
        }
    }
    let message = || "apt knows no mirror of Debian on this machine".to_owned();
    (!stanzas.is_empty()).then(|| stanzas.join("\n\n") + "\n").ok_or_else(message)
}

fn parse_stanzas(text: &str) -> Vec<String> {
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
fn parse_line(line: &str) -> Option<String> {
    let rest = line.trim().strip_prefix("deb ")?.trim();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut fields = rest.split_whitespace();
    let (uri, suite) = (fields.next()?, fields.next()?);
    let parts: Vec<&str> = fields.collect();
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

/// Creates a Go command without modules and network: the package contains all dependencies.
fn go_command(scratch: &Path, source: &Path) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19", "go"]).current_dir(source).env("PWD", source);
    nice.env("GOPATH", scratch.join("gopath")).env("GOCACHE", scratch.join("gocache"));
    nice.env("GOTMPDIR", scratch).env("GOFLAGS", "");
    nice.env("GO111MODULE", "off").env("CGO_ENABLED", "0").env("GOPROXY", "off");
    nice
}

/// Returns the linker flags of the version: without it, clients assume version 0.
fn linker_flags() -> String {
    let version = format!("v{SERVER_VERSION}");
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

/// Runs a build step, and prints its purpose and its progress every minute. Returns its last output
/// on failure.
fn run_step(what: &str, command: &mut Command) -> Result<FinishedCommand, String> {
    print_progress(what);
    let since = Instant::now();
    let output = thread::scope(|scope| {
        let (done, waits) = mpsc::channel::<()>();
        scope.spawn(move || {
            while waits.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                print_progress(&format!("{what}: {} s so far", since.elapsed().as_secs()));
            }
        });
        let ended = run_quiet(command);
        drop(done);
        ended
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let output_lines: Vec<&str> =
        output.stderr_text.lines().chain(output.stdout_text.lines()).collect();
    let last = output_lines.get(output_lines.len().saturating_sub(12)..).unwrap_or_default();
    Err(format!("{what} failed:\n{}", last.join("\n")))
}

fn print_progress(what: &str) {
    println!("the Kubernetes API server of the tests: {what}");
}

#[cfg(test)]
mod tests {
    use super::{parse_line, parse_stanzas};

    #[test]
    fn mirrors_are_read_in_both_forms() {
        let said = "Types: deb\n# a word\nURIs: http://m/debian\nSuites: s s-updates\nComponents: main\n\n\
                    Types: deb-src\nURIs: http://other\nSuites: s\nComponents: main\n";
        let read = "Types: deb-src\n# a word\nURIs: http://m/debian\nSuites: s s-updates\nComponents: main";
        assert_eq!(parse_stanzas(said), [read]);
        let line = "deb [arch=amd64 signed-by=/k.gpg] http://m/debian s main contrib";
        let read = "Types: deb-src\nURIs: http://m/debian\nSuites: s\nComponents: main contrib\nSigned-By: /k.gpg";
        assert_eq!(parse_line(line).unwrap(), read);
        for none in ["# deb http://m s main", "deb-src http://m s main", "", "deb [x http://m"] {
            assert_eq!(parse_line(none), None, "{none}");
        }
    }
}
