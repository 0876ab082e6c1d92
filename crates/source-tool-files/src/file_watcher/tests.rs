use std::fs;
use std::path::Path;
use std::time::Duration;

use tool::SourceRevision;

use super::{DEFAULT_POLL_INTERVAL, FileFingerprint, FileWatcher, WatchOptions};

/// Longer than any machine is slow.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("nothing came of it")
}

fn watch(path: &Path, how: WatchOptions) -> FileWatcher {
    FileWatcher::new(path.into(), how)
}

const KERNEL: WatchOptions =
    WatchOptions { uses_kernel_events: true, poll_interval: Duration::from_hours(1) };
const LOOKS: WatchOptions =
    WatchOptions { uses_kernel_events: false, poll_interval: Duration::from_millis(5) };

/// What a listing does around its reading.
fn listed(watch: &FileWatcher) -> SourceRevision {
    let revision = watch.current_revision();
    watch.record_fingerprint(FileFingerprint::from_path(&watch.path));
    revision
}

/// Makes `change` once the watch of `revision` is surely being waited on, and gives the new one.
async fn after(
    watch: &FileWatcher,
    revision: SourceRevision,
    change: impl FnOnce(),
) -> SourceRevision {
    let waiting = watch.wait_for_change(revision);
    let changing = async {
        // The folder is watched, or nothing is, as soon as the waiter has run once.
        tokio::task::yield_now().await;
        change();
    };
    soon(async { tokio::join!(waiting, changing) }).await.0
}

#[tokio::test]
async fn the_kernel_tells_of_a_write_a_rename_and_a_removal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.yaml");
    fs::write(&path, "a").unwrap();
    let watch = watch(&path, KERNEL);
    let mut revision = listed(&watch);
    let swap = folder.path().join("new");
    let changes: [&dyn Fn(); 3] = [
        &|| fs::write(&path, "b").unwrap(),
        &|| fs::write(&swap, "c").and_then(|()| fs::rename(&swap, &path)).unwrap(),
        &|| fs::remove_file(&path).unwrap(),
    ];
    for change in changes {
        let next = after(&watch, revision, change).await;
        assert!(next > revision);
        revision = listed(&watch);
    }
}

/// A ConfigMap: the file is a link into a folder that is a link, and that one is swapped.
#[tokio::test]
async fn the_kernel_tells_of_a_swapped_folder() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for version in ["v1", "v2"] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("tools.yaml"), version).unwrap();
    }
    symlink("v1", at("..data")).unwrap();
    symlink("..data/tools.yaml", at("tools.yaml")).unwrap();
    let watch = watch(&at("tools.yaml"), KERNEL);
    let revision = listed(&watch);
    let next = after(&watch, revision, || {
        symlink("v2", at("..new")).unwrap();
        fs::rename(at("..new"), at("..data")).unwrap();
    });
    assert!(next.await > revision);
}

#[tokio::test]
async fn a_look_finds_what_the_kernel_does_not_tell() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.yaml");
    let watch = watch(&path, LOOKS);
    let mut revision = listed(&watch);
    for change in [Some("a"), Some("longer"), None] {
        let next = after(&watch, revision, || match change {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        });
        assert!(next.await > revision);
        revision = listed(&watch);
    }
}

/// Level, not edge: a change between two waits is not lost.
#[tokio::test]
async fn a_change_while_nobody_waits_is_told_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.yaml");
    fs::write(&path, "a").unwrap();
    for how in [KERNEL, LOOKS] {
        let watch = watch(&path, how);
        let revision = listed(&watch);
        fs::write(&path, "another length").unwrap();
        assert!(soon(watch.wait_for_change(revision)).await > revision);
        fs::write(&path, "a").unwrap();
    }
}

/// Waits until the kernel's events up to now are told: those of one folder come in their order, so they
/// stand before the first one of a marker that is created now. No look at the marker counts.
async fn events_are_told(folder: &Path, marker: &str) {
    let marker = watch(&folder.join(marker), KERNEL);
    assert!(!marker.ensure_kernel_watch(), "it is open");
    let mut revisions = marker.revision.subscribe();
    fs::write(&marker.path, "marker").unwrap();
    soon(revisions.changed()).await.unwrap();
}

/// Reading the file must not look like a change, or listing would never end.
#[tokio::test]
async fn reading_is_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.yaml");
    fs::write(&path, "a").unwrap();
    let watch = watch(&path, KERNEL);
    assert!(!watch.ensure_kernel_watch(), "it is open");
    let revision = listed(&watch);
    fs::write(&path, "bb").unwrap();
    events_are_told(folder.path(), "first").await;
    // The control: the marker stands behind what is told.
    let written = listed(&watch);
    assert!(written > revision);
    for _ in 0..3 {
        assert_eq!(fs::read_to_string(&path).unwrap(), "bb");
        watch.poll_once().await;
    }
    events_are_told(folder.path(), "second").await;
    assert_eq!(watch.current_revision(), written);
}

#[tokio::test(start_paused = true)]
async fn a_closed_watch_tells_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.yaml");
    let watch = watch(&path, LOOKS);
    let revision = listed(&watch);
    watch.close_watch();
    fs::write(&path, "a").unwrap();
    // On a clock that passes at once where nothing else is to do.
    let waited =
        tokio::time::timeout(Duration::from_hours(1), watch.wait_for_change(revision)).await;
    assert!(waited.is_err());
    assert_eq!(WatchOptions::default().poll_interval, DEFAULT_POLL_INTERVAL);
}

/// One watch serves all: each hears of its own file and folder, however the folder was named, also when
/// others have gone.
#[tokio::test]
async fn many_files_share_the_kernels_word() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink(folder.path(), at("again")).unwrap();
    fs::create_dir(at("below")).unwrap();
    let paths = [at("a.yaml"), at("b.yaml"), at("again/c.yaml"), at("below/a.yaml")];
    let watches: Vec<_> = paths.iter().map(|path| watch(path, KERNEL)).collect();
    let seen: Vec<_> = watches.iter().map(listed).collect();
    for watch in &watches {
        assert!(!watch.ensure_kernel_watch(), "it is open");
    }
    for ((watch, seen), path) in watches.iter().zip(seen).zip(&paths) {
        assert!(after(watch, seen, || fs::write(path, "x").unwrap()).await > seen, "{path:?}");
    }
    let [a, b, c, below] = watches.try_into().unwrap();
    a.close_watch();
    below.close_watch();
    drop((a, below));
    for (watch, path) in [(b, &paths[1]), (c, &paths[2])] {
        let seen = listed(&watch);
        assert!(after(&watch, seen, || fs::write(path, "y").unwrap()).await > seen);
    }
}
