//! The install script against a file server on loopback, under two shells; and shellcheck's view.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::built_packages::{VERSION, built_packages};
use super::command_run::{CommandRun, clean_command};
use super::file_server::FileServer;
use super::served_call::call_through_server;

fn script() -> PathBuf {
    built_packages().join("install.sh")
}

fn install(shell: &str, home: &Path, base_url: &str) -> Command {
    let mut command = clean_command(shell);
    command.arg(script()).env("HOME", home).env("TOOLKEEP_BASE_URL", base_url);
    command.current_dir(home);
    command
}

/// Every file below a folder.
fn files_below(folder: &Path) -> String {
    CommandRun::expect_success(Command::new("find").arg(folder).args(["-type", "f"]))
}

#[test]
fn the_script_installs_for_this_user_and_the_server_answers_a_call() {
    let server = FileServer::of_folder(built_packages());
    for shell in ["dash", "bash"] {
        let home = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let printed = CommandRun::expect_success(&mut install(shell, home.path(), &server.url));
        let installed = started.elapsed().as_secs_f64();
        let program = home.path().join(".local/bin/toolkeep");
        assert_eq!(
            printed,
            format!(
                "installed toolkeep {VERSION} as {program}\nadd it to your path: export PATH=\"{bin}:$PATH\"\n",
                program = program.display(),
                bin = program.parent().unwrap().display()
            )
        );
        assert_eq!(files_below(home.path()), format!("{}\n", program.display()));
        call_through_server(&|| clean_command(&program), &home.path().join("data"));
        let answered = started.elapsed().as_secs_f64();
        println!(
            "install.sh by {shell}: {installed:.1} s, first call answered after {answered:.1} s"
        );
    }
}

#[test]
fn a_running_program_is_replaced() {
    let server = FileServer::of_folder(built_packages());
    let home = tempfile::tempdir().unwrap();
    CommandRun::expect_success(&mut install("sh", home.path(), &server.url));
    let program = home.path().join(".local/bin/toolkeep");
    let data = home.path().join("data");
    let mut serve = clean_command(&program);
    serve.arg("serve").arg("--data").arg(&data).args(["--listen", "127.0.0.1:0"]);
    let mut running = super::served_call::StartedServer::start(&mut serve);
    CommandRun::expect_success(&mut install("sh", home.path(), &server.url));
    let mut call = clean_command(&program);
    super::served_call::expect_answer(call.arg("--data").arg(&data).arg("--url").arg(&running.url));
    running.stop();
}

#[test]
fn an_archive_that_was_changed_or_is_missing_is_not_installed() {
    let home = tempfile::tempdir().unwrap();
    let mirror = home.path().join("mirror");
    fs::create_dir(&mirror).unwrap();
    let name = format!("toolkeep-{VERSION}-linux-{}.tar.gz", std::env::consts::ARCH);
    // A whole archive, but of another program.
    let folder = name.trim_end_matches(".tar.gz");
    fs::create_dir(home.path().join(folder)).unwrap();
    fs::write(home.path().join(folder).join("toolkeep"), "#!/bin/sh\ntouch ran\n").unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(mirror.join(&name)).arg("-C").arg(home.path()).arg(folder);
    CommandRun::expect_success(&mut tar);
    let server = FileServer::of_folder(mirror);
    let user = home.path().join("user");
    fs::create_dir(&user).unwrap();
    let changed = CommandRun::run(&mut install("sh", &user, &server.url));
    assert!(
        !changed.is_success && changed.stderr.contains("error: the archive has checksum"),
        "{changed:?}"
    );
    let missing = CommandRun::run(&mut install("sh", &user, &format!("{}/none", server.url)));
    assert!(
        !missing.is_success && missing.stderr.contains("error: cannot download"),
        "{missing:?}"
    );
    let unsafe_url = CommandRun::run(&mut install("sh", &user, "http://127.0.0.1.example"));
    assert!(unsafe_url.stderr.contains("is not HTTPS"), "{unsafe_url:?}");
    assert_eq!(files_below(&user), "", "something was installed or left behind");
}

#[test]
fn systems_without_a_program_are_named() {
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::iter::once(bin.clone()).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).unwrap();
    for (system, machine, problem) in [
        ("Darwin", "arm64", "there is no program for Darwin"),
        ("Linux", "riscv64", "there is no program for riscv64 in this release"),
    ] {
        let uname =
            format!("#!/bin/sh\ncase $1 in -s) echo {system} ;; *) echo {machine} ;; esac\n");
        fs::write(bin.join("uname"), uname).unwrap();
        CommandRun::expect_success(Command::new("chmod").arg("755").arg(bin.join("uname")));
        let mut shell = install("sh", home.path(), "http://127.0.0.1:9");
        let run = CommandRun::run(shell.env("PATH", &path));
        assert!(!run.is_success && run.stderr.starts_with(&format!("error: {problem}")), "{run:?}");
        assert!(run.stderr.contains("docs/guide/install.md"), "{run:?}");
    }
}

#[test]
fn a_script_that_was_cut_off_does_nothing() {
    let text = fs::read_to_string(script()).unwrap();
    let home = tempfile::tempdir().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // All but the two calls at the end.
    let cut = home.path().join("cut.sh");
    fs::write(&cut, lines[..lines.len() - 2].join("\n")).unwrap();
    let user = home.path().join("user");
    fs::create_dir(&user).unwrap();
    let mut shell = clean_command("sh");
    shell.arg(&cut).env("HOME", &user).env("TOOLKEEP_BASE_URL", "http://127.0.0.1:9");
    let run = CommandRun::run(&mut shell);
    assert!(run.is_success && run.stdout.is_empty() && run.stderr.is_empty(), "{run:?}");
    assert_eq!(files_below(&user), "");
}

#[test]
fn shellcheck_has_no_finding() {
    let mut check = clean_command("shellcheck");
    check.args(["--shell", "sh", "--severity", "style"]).arg(script());
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/debian");
    check.args(["postinst", "prerm", "postrm"].map(|name| sources.join(name)));
    CommandRun::expect_success(&mut check);
}
