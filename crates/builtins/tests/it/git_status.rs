//! Tests of `git_status` on untrusted repositories.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use sandbox::process::ProcessLauncher;
use serde_json::{Value, json};

use crate::stage::Stage;

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";

pub(crate) fn launcher() -> ProcessLauncher {
    ProcessLauncher::new(env!("CARGO_BIN_EXE_builtins-launch").into(), vec!["__launch".into()])
}

/// Creates a working copy on `main` with one untracked file.
fn repository(at: &Path) {
    for part in [".git/objects/info", ".git/refs/heads", ".git/info", ".git/hooks", "sub"] {
        fs::create_dir_all(at.join(part)).unwrap();
    }
    fs::write(at.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(at.join(".git/config"), CONFIG).unwrap();
    fs::write(at.join("sub/new.txt"), "new").unwrap();
}

struct World(Stage);

impl World {
    /// Sets up `repo` in the working folder, and `secret-name` in a folder `outside` beside it.
    async fn new() -> Self {
        let stage = Stage::with(Some(launcher()), None).await;
        repository(&stage.work().join("repo"));
        fs::create_dir(stage.home.path().join("outside")).unwrap();
        fs::write(stage.home.path().join("outside/secret-name"), "x").unwrap();
        Self(stage)
    }

    fn git(&self, part: &str) -> std::path::PathBuf {
        self.0.work().join("repo/.git").join(part)
    }

    fn outside(&self) -> String {
        self.0.home.path().join("outside").display().to_string()
    }

    async fn status(&self) -> Result<Value, Value> {
        self.0.call("git_status", &json!({ "repo_path": "repo" })).await
    }

    async fn refused(&self, what: &str) {
        let answer = self.status().await;
        let Err(words) = &answer else { panic!("{what}: {answer:?}") };
        let words = words.as_str().unwrap();
        let fine = words.contains("not allowed") || words.contains("cannot be read");
        assert!(fine && !words.contains("secret-name"), "{what}: {words}");
    }
}

/// Reads the status in this process without checks: the attack must succeed here.
fn naively(path: &Path) -> Vec<String> {
    let options = gix::open::Options::isolated().strict_config(false);
    let repository = gix::open_opts(path, options).unwrap();
    let status = repository.status(gix::progress::Discard).unwrap();
    let status = status.untracked_files(gix::status::UntrackedFiles::Files);
    let items = status.into_iter(None).unwrap();
    items.filter_map(Result::ok).map(|item| item.location().to_string()).collect()
}

#[tokio::test]
async fn a_working_copy_is_read_with_settings_that_lead_nowhere() {
    let world = World::new().await;
    let hooks = format!("{CONFIG}\thooksPath = .husky\n\tfsmonitor = /bin/false\n");
    fs::write(world.git("config"), hooks).unwrap();
    symlink("../../sub/new.txt", world.git("hooks/pre-commit")).unwrap();
    fs::write(world.0.work().join("repo/.gitignore"), "ignored\n").unwrap();
    fs::write(world.0.work().join("repo/ignored"), "").unwrap();
    let told = json!({
        "branch": "main", "modified": [], "staged": [], "truncated": false,
        "untracked": [".gitignore", "sub/new.txt"],
    });
    assert_eq!(world.status().await, Ok(told));
}

#[tokio::test]
async fn no_configuration_leads_out_of_the_folder() {
    let world = World::new().await;
    let outside = world.outside();
    for line in [
        "[core] worktree = OUT\n",
        "[core]\n\tworktree = OUT\n",
        "[CORE] WorkTree = OUT\n",
        "[core] bare = false\n[core] worktree = OUT\n",
        "[core]\n\tbare = false \\\n\n[core] worktree = \"OUT\"\n",
        "[core] ; bare\n\tworktree = OUT\n",
        "[core] worktree = ../../../../../../outside\n",
        "[core] excludesFile = OUT/secret-name\n",
        "[core \"a\"] attributesFile = OUT/secret-name\n",
        "[include] path = OUT/secret-name\n",
        "[includeIf \"gitdir:/\"] path = OUT/secret-name\n",
        "[include]path=OUT/secret-name\n",
    ] {
        let text =
            format!("[core]\n\trepositoryformatversion = 0\n{}", line.replace("OUT", &outside));
        fs::write(world.git("config"), text).unwrap();
        world.refused(line).await;
    }
    // Control: without checks and worker, the fourth attack lists files outside.
    let text = format!("{CONFIG}[core] worktree = {outside}\n");
    fs::write(world.git("config"), text).unwrap();
    assert!(naively(&world.0.work().join("repo")).contains(&"secret-name".to_owned()));
    fs::write(world.git("config"), CONFIG).unwrap();
    assert!(world.status().await.is_ok());
}

#[tokio::test]
async fn no_part_of_a_repository_is_elsewhere() {
    for (part, content) in [
        ("commondir", "OUT\n"),
        ("config.worktree", "[core]\nworktree = OUT\n"),
        ("objects/info/alternates", "OUT\n"),
        ("objects/info/http-alternates", "http://127.0.0.1/\n"),
    ] {
        let world = World::new().await;
        fs::write(world.git(part), content.replace("OUT", &world.outside())).unwrap();
        world.refused(part).await;
    }
    for part in
        ["HEAD", "config", "index", "refs/heads/main", "refs/more", "info/exclude", "objects"]
    {
        let world = World::new().await;
        let at = world.git(part);
        if at.is_dir() {
            fs::remove_dir_all(&at).unwrap();
        } else if at.exists() {
            fs::remove_file(&at).unwrap();
        }
        symlink(world.outside(), &at).unwrap();
        world.refused(part).await;
    }
    let world = World::new().await;
    let repo = world.0.work().join("repo");
    fs::remove_dir_all(repo.join(".git")).unwrap();
    fs::write(repo.join(".git"), format!("gitdir: {}\n", world.outside())).unwrap();
    world.refused("a file `.git`").await;
}

#[tokio::test]
async fn what_is_no_regular_file_holds_nothing() {
    for part in [
        ".git/HEAD",
        ".git/config",
        ".git/index",
        ".git/packed-refs",
        ".git/shallow",
        ".git/sharedindex.0000000000000000000000000000000000000000",
        ".git/refs/heads/main",
        ".git/objects/aa",
        ".git/info/exclude",
        ".gitignore",
        "sub/.gitattributes",
        ".gitmodules",
    ] {
        let world = World::new().await;
        let at = world.0.work().join("repo").join(part);
        if at.exists() {
            fs::remove_file(&at).unwrap();
        }
        rustix::fs::mknodat(CWD, &at, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        world.refused(part).await;
    }
}
