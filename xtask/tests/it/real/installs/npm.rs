//! Packages of npm: their files, and an installation by `npm` and `npx`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::built_packages::{VERSION, built_packages, installed_file};
use super::command_run::{CommandRun, clean_command};
use super::file_server::FileServer;
use super::served_call::{call_through_server, expect_answer};

/// Files of the launcher as `npm pack --dry-run` lists them, by name and mode.
const LAUNCHER_FILES: &[&str] =
    &["LICENSE 644", "README.md 644", "bin/toolkeep.js 755", "package.json 644"];

/// Files of the package with the program.
const PLATFORM_FILES: &[&str] = &[
    "LICENSE 644",
    "README.md 644",
    "THIRD-PARTY-LICENSES.txt 644",
    "bin/toolkeep 755",
    "package.json 644",
    "toolkeep.cdx.json 644",
];

/// Names of the processor in npm.
const CPU: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };

fn tarball(start: &str) -> PathBuf {
    built_packages().join(format!("{start}-{VERSION}.tgz"))
}

fn platform_tarball() -> PathBuf {
    tarball(&format!("toolkeep-linux-{CPU}"))
}

/// Creates a command of npm that talks to no registry but the one it is given, with a home of its
/// own.
fn npm_command(program: &str, home: &Path) -> Command {
    let node = installed_file("bin/node");
    let path = std::env::var_os("PATH").unwrap();
    let path =
        std::iter::once(node.parent().unwrap().to_owned()).chain(std::env::split_paths(&path));
    let mut npm = clean_command(program);
    npm.env("PATH", std::env::join_paths(path).unwrap()).env("HOME", home).current_dir(home);
    npm.env("npm_config_cache", home.join("cache")).env("npm_config_update_notifier", "false");
    npm.env("npm_config_audit", "false").env("npm_config_fund", "false");
    npm
}

/// Unpacks a tarball and returns the folder of the package.
fn unpack(tarball: &Path, folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    CommandRun::expect_success(Command::new("tar").arg("-xzf").arg(tarball).arg("-C").arg(folder));
    folder.join("package")
}

fn read_manifest(package: &Path) -> Value {
    serde_json::from_slice(&fs::read(package.join("package.json")).unwrap()).unwrap()
}

#[test]
fn npm_installs_the_tarballs_and_the_server_answers_a_call() {
    let home = tempfile::tempdir().unwrap();
    let (closed, tarballs) = ("http://127.0.0.1:9", [tarball("toolkeep"), platform_tarball()]);
    let started = Instant::now();
    let mut npm = npm_command("npm", home.path());
    npm.args(["install", "--registry", closed]).args(tarballs);
    CommandRun::expect_success(&mut npm);
    let installed = started.elapsed().as_secs_f64();
    let program = home.path().join("node_modules/.bin/toolkeep");
    let data = home.path().join("data");
    call_through_server(&|| npm_command(program.to_str().unwrap(), home.path()), &data);
    let answered = started.elapsed().as_secs_f64();
    println!(
        "npm install of the tarballs {installed:.1} s, first call answered after {answered:.1} s"
    );
}

#[test]
fn npx_finds_the_program_of_this_platform_in_a_registry() {
    let home = tempfile::tempdir().unwrap();
    let registry = start_registry(home.path());
    let started = Instant::now();
    let mut npx = npm_command("npx", home.path());
    npx.args(["--yes", "--registry", &registry.url, "toolkeep", "--data"]);
    expect_answer(npx.arg(home.path().join("data")));
    let answered = started.elapsed().as_secs_f64();
    println!("npx toolkeep tool call, from a registry on loopback: answered after {answered:.1} s");
}

