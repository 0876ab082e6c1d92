use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{ConfigUpdate, spawn_watcher};
use crate::load_config;
use crate::tests::load_options;

const ONE: &str = "version: 1\nsources:\n  - { name: one, tools: t }\n";
const TWO: &str = "version: 1\nsources:\n  - { name: two, tools: t }\n";

struct WatchedFolder {
    latest: Receiver<ConfigUpdate>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl WatchedFolder {
    fn of(folder: &Path) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let options = load_options(folder, &[]);
        let first = load_config(&options);
        let latest = spawn_watcher(options, &first, &tasks, stop.clone());
        Self { latest, tasks, stop }
    }

    /// Waits until the state is this: the names of the sources, or the first fault.
    async fn until(&mut self, expected: &str) {
        let is = |latest: &ConfigUpdate| match latest.as_ref() {
            Ok(config) => config.sources.iter().any(|source| source.name.as_str() == expected),
            Err(errors) => errors.0.iter().any(|error| error.message.contains(expected)),
        };
        let seen = self.latest.wait_for(is);
        drop(tokio::time::timeout(Duration::from_secs(20), seen).await.expect(expected).unwrap());
    }

    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[tokio::test]
async fn a_change_is_told_whole_and_a_fault_is_told_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.yaml");
    fs::write(&file, ONE).unwrap();
    let mut watched = WatchedFolder::of(folder.path());
    watched.until("one").await;
    fs::write(&file, "version: 1\nsources:\n  - { name: x, tols: t }\n  - { name: y, tools: t }\n")
        .unwrap();
    watched.until("unknown key `tols`").await;
    fs::write(&file, TWO).unwrap();
    watched.until("two").await;
    fs::remove_file(&file).unwrap();
    watched.until("No such file").await;
    fs::write(&file, ONE).unwrap();
    watched.until("one").await;
    watched.end().await;
}

/// As deep as the bounds allow, on a thread of the runtime: a smaller stack would end the process.
#[tokio::test]
async fn a_deep_file_is_a_fault_and_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.yaml");
    fs::write(&file, ONE).unwrap();
    let mut watched = WatchedFolder::of(folder.path());
    watched.until("one").await;
    let deep = format!("version: 1\nx: {}{}\n", "[".repeat(62), "]".repeat(62));
    fs::write(&file, deep).unwrap();
    watched.until("unknown key `x`").await;
    watched.end().await;
}

#[tokio::test]
async fn a_file_that_is_replaced_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, new) = (folder.path().join("t.yaml"), folder.path().join("new"));
    fs::write(&file, ONE).unwrap();
    let mut watched = WatchedFolder::of(folder.path());
    for (text, name) in [(TWO, "two"), (ONE, "one"), (TWO, "two")] {
        fs::write(&new, text).unwrap();
        fs::rename(&new, &file).unwrap();
        watched.until(name).await;
    }
    watched.end().await;
}

/// As Kubernetes does: the file is a link into `..data`, which is a link that is swapped.
#[tokio::test]
async fn a_swapped_link_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, text) in [("..one", ONE), ("..two", TWO)] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("t.yaml"), text).unwrap();
    }
    symlink("..one", at("..data")).unwrap();
    symlink("..data/t.yaml", at("t.yaml")).unwrap();
    let mut watched = WatchedFolder::of(folder.path());
    watched.until("one").await;
    symlink("..two", at("..tmp")).unwrap();
    fs::rename(at("..tmp"), at("..data")).unwrap();
    watched.until("two").await;
    watched.end().await;
}

#[tokio::test]
async fn the_file_behind_a_link_and_a_file_it_names_are_followed() {
    let (folder, misplaced_key_help) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (real, servers) =
        (misplaced_key_help.path().join("real.yaml"), misplaced_key_help.path().join("mcp.json"));
    fs::write(&real, ONE).unwrap();
    symlink(&real, folder.path().join("t.yaml")).unwrap();
    let mut watched = WatchedFolder::of(folder.path());
    let with = format!("version: 1\nsources:\n  - mcp_servers: {}\n", servers.display());
    fs::write(&real, with).unwrap();
    watched.until("cannot be read").await;
    for name in ["a", "b"] {
        fs::write(&servers, format!(r#"{{"mcpServers":{{"{name}":{{"command":"c"}}}}}}"#)).unwrap();
        watched.until(name).await;
    }
    watched.end().await;
}

#[tokio::test]
async fn a_changed_secret_is_a_change_although_nothing_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let with = |token: &str| {
        let source =
            format!("{{ name: a, module: 'http://h', credential: {{ bearer: {token} }} }}");
        fs::write(folder.path().join("t.yaml"), format!("version: 1\nsources:\n  - {source}\n"))
            .unwrap();
    };
    with("old");
    let mut watched = WatchedFolder::of(folder.path());
    with("new");
    let is_new = |latest: &ConfigUpdate| {
        let config = latest.as_ref().as_ref().unwrap();
        config.sources[0].credential.as_ref().unwrap().expose() == "new"
    };
    let seen = watched.latest.wait_for(is_new);
    drop(tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap().unwrap());
    watched.end().await;
}

#[tokio::test]
async fn a_fifo_in_the_files_place_is_a_fault_and_holds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (file, fifo) = (folder.path().join("t.yaml"), folder.path().join("fifo"));
    fs::write(&file, ONE).unwrap();
    let mut watched = WatchedFolder::of(folder.path());
    watched.until("one").await;
    // Nobody writes to it: who opens it in the usual way waits for ever.
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    fs::rename(&fifo, &file).unwrap();
    watched.until("is not a regular file").await;
    fs::write(folder.path().join("new"), TWO).unwrap();
    fs::rename(folder.path().join("new"), &file).unwrap();
    watched.until("two").await;
    // The end does not wait for one either.
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    fs::rename(&fifo, &file).unwrap();
    tokio::time::timeout(Duration::from_secs(20), watched.end()).await.unwrap();
}
