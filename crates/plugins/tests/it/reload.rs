//! Changes of folders: taken when they are sound, told when they are not.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::stage::{SOON, Stage, called, manifest, processes};

fn code(version: u32) -> String {
    format!("import time\ndef which(wait=0):\n    time.sleep(wait)\n    return {version}\n")
}

async fn stage() -> Stage {
    let stage = Stage::new().await;
    stage.python("p", &code(1), &[("which", json!({"wait": {"type": "number"}}))]);
    stage.reload().await;
    assert_eq!(stage.call("p", "which", json!({})).await.unwrap(), 1);
    stage
}

/// Contracts 3.7, TRAP: code changes need no restart.
#[tokio::test]
async fn a_change_of_the_code_is_taken_without_being_asked() {
    let stage = stage().await;
    stage.write("p", "tools.py", &code(2));
    let began = Instant::now();
    while stage.call("p", "which", json!({})).await.unwrap() != 2 {
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.registry.close().await;
}

#[tokio::test]
async fn a_call_finishes_on_the_version_it_began_with() {
    let stage = stage().await;
    let old = stage.offer("p", "which").await;
    let running = tokio::spawn(async move { called(&old, json!({"wait": 1.5})).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    stage.write("p", "tools.py", &code(2));
    assert_eq!(stage.reload().await, (vec!["p".to_owned()], vec![]));
    assert_eq!(stage.call("p", "which", json!({})).await.unwrap(), 2);
    assert_eq!(running.await.unwrap().unwrap(), 1);
    stage.registry.close().await;
}

#[tokio::test]
async fn a_broken_edit_keeps_the_last_good_version_and_says_why() {
    let stage = stage().await;
    let good = manifest("p", &[("which", json!({"wait": {"type": "number"}}))]);
    for (file, text, told) in [
        ("tools.py", "def which(:\n".to_owned(), "SyntaxError: "),
        (
            "tools.py",
            "raise RuntimeError('at import')\n".to_owned(),
            "RuntimeError: at import (tools.py line 1)",
        ),
        (
            "tools.py",
            "import os\nos._exit(1)\n".to_owned(),
            "its process does not start: it ended before it was ready",
        ),
        ("tools.py", "def other(): pass\n".to_owned(), "`tools.py` has no function `which`"),
        ("manifest.json", "{".to_owned(), "Invalid manifest "),
        ("manifest.json", json!({"name": "p"}).to_string(), "Missing required field: version"),
    ] {
        stage.write("p", file, &text);
        let (reloaded, failed) = stage.reload().await;
        assert_eq!((reloaded.len(), failed.len()), (0, 1), "{text}");
        let problems = stage.listing("p").await.problems;
        let message = &problems[0].message;
        assert!(
            message.starts_with(
                "the new version is invalid, so version 1.0.0 stays \
            active: "
            ),
            "{message}"
        );
        assert!(message.contains(told), "{message}");
        assert_eq!(stage.call("p", "which", json!({})).await.unwrap(), 1);
        // Mended, it is taken, and nothing is wrong any more.
        stage.write("p", "tools.py", &code(1));
        stage.manifest("p", &good);
        stage.reload().await;
        assert_eq!(stage.listing("p").await.problems, []);
    }
    stage.registry.close().await;
}

/// What did not start for want of something is tried again as it stands; nobody has to touch it.
#[tokio::test]
async fn what_did_not_start_is_tried_again() {
    let stage = stage().await;
    let (copies, aside) = (stage.home.path().join("copies"), stage.home.path().join("aside"));
    std::fs::rename(&copies, &aside).unwrap();
    std::fs::write(&copies, "in the way").unwrap();
    stage.write("p", "tools.py", &code(2));
    assert_eq!(stage.reload().await, (vec![], vec!["p".to_owned()]));
    let problem = &stage.listing("p").await.problems[0].message;
    assert!(problem.contains("its process does not start: it cannot be copied"), "{problem}");
    std::fs::remove_file(&copies).unwrap();
    std::fs::rename(&aside, &copies).unwrap();
    let began = Instant::now();
    while stage.call("p", "which", json!({})).await.unwrap() != 2 {
        assert!(began.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stage.listing("p").await.problems, []);
    stage.registry.close().await;
}

/// Contracts 3.7, TRAPS: new folders are found by a reload, and removed ones go.
#[tokio::test]
async fn folders_come_and_go() {
    let stage = stage().await;
    stage.python("q", "def x(): return 'q'\n", &[("x", json!({}))]);
    assert_eq!(stage.reload().await.0, ["q"]);
    assert_eq!(stage.call("q", "x", json!({})).await.unwrap(), "q");
    std::fs::remove_dir_all(stage.folder("q")).unwrap();
    assert_eq!(stage.reload().await.0, ["q"]);
    assert_eq!(stage.registry.sources().len(), 1);
    assert_eq!(stage.reload().await, (vec![], vec![]), "it is not told for ever");
    stage.registry.close().await;
}

/// Contracts 3.7: a later plugin of the same name does not take the place of the first.
#[tokio::test]
async fn two_plugins_of_one_name_are_told() {
    let stage = stage().await;
    stage.manifest("z", &manifest("p", &[("which", json!({}))]));
    stage.write("z", "tools.py", "def which(): return 'z'\n");
    stage.reload().await;
    let problems = stage.listing("z").await.problems;
    assert!(problems[0].message.starts_with("the plugin `p` already exists in `"), "{problems:?}");
    assert_eq!(stage.call("p", "which", json!({})).await.unwrap(), 1);
    stage.registry.close().await;
}

#[tokio::test]
async fn changes_are_told_before_they_are_taken() {
    let stage = stage().await;
    assert_eq!(stage.registry.changed_plugins().await, [] as [&str; 0]);
    // Nobody looks any more, so nobody takes it.
    stage.registry.close().await;
    stage.write("p", "tools.py", &code(3));
    assert_eq!(stage.registry.changed_plugins().await, ["p"]);
}

/// What becomes of the code on the way to its next version.
fn on_the_way(version: u32, whole: &str) -> Option<String> {
    match version % 4 {
        0 => Some("def which(:\n".to_owned()),
        // Half of it, cut before it could be another whole.
        1 => {
            let most = whole.find("    time.sleep").unwrap();
            Some(whole.split_at(version as usize % most).0.to_owned())
        }
        // Sound, and at fault in each call: that alone may fail.
        2 => Some("def which(wait=0):\n    raise ValueError('own fault')\n".to_owned()),
        _ => None,
    }
}

/// The edit to a version, with what stands there meanwhile.
async fn edit(stage: &Stage, version: u32) {
    let whole = code(version);
    if let Some(other) = on_the_way(version, &whole) {
        stage.write("p", "tools.py", &other);
        match version % 4 {
            // Nobody waits: the rest of it comes while it is looked at.
            1 => tokio::time::sleep(Duration::from_millis(u64::from(version % 200))).await,
            _ => drop(stage.reload().await),
        }
    }
    stage.write("p", "tools.py", &whole);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Calls without end; answers how many there were, and how many failed by the plugin's own fault.
async fn load(stage: &Stage, stop: &std::sync::atomic::AtomicBool) -> (u32, u32) {
    let (mut made, mut own, mut last) = (0, 0, 0);
    while !stop.load(std::sync::atomic::Ordering::SeqCst) {
        match stage.call("p", "which", json!({})).await {
            Ok(now) => {
                let now = now.as_u64().unwrap();
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
            Err(error) if error.starts_with("ValueError: own fault") => own += 1,
            Err(error) => panic!("{error}"),
        }
        made += 1;
    }
    (made, own)
}

/// With valid, broken and half-written edits: no call fails that is not the plugin's own fault, none
/// meets an old version long after, and no process, copy or descriptor is left. The figures are printed:
/// `TOOLKEEP_DEEP=1` makes the thousand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_reloads_under_load_lose_no_call_and_leave_no_process() {
    let deep = std::env::var_os("TOOLKEEP_DEEP").is_some();
    let count: u32 = if deep { 1_000 } else { 16 };
    let stage = std::sync::Arc::new(stage().await);
    let before = descriptors();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let calling: Vec<_> = (0..2)
        .map(|_| {
            let (stage, stop) = (std::sync::Arc::clone(&stage), std::sync::Arc::clone(&stop));
            tokio::spawn(async move { load(&stage, &stop).await })
        })
        .collect();
    let (mut taken, began) = (Vec::new(), Instant::now());
    for version in 2..count + 2 {
        edit(&stage, version).await;
        let written = Instant::now();
        // Each second one is found by watching alone.
        if version % 8 < 4 {
            stage.reload().await;
        }
        while stage.call("p", "which", json!({})).await.ok() != Some(json!(version)) {
            assert!(written.elapsed() < SOON, "{version}: {:?}", stage.listing("p").await.problems);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        taken.push(written.elapsed());
    }
    let all = began.elapsed();
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let (mut made, mut own) = (0, 0);
    for one in calling {
        let (calls, fault) = one.await.unwrap();
        (made, own) = (made + calls, own + fault);
    }
    taken.sort_unstable();
    let (median, last) = (taken[taken.len() / 2], taken[taken.len() - 1]);
    println!(
        "{count} versions in {all:?}, taken after {median:?} in the median and {last:?} at most; {made} calls \
         beside, {own} failed by the plugin's own fault, no other"
    );
    assert!(made > count, "{made}");
    let home = stage.home.path().to_owned();
    assert!(std::fs::read_dir(home.join("copies")).unwrap().count() <= 2);
    assert!(descriptors() < before + 20, "{} descriptors, {before} before", descriptors());
    let running = processes(&home);
    assert!((1..=4).contains(&running), "{running} processes of one plugin");
    stage.registry.close().await;
    let began = Instant::now();
    while processes(&home) > 0 {
        assert!(began.elapsed() < SOON, "{} processes are left", processes(&home));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Another folder of plugins takes the place of the one before it while the server runs.
#[tokio::test]
async fn the_same_plugin_in_another_folder_is_taken_when_the_folders_change() {
    let stage = Stage::new().await;
    stage.python("p", &code(1), &[("which", json!({"wait": {"type": "number"}}))]);
    stage.reload().await;
    assert_eq!(stage.call("p", "which", json!({})).await.unwrap(), 1);
    let other = stage.home.path().join("others");
    std::fs::create_dir_all(other.join("p")).unwrap();
    let which = [("which", json!({"wait": {"type": "number"}}))];
    std::fs::write(other.join("p/manifest.json"), manifest("p", &which).to_string()).unwrap();
    std::fs::write(other.join("p/tools.py"), code(2)).unwrap();
    stage.registry.configure(vec![other.clone()], std::collections::BTreeMap::new());
    // Nobody asks for a reload: the registry looks by itself.
    let began = Instant::now();
    let place = other.display().to_string();
    let taken = || {
        let all = stage.registry.statuses();
        matches!(all.as_slice(), [one] if one.folder.starts_with(&place) && one.version.is_some())
    };
    while !taken() {
        assert!(began.elapsed() < SOON, "{:?}", stage.registry.statuses());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(stage.call("p", "which", json!({})).await.unwrap(), 2);
    stage.registry.close().await;
}

#[tokio::test]
async fn a_change_that_stays_refused_is_reported_by_every_reload() {
    let stage = stage().await;
    stage.write("p", "tools.py", "def which(:\n");
    for _ in 0..2 {
        assert_eq!(stage.reload().await, (vec![], vec!["p".to_owned()]));
    }
    // Positive control: once it is right, it is refused no longer.
    stage.write("p", "tools.py", &code(2));
    assert_eq!(stage.reload().await, (vec!["p".to_owned()], vec![]));
    assert_eq!(stage.reload().await, (vec![], vec![]));
    stage.registry.close().await;
}