#[test]
fn the_launcher_reports_errors_and_exit_codes_as_the_program_does() {
    let home = tempfile::tempdir().unwrap();
    let launcher = unpack(&tarball("toolkeep"), &home.path().join("launcher"));
    let run = |configure: &dyn Fn(&mut Command)| {
        let mut node = npm_command("node", home.path());
        node.arg(launcher.join("bin/toolkeep.js"));
        configure(&mut node);
        node.stdin(std::process::Stdio::null()).output().unwrap()
    };
    // Without the package of the platform, as after `--omit=optional`.
    let missing = run(&|node| {
        node.arg("--version");
    });
    let message = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        message.starts_with(&format!("error: the package @toolkeep/linux-{CPU} is not")),
        "{message}"
    );
    // With a program that was built elsewhere: its exit code, and the signal that ended it.
    for (script, code) in [("exit 3", Some(3)), ("kill -KILL $$", None)] {
        let program = home.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        CommandRun::expect_success(Command::new("chmod").arg("755").arg(&program));
        let ended = run(&|node| {
            node.env("TOOLKEEP_BINARY", &program);
        });
        assert_eq!(ended.status.code(), code, "{script}: {ended:?}");
    }
}

#[test]
fn the_packages_have_these_files_and_no_script() {
    let home = tempfile::tempdir().unwrap();
    let packages = [
        (tarball("toolkeep"), LAUNCHER_FILES, "launcher"),
        (platform_tarball(), PLATFORM_FILES, "platform"),
    ];
    for (tarball, files, name) in packages {
        let package = unpack(&tarball, &home.path().join(name));
        let mut npm = npm_command("npm", home.path());
        npm.args(["pack", "--dry-run", "--json"]).current_dir(&package);
        let packed: Value = serde_json::from_str(&CommandRun::expect_success(&mut npm)).unwrap();
        let packed = if packed.is_array() {
            &packed[0]
        } else {
            packed.as_object().unwrap().values().next().unwrap()
        };
        let listed = packed["files"].as_array().unwrap().iter().map(|file| {
            format!("{} {:o}", file["path"].as_str().unwrap(), file["mode"].as_u64().unwrap())
        });
        let mut listed: Vec<String> = listed.collect();
        listed.sort();
        assert_eq!(listed, files, "{name}");
        let manifest = read_manifest(&package);
        assert!(manifest.get("scripts").is_none(), "{manifest}");
        assert_eq!(manifest["version"], VERSION);
        if name == "platform" {
            assert_eq!((&manifest["os"], &manifest["cpu"]), (&json!(["linux"]), &json!([CPU])));
        } else {
            let name = format!("@toolkeep/linux-{CPU}");
            assert_eq!(manifest["optionalDependencies"], json!({ name: VERSION }));
        }
    }
}

/// Serves both packages as npm's registry does.
pub(crate) fn start_registry(home: &Path) -> FileServer {
    let entries =
        [(tarball("toolkeep"), "a"), (platform_tarball(), "b")].map(|(tarball, folder)| {
            let manifest = read_manifest(&unpack(&tarball, &home.join(folder)));
            let checksum = CommandRun::expect_success(Command::new("sha1sum").arg(&tarball));
            let checksum = checksum.split(' ').next().unwrap().to_owned();
            (tarball, manifest, checksum)
        });
    let address = Arc::new(std::sync::OnceLock::<String>::new());
    let own_address = Arc::clone(&address);
    let server = FileServer::start(Arc::new(move |path| {
        let url = own_address.get()?;
        entries.iter().find_map(|(tarball, manifest, checksum)| {
            let file = tarball.file_name()?.to_str()?;
            if path.ends_with(file) {
                return fs::read(tarball).ok();
            }
            if manifest["name"] != path {
                return None;
            }
            let mut entry = manifest.clone();
            entry["dist"] = json!({ "tarball": format!("{url}/{file}"), "shasum": checksum });
            let document = json!({
                "name": path, "dist-tags": { "latest": VERSION }, "versions": { VERSION: entry },
            });
            Some(document.to_string().into_bytes())
        })
    }));
    address.set(server.url.clone()).unwrap();
    server
}
