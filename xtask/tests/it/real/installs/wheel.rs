//! Wheels: accepted by PyPI's checks, and installed by pip into a new environment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::built_packages::{VERSION, built_packages, installed_file};
use super::command_run::{CommandRun, clean_command};
use super::served_call::{call_through_server, expect_answer};

/// Longest time from `pip install` to the first call, with a release build on an idle machine.
const SECONDS_LIMIT: f64 = 10.0;

/// Files of the wheel with the program, by name and mode.
const WHEEL_FILES: &str = "\
toolkeep-VERSION.data/scripts/toolkeep 755
toolkeep-VERSION.dist-info/METADATA 644
toolkeep-VERSION.dist-info/WHEEL 644
toolkeep-VERSION.dist-info/licenses/LICENSE 644
toolkeep-VERSION.dist-info/licenses/THIRD-PARTY-LICENSES.txt 644
toolkeep-VERSION.dist-info/sboms/toolkeep.cdx.json 644
toolkeep-VERSION.dist-info/RECORD 644
";

/// Modules of the wheel for nodes.
const NODE_MODULES: [&str; 2] = ["toolkeep_node/__init__.py", "sdk/__init__.py"];

fn wheel(start: &str) -> PathBuf {
    let mut entries = std::fs::read_dir(built_packages()).unwrap();
    let is_wheel = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(start) && name.ends_with(".whl")
    };
    entries.find_map(|entry| Some(entry.unwrap().path()).filter(is_wheel)).unwrap()
}

fn new_venv(folder: &Path) -> PathBuf {
    CommandRun::expect_success(Command::new("python3").args(["-m", "venv"]).arg(folder));
    folder.join("bin")
}

fn pip_install(bin: &Path, package: &Path) -> Command {
    let mut pip = clean_command(bin.join("pip"));
    pip.args(["install", "--no-index", "--disable-pip-version-check", "--no-input", "--quiet"]);
    pip.arg(package);
    pip
}

/// Lists the files of an archive with their modes.
fn zip_files(path: &Path) -> String {
    let script = "import sys, zipfile\n\
        for i in zipfile.ZipFile(sys.argv[1]).infolist(): print(i.filename, oct(i.external_attr >> 16)[-3:])";
    CommandRun::expect_success(Command::new("python3").args(["-c", script]).arg(path))
}

#[test]
fn pip_installs_the_wheel_and_its_server_answers_a_call() {
    let wheel = wheel("toolkeep-");
    let home = tempfile::tempdir().unwrap();
    let bin = new_venv(&home.path().join("venv"));
    let started = Instant::now();
    CommandRun::expect_success(&mut pip_install(&bin, &wheel));
    let installed = started.elapsed().as_secs_f64();
    let data = home.path().join("data");
    call_through_server(&|| clean_command(bin.join("toolkeep")), &data);
    let answered = started.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(&wheel).unwrap().len();
    println!(
        "wheel of {bytes} bytes: pip install {installed:.1} s, first call answered after {answered:.1} s \
         (goal for a release build: {SECONDS_LIMIT} s)"
    );
    let mut python = clean_command(bin.join("python"));
    let read = "import importlib.metadata as m; print(m.version('toolkeep'), m.metadata('toolkeep')['License-Expression'])";
    let metadata = CommandRun::expect_success(python.args(["-c", read]));
    assert_eq!(metadata, format!("{VERSION} Apache-2.0\n"));
    let mut pip = clean_command(bin.join("pip"));
    CommandRun::expect_success(pip.args(["uninstall", "--yes", "toolkeep"]));
    assert!(!bin.join("toolkeep").exists(), "pip does not know all files of the wheel");
}

#[test]
fn uvx_runs_the_program_of_the_wheel() {
    wheel("toolkeep-");
    let home = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut uvx = clean_command(installed_file("venv-packaging/bin/uvx"));
    uvx.args(["--no-index", "--no-config", "--quiet", "--find-links"]).arg(built_packages());
    uvx.arg("--cache-dir").arg(home.path().join("cache")).env("UV_PYTHON_DOWNLOADS", "never");
    uvx.args(["toolkeep", "--data"]).arg(home.path().join("data"));
    expect_answer(&mut uvx);
    let answered = started.elapsed().as_secs_f64();
    println!("uvx toolkeep tool call, from a folder of wheels: answered after {answered:.1} s");
}

