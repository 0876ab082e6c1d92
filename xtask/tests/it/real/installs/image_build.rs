//! The image, built by buildah from the image file of a release.
//!
//! No registry of images is needed: both base images are stood in for by the smallest Debian system,
//! under their names. It has more than the real ones, so what they lack is not tested here.

use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::built_packages::{VERSION, built_packages, installed_file};
use super::command_run::CommandRun;
use super::debian_root::root_command;
use super::served_call::expect_answer;

/// Name of the built image.
const IMAGE: &str = "localhost/toolkeep";

/// A store of images of its own. Removed when dropped.
struct ImageStore {
    folder: tempfile::TempDir,
}

impl ImageStore {
    fn command(&self, words: &[&str]) -> Command {
        let mut buildah = root_command("buildah");
        buildah.arg("--root").arg(self.folder.path().join("images"));
        buildah.arg("--runroot").arg(self.folder.path().join("run"));
        // Copies instead of mounts, which need no support of the kernel.
        buildah.args(["--storage-driver", "vfs"]).args(words);
        buildah
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> String {
        CommandRun::expect_success(&mut self.command(words)).trim().to_owned()
    }

    /// Makes the images that the file names in `FROM` out of a Debian system.
    fn add_base_images(&self, image_file: &str) {
        let archive = installed_file("debian-root.tar");
        let base = self.run(&["from", "scratch"]);
        self.run(&["add", "--quiet", &base, archive.to_str().unwrap(), "/"]);
        for line in image_file.lines().filter_map(|line| line.strip_prefix("FROM ")) {
            self.run(&["commit", "--quiet", &base, line.split(' ').next().unwrap()]);
        }
    }
}

impl Drop for ImageStore {
    fn drop(&mut self) {
        drop(
            root_command("rm").args(["-rf", "--one-file-system"]).arg(self.folder.path()).status(),
        );
    }
}

#[test]
fn buildah_builds_the_image_and_a_container_answers_a_call() {
    let store = ImageStore { folder: tempfile::tempdir().unwrap() };
    let context = store.folder.path().join("context");
    std::fs::create_dir(&context).unwrap();
    let archive = format!("toolkeep-{VERSION}-linux-{}.tar.gz", std::env::consts::ARCH);
    for name in ["Containerfile", &archive] {
        std::fs::copy(built_packages().join(name), context.join(name)).unwrap();
    }
    store.add_base_images(&std::fs::read_to_string(context.join("Containerfile")).unwrap());
    let isolation = ["--isolation", "chroot", "--network", "host"];
    let started = Instant::now();
    let mut build = store.command(&["build", "--pull-never", "--quiet", "--format", "docker"]);
    CommandRun::expect_success(build.args(isolation).args(["--tag", IMAGE]).arg(&context));
    let container = store.run(&["from", "--pull-never", IMAGE]);
    let mut call = store.command(&["run"]);
    expect_answer(call.args(isolation).args([&container, "--", "/usr/bin/toolkeep"]));
    let answered = started.elapsed().as_secs_f64();
    println!("buildah build and the first call in a container: answered after {answered:.1} s");

    let described: Value =
        serde_json::from_str(&store.run(&["inspect", "--type", "image", IMAGE])).unwrap();
    let config = &described["Docker"]["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], json!(["/usr/bin/toolkeep"]));
    assert_eq!(config["Cmd"], json!(["serve"]));
    assert_eq!(config["Healthcheck"]["Test"][0], "CMD", "{config}");
    assert_eq!(config["Volumes"], json!({ "/data": {} }));
    let mut owners = store.command(&["run"]);
    owners.args(isolation).args([
        &container,
        "--",
        "stat",
        "--format",
        "%n %u %a",
        "/data",
        "/usr/bin/toolkeep",
    ]);
    let owners = CommandRun::expect_success(&mut owners);
    assert_eq!(owners, "/data 65532 700\n/usr/bin/toolkeep 0 755\n");
}
