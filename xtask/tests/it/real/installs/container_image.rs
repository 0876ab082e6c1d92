//! Steps of the image file in a new Debian system, without a tool for images: the archive is checked
//! and unpacked, and the server runs as the user of the image and passes its health check.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::built_packages::{VERSION, built_packages};
use super::command_run::CommandRun;
use super::debian_root::{DebianRoot, root_command};
use super::served_call::{StartedServer, expect_answer};

/// Instructions of the file, with continued lines joined.
fn instructions() -> Vec<String> {
    let text = fs::read_to_string(built_packages().join("Containerfile")).unwrap();
    let text = text.replace("\\\n", "");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Returns the argument of the last instruction of this name.
fn last_argument(name: &str) -> String {
    let found = instructions().into_iter().rev().find_map(|line| {
        line.strip_prefix(name)
            .filter(|rest| rest.starts_with(' '))
            .map(|rest| rest.trim().to_owned())
    });
    found.unwrap_or_else(|| panic!("no {name}"))
}

/// Returns the words of an instruction in exec form, which needs no shell in the image.
fn exec_words(argument: &str) -> Vec<String> {
    let (_, list) = argument.split_once('[').unwrap();
    serde_json::from_str(&format!("[{list}")).unwrap()
}

fn unpack_step(root: &DebianRoot) -> CommandRun {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let mut run = root.command("sh");
    run.args(["-c", &format!("TARGETARCH={architecture}; {}", last_argument("RUN"))]);
    CommandRun::run(&mut run)
}

fn copy_archive(root: &DebianRoot) -> std::path::PathBuf {
    let name = format!("toolkeep-{VERSION}-linux-{}.tar.gz", std::env::consts::ARCH);
    root.run("mkdir", &["-p", "/release"]);
    let target = root.path("/release").join(&name);
    CommandRun::expect_success(root_command("cp").arg(built_packages().join(name)).arg(&target));
    target
}

#[test]
fn the_image_runs_as_a_user_of_its_own_and_reports_its_health() {
    let root = DebianRoot::unpack();
    copy_archive(&root);
    let unpacked = unpack_step(&root);
    assert!(unpacked.is_success, "{unpacked:?}");
    // As the COPY instructions of the last stage do.
    root.run("cp", &["-r", "/image/usr", "/image/data", "/"]);
    let user = last_argument("USER");
    let (uid, gid) = user.split_once(':').unwrap();
    assert_ne!((uid, gid), ("0", "0"));
    root.run("chown", &[&user, "/data"]);
    let in_image = |words: &[String]| -> Command {
        let mut command = root.command("setpriv");
        command.args([&format!("--reuid={uid}"), &format!("--regid={gid}"), "--clear-groups"]);
        command.args(["env", &last_argument("ENV").replace(" TOOLKEEP_LOG_FORMAT=json", "")]);
        command.args(words);
        command
    };
    let entry = exec_words(&last_argument("ENTRYPOINT"));
    let health = exec_words(&last_argument("HEALTHCHECK"));
    let unhealthy = CommandRun::run(&mut in_image(&health));
    assert!(!unhealthy.is_success, "healthy without a server: {unhealthy:?}");
    let serve = [entry.clone(), exec_words(&last_argument("CMD"))].concat();
    let mut server = StartedServer::start(in_image(&serve).args(["--listen", "127.0.0.1:0"]));
    // At another address than that of the image.
    CommandRun::expect_success(&mut in_image(&health));
    expect_answer(in_image(&entry).args(["--url", &server.url]));
    server.stop();
    // Control: an archive that was changed stops the build.
    let archive = copy_archive(&root);
    let name = archive.file_name().unwrap().to_str().unwrap();
    root.run("sh", &["-c", &format!("echo changed > /release/{name}")]);
    let changed = unpack_step(&root);
    assert!(!changed.is_success && changed.stdout.contains("FAILED"), "{changed:?}");
}

#[test]
fn the_image_file_names_no_root_and_needs_no_shell() {
    let stages: Vec<String> =
        instructions().into_iter().filter(|line| line.starts_with("FROM ")).collect();
    assert!(stages.len() == 2 && stages[1].ends_with(":nonroot"), "{stages:?}");
    for name in ["ENTRYPOINT", "CMD", "HEALTHCHECK"] {
        assert!(Path::new(&exec_words(&last_argument(name))[0]).is_absolute() || name == "CMD");
    }
}