#[test]
fn a_changed_wheel_is_not_installed() {
    let home = tempfile::tempdir().unwrap();
    let bin = new_venv(&home.path().join("venv"));
    let original = wheel("toolkeep-");
    let changed = home.path().join(original.file_name().unwrap());
    let mut content = std::fs::read(&original).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    std::fs::write(&changed, content).unwrap();
    let run = CommandRun::run(&mut pip_install(&bin, &changed));
    // The sum does not match, or the byte ends what can be decompressed.
    let is_found = ["BadZipFile", "zlib.error"].iter().any(|error| run.stderr.contains(error));
    assert!(!run.is_success && is_found, "{run:?}");
}

#[test]
fn the_wheel_has_these_files_and_pypi_accepts_it() {
    let wheel = wheel("toolkeep-");
    assert_eq!(zip_files(&wheel), WHEEL_FILES.replace("VERSION", VERSION));
    let mut twine = clean_command(installed_file("venv-packaging/bin/twine"));
    let checked = twine.args(["check", "--strict"]).args([&wheel, &self::wheel("toolkeep_node-")]);
    let printed = CommandRun::expect_success(checked);
    assert_eq!(printed.matches("PASSED").count(), 2, "{printed}");
}

#[test]
fn the_wheel_runs_with_the_glibc_that_its_name_states() {
    let name = wheel("toolkeep-").file_name().unwrap().to_string_lossy().into_owned();
    let home = tempfile::tempdir().unwrap();
    let bin = new_venv(home.path());
    // The judge is pip: it lists the tags that it would install here.
    let tags = CommandRun::expect_success(clean_command(bin.join("pip")).args([
        "debug",
        "--verbose",
        "--disable-pip-version-check",
    ]));
    let tag = name.trim_end_matches(".whl").split_once("-py3").unwrap().1;
    assert!(
        tags.lines().any(|line| line.trim() == format!("py3{tag}")),
        "py3{tag} is not in\n{tags}"
    );
}

#[test]
fn the_wheel_for_nodes_is_imported() {
    let wheel = wheel("toolkeep_node-");
    let files = zip_files(&wheel);
    for module in NODE_MODULES {
        assert!(files.contains(&format!("{module} 644\n")), "{module} is not in\n{files}");
    }
    assert!(!files.contains("test"), "{files}");
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("packages");
    let python = installed_file("venv-node/bin/python");
    let mut pip = clean_command(&python);
    pip.args(["-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target"]);
    CommandRun::expect_success(pip.arg(&target).arg(&wheel));
    let mut import = clean_command(&python);
    import.env("PYTHONPATH", &target).current_dir(home.path());
    let file = CommandRun::expect_success(
        import.args(["-c", "import toolkeep_node; print(toolkeep_node.__file__)"]),
    );
    assert!(Path::new(file.trim()).starts_with(&target), "{file}");
}

#[test]
fn the_bill_of_materials_follows_its_schema() {
    let script = "import sys\n\
        from cyclonedx.schema import SchemaVersion\n\
        from cyclonedx.validation.json import JsonStrictValidator\n\
        error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())\n\
        sys.exit(repr(error) if error else 0)";
    let check = |path: &Path| {
        let mut python = clean_command(installed_file("venv-packaging/bin/python"));
        CommandRun::run(python.args(["-c", script]).arg(path))
    };
    let document = built_packages().join("toolkeep.cdx.json");
    let run = check(&document);
    assert!(run.is_success, "{run:?}");
    let text = std::fs::read_to_string(&document).unwrap();
    assert!(text.contains("\"purl\": \"pkg:cargo/tokio@"), "tokio is in the program");
    assert!(!text.contains("\"name\": \"insta\""), "tests are not in the program");
    // Control: the judge refuses another form.
    let home = tempfile::tempdir().unwrap();
    let wrong = home.path().join("wrong.json");
    std::fs::write(&wrong, text.replace("\"library\"", "\"book\"")).unwrap();
    assert!(!check(&wrong).is_success);
}
