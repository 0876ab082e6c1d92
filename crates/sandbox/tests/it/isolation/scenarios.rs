//! Forbidden actions of a shell in a sandbox; each succeeds without one.

use std::time::{Duration, Instant};

use sandbox::SandboxLevel;
use sandbox::process::ChildExit;

use super::{launcher, said, sandbox_spec, shell, work};
use crate::marks::{continue_processes, mark, process_limit, stop_carriers, until, wait_until};

const TIERS: [SandboxLevel; 2] = [SandboxLevel::Full, SandboxLevel::NoNamespaces];

/// Name, script, and text that must not be printed. `OUT` is a folder outside.
const SILENT: &[(&str, &str, &str)] = &[
    ("read a file outside", "cat $OUT/secret", "outside"),
    ("read through the parent", "cat ../$NAME/secret; cd ..; cat $NAME/secret", "outside"),
    ("read through a link", "ln -s $OUT/secret l && cat l", "outside"),
    ("read through /proc", "cat /proc/*/root$OUT/secret /proc/1/root$OUT/secret", "outside"),
    ("read another's environment", "cat /proc/*/environ | tr '\\0' '\\n'", "TK_OUTSIDE"),
    ("read the shadow file", "cat /etc/shadow", "root:"),
    ("list the superuser's folder", "ls -a /root && echo LISTED", "LISTED"),
    ("see processes outside", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '", "scenarios"),
    ("use descriptors of others", "for n in 3 4 5 6 7 8 9; do cat <&$n && echo GOT; done", "GOT"),
    ("mount", "mount -t tmpfs x /mnt && echo GOT; mount -t tmpfs x . && echo GOT", "GOT"),
    ("namespaces in it", "unshare -Ur true && echo GOT", "GOT"),
    ("be the superuser", "[ $(id -u) = 0 ] && echo GOT", "GOT"),
    ("write the system", "touch /usr/x /bin/x /etc/x /x && echo GOT", "GOT"),
    ("run what it wrote", "cp /bin/true t && chmod +x t && ./t && echo GOT", "GOT"),
    ("core dump", "ulimit -c; kill -SEGV $$; ls core*", "core."),
];

#[tokio::test]
async fn what_is_outside_is_neither_seen_nor_changed() {
    for tier in TIERS {
        for (name, script, never) in SILENT {
            let (work, out) = (work(), work());
            std::fs::write(out.path().join("secret"), "outside").unwrap();
            let place = out.path().display();
            let base = out.path().file_name().unwrap().to_str().unwrap();
            let script = format!("OUT={place}; NAME={base}; {script}; echo through");
            let (text, exit) = said(sandbox_spec(tier, &work), &script).await;
            assert!(!text.contains(never), "{tier:?} {name}: {text}");
            let ended = text.contains("through") || *name == "core dump";
            assert!(ended, "{tier:?} {name}: {exit:?} {text}");
        }
    }
}

#[tokio::test]
async fn writing_outside_leaves_nothing_there() {
    for tier in TIERS {
        let (work, out) = (work(), work());
        let place = out.path().display();
        let script = format!(
            "echo x > {place}/a; mkdir -p {place}/b; ln {place}/secret h; mv {place}/secret m; \
             rm -rf {place}/secret; chmod 777 {place}; ln -s {place} l; echo x > l/c; echo through"
        );
        std::fs::write(out.path().join("secret"), "outside").unwrap();
        let (text, _) = said(sandbox_spec(tier, &work), &script).await;
        assert!(text.contains("through"));
        let left: Vec<_> = std::fs::read_dir(out.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{tier:?} {left:?} {text}");
        assert_eq!(std::fs::read(out.path().join("secret")).unwrap(), b"outside");
    }
}

/// Control: without a sandbox the same scripts print it.
#[test]
fn the_same_scripts_get_there_without_a_sandbox() {
    let out = work();
    std::fs::write(out.path().join("secret"), "outside").unwrap();
    let (place, base) = (out.path(), out.path().file_name().unwrap());
    for (name, script, says) in SILENT.iter().take(3).chain(&SILENT[4..5]).chain(&SILENT[10..11]) {
        let inside = tempfile::tempdir().unwrap();
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", script])
            .env("OUT", place)
            .env("NAME", base)
            .env("TK_OUTSIDE", "TK_OUTSIDE")
            .current_dir(inside.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Temporary folders are siblings, so `..` leads there.
        assert!(text.contains(says), "{name}: {text}");
    }
}

/// Landlock does not restrict how a file is mapped, but mount options do. Loaded code gains no
/// access in either case.
#[tokio::test]
async fn a_whole_sandbox_does_not_load_what_it_wrote() {
    let work = work();
    let script = "cp /bin/true t; $(ls /lib64/ld-linux* /lib/ld-linux* 2>/dev/null | head -1) ./t && echo GOT; \
                  echo through";
    let (text, _) = said(sandbox_spec(SandboxLevel::Full, &work), script).await;
    assert!(!text.contains("GOT") && text.contains("through"), "{text}");
}

#[tokio::test]
async fn processes_are_bounded() {
    for tier in TIERS {
        let work = work();
        let script = "i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done; echo $i";
        let mut sandbox_spec = sandbox_spec(tier, &work);
        sandbox_spec.limits.max_tasks = 16;
        let (text, _) = said(sandbox_spec, script).await;
        assert!(!text.contains("200\n"), "{tier:?}: {text}");
        assert!(text.contains("fork"), "{tier:?}: {text}");
    }
}

/// The bound is the process limit that the sandbox set, compared with the stopped, so exact, number
/// of processes.
#[tokio::test]
async fn a_fork_bomb_ends_with_its_kill() {
    for tier in TIERS {
        let (work, mark) = (work(), mark("bomb"));
        let mut sandbox_spec = sandbox_spec(tier, &work);
        // Fewer than the default: fenced sandboxes share the count of their user, and those of other
        // tests must have processes left.
        sandbox_spec.limits.max_tasks = 32;
        let bound = 32;
        let mut spec = shell(
            sandbox_spec,
            "exec 2>refused; b() { sleep 600 & b & b & wait; }; b & exec sleep 600",
        );
        spec.env.push(("TK_MARK".to_owned(), mark.as_str().into()));
        let child = launcher().spawn_child(&spec).unwrap();
        // Control: the bomb goes off, and grows until the limit refuses a process.
        until(&mark, |found| found >= 8).await;
        let refused = || std::fs::read_to_string(work.path().join("refused")).unwrap();
        wait_until("a refused fork", || refused().contains("fork")).await;
        let stopped = stop_carriers(&mark).await;
        let limit = process_limit(*stopped.first().unwrap());
        assert!(stopped.len() <= limit, "{tier:?}: {} of {limit}", stopped.len());
        match tier {
            SandboxLevel::Full => assert_eq!(limit, bound),
            // Processes of the same user outside the sandbox count too.
            SandboxLevel::NoNamespaces => assert!(limit >= bound, "{limit}"),
        }
        continue_processes(&stopped);
        let began = Instant::now();
        child.shut_down(Duration::from_millis(50)).await;
        assert!(began.elapsed() < Duration::from_secs(20));
        until(&mark, |found| found == 0).await;
    }
}

#[tokio::test]
async fn memory_is_bounded_for_one_and_for_all() {
    let work = work();
    let grow = "a=x; while :; do a=$a$a; done";
    for tier in TIERS {
        let mut sandbox_spec = sandbox_spec(tier, &work);
        sandbox_spec.limits.address_space_bytes = 256 << 20;
        let (text, exit) = said(sandbox_spec, grow).await;
        assert_ne!(exit, ChildExit::Code(0), "{text}");
    }
    let mut sandbox_spec = sandbox_spec(SandboxLevel::Full, &work);
    sandbox_spec.limits.total_memory_bytes = 64 << 20;
    let all = "for n in 1 2 3 4 5 6; do (a=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 9; echo $a) & done; wait";
    let mut child = launcher().spawn_child(&shell(sandbox_spec, all)).unwrap();
    assert_eq!(child.wait_ended().await, ChildExit::Signal(9));
    assert!(child.exceeded_memory_limit());
}

#[tokio::test]
async fn files_and_descriptors_are_bounded() {
    for tier in TIERS {
        let work = work();
        let mut sandbox_spec = sandbox_spec(tier, &work);
        sandbox_spec.limits.file_bytes = 1 << 20;
        let (text, _) =
            said(sandbox_spec, "head -c 9000000 /dev/zero > big; wc -c < big; ulimit -n").await;
        assert!(text.contains("1048576"), "{tier:?}: {text}");
        assert!(text.trim_end().ends_with("64"), "{tier:?}: {text}");
    }
}

#[tokio::test]
async fn the_temporary_folder_is_small_and_goes() {
    let work = work();
    let mut whole = sandbox_spec(SandboxLevel::Full, &work);
    whole.limits.scratch_bytes = 1 << 20;
    let (text, _) =
        said(whole, "head -c 9000000 /dev/zero > $TMPDIR/big; wc -c < $TMPDIR/big").await;
    assert!(text.contains("1048576"), "{text}");
    let (text, _) =
        said(sandbox_spec(SandboxLevel::NoNamespaces, &work), "echo x > $TMPDIR/x && echo $TMPDIR")
            .await;
    let folder = text.trim();
    assert!(folder.contains("toolkeep-"), "{text}");
    assert!(!std::path::Path::new(folder).exists(), "{folder}");
}

#[tokio::test]
async fn processor_time_is_bounded() {
    let work = work();
    let mut sandbox_spec = sandbox_spec(SandboxLevel::Full, &work);
    sandbox_spec.limits.cpu_seconds = 1;
    let (_, exit) = said(sandbox_spec, "while :; do :; done").await;
    assert!(matches!(exit, ChildExit::Signal(24 | 9)), "{exit:?}");
}

#[tokio::test]
async fn what_ended_is_taken_off_the_table() {
    let work = work();
    let script = "i=0; while [ $i -lt 300 ]; do (true &) ; i=$((i+1)); done; sleep 0.1; \
                  cat /proc/[0-9]*/stat | grep -c ' Z '; echo through";
    let (text, _) = said(sandbox_spec(SandboxLevel::Full, &work), script).await;
    assert!(text.contains("0\nthrough"), "{text}");
}
