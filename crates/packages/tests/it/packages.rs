//! Packages are extracted into their own folder, or not at all.

use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use packages::{MAX_ENTRIES_PER_ORG, PackageLimits, PackageStore};
use serde_json::{Value, json};
use store::MemoryStore;
use tool::tool_packages::{ToolPackageError, ToolPackageStore as _};
use tool::{Json, Org, Store};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// A name, what is in it, and its mode.
type File<'a> = (&'a str, &'a [u8], u32);

fn zip(files: &[File<'_>]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content, mode) in files {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        if mode & 0o170_000 == 0o120_000 {
            let to = std::str::from_utf8(content).unwrap();
            zip.add_symlink(*name, to, options).unwrap();
        } else {
            zip.start_file(*name, options.unix_permissions(*mode)).unwrap();
            zip.write_all(content).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

fn package(spec: &Value, code: &[File<'_>], more: &[File<'_>]) -> Bytes {
    let (spec, code) = (spec.to_string(), zip(code));
    let mut files: Vec<File<'_>> =
        vec![("spec.json", spec.as_bytes(), 0o644), ("tool.zip", &code, 0o644)];
    files.push(("tool.md", b"# How\n", 0o644));
    files.extend_from_slice(more);
    zip(&files).into()
}

fn spec(id: &str) -> Value {
    json!({ "tool_id": id, "tool_runtime_type": "python", "tool_tags": ["a"] })
}

const CODE: File<'_> = ("code/function.py", b"class AgentSpaceV1Tool: ...\n", 0o644);

struct World {
    store: Arc<MemoryStore>,
    packages: PackageStore,
    home: tempfile::TempDir,
    org: Org,
}

impl World {
    async fn new() -> Self {
        let (store, home) = (Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap());
        let folder = home.path().join("catalogue");
        let packages = PackageStore::open(Arc::clone(&store) as _, &folder).await.unwrap();
        Self { store, packages, home, org: Org::default() }
    }

    async fn upload(&self, package: Bytes) -> Result<String, String> {
        self.packages.upload_package(&self.org, package).await.map_err(|error| error.to_string())
    }

    /// All files below the home of packages, without the names of their folders.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        gather(&self.home.path().join("catalogue"), &mut found);
        let cut = |path: PathBuf| path.iter().skip(self.home.path().iter().count() + 2).collect();
        let mut found: Vec<PathBuf> = found.into_iter().map(cut).collect();
        found.sort();
        found
    }
}

fn gather(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            gather(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[tokio::test]
async fn a_package_comes_out_and_goes_with_its_entry() {
    let world = World::new().await;
    let more: File<'_> = ("code/lib/more.py", b"x = 1\n", 0o644);
    let id = world.upload(package(&spec("t"), &[CODE, more], &[])).await.unwrap();
    assert_eq!(id, "t");
    let entry = world.packages.get_entry(&world.org, "t").await.unwrap().to_value();
    assert_eq!(
        (&entry["tool_man_page_doc"], &entry["tool_tags"]),
        (&json!("# How\n"), &json!(["a"]))
    );
    let there =
        ["package/spec.json", "package/tool.md", "tool/code/function.py", "tool/code/lib/more.py"];
    assert_eq!(world.files(), paths(&there));
    // An id that is there is refused, and its package leaves nothing.
    let again = world.packages.upload_package(&world.org, package(&spec("t"), &[CODE], &[])).await;
    assert_eq!(again, Err(ToolPackageError::AlreadyExists("t".to_owned())));
    assert_eq!(world.files(), paths(&there));
    world.packages.remove_entry(&world.org, "t").await.unwrap();
    assert_eq!(world.files(), paths(&[]));
    assert_eq!(world.packages.get_entry(&world.org, "t").await, Err(ToolPackageError::NotFound));
}

#[tokio::test]
async fn nothing_of_a_package_comes_out_elsewhere_than_in_its_folder() {
    let world = World::new().await;
    let evil = b"evil";
    let bad: [(File<'_>, &str); 8] = [
        (("../../evil", evil, 0o644), "contains `..`"),
        (("code/../../../evil", evil, 0o644), "contains `..`"),
        (("/tmp/evil", evil, 0o644), "is absolute"),
        (("..\\evil", evil, 0o644), "backslash"),
        (("C:evil", evil, 0o644), "drive"),
        (("code/link", b"/etc/passwd", 0o120_777), "links are not extracted"),
        (("code", b"/etc", 0o120_777), "links are not extracted"),
        ((".git/hooks/post-checkout", evil, 0o755), "there is no"),
    ];
    for (file, told) in bad {
        // In the code as in the package itself.
        for package in
            [package(&spec("t"), &[file, CODE], &[]), package(&spec("t"), &[CODE], &[file])]
        {
            let error = world.upload(package).await.unwrap_err();
            assert!(error.contains(told), "{file:?}: {error}");
        }
        // The control: joined to a folder, some of these names lead out of it, or to what is elsewhere.
    }
    let folder = Path::new("/home/packages/one/tool");
    for (file, _) in &bad[..3] {
        let naive = folder.join(file.0);
        let mut at = PathBuf::new();
        for part in naive.components() {
            match part {
                std::path::Component::ParentDir => drop(at.pop()),
                part => at.push(part),
            }
        }
        assert!(!at.starts_with(folder), "{}", at.display());
    }
    assert_eq!(world.files(), paths(&[]), "nothing is kept");
    let around: Vec<_> = std::fs::read_dir(world.home.path()).unwrap().flatten().collect();
    assert_eq!(around.len(), 1, "nothing beside it");
    // And a good one is taken.
    world.upload(package(&spec("t"), &[CODE], &[])).await.unwrap();
}

#[tokio::test]
async fn packages_that_are_too_much_or_lie_are_refused() {
    let world = World::new().await;
    let names: Vec<String> = (0..1_100).map(|n| format!("code/{n}.py")).collect();
    let mut many: Vec<File<'_>> =
        names.iter().map(|name| (name.as_str(), &b"x"[..], 0o644)).collect();
    many.push(CODE);
    let zeros = vec![0; 40 << 20];
    let bomb: File<'_> = ("code/zeros", &zeros, 0o644);
    let mut noise = Vec::new();
    let mut state = 1_u64;
    while noise.len() < 600 << 10 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        noise.extend_from_slice(&state.to_le_bytes());
    }
    let twice: [File<'_>; 3] = [CODE, ("code/A.py", b"1", 0o644), ("code/a.py", b"2", 0o644)];
    for (code, told) in [
        (&many[..], "more than 1000 files"),
        (&[CODE, bomb][..], "more than 100 times"),
        (&twice[..], "twice"),
    ] {
        let error = world.upload(package(&spec("t"), code, &[])).await.unwrap_err();
        assert!(error.contains(told), "{error}");
    }
    for (broken, told) in [
        (Bytes::from_static(b"not a zip"), "it is no archive"),
        (zip(&[("spec.json", b"{}", 0o644)]).into(), "has no `tool.zip`"),
        (package(&json!({}), &[CODE], &[]), "`tool_id` is 1 to 128"),
        (package(&spec("../t"), &[CODE], &[]), "`tool_id` is 1 to 128"),
        (package(&spec("t"), &[("function.py", b"", 0o644)], &[]), "no `code/function.py`"),
        (package(&json!({ "tool_id": "t", "tool_runtime_type": "binary" }), &twice, &[]), "twice"),
        (
            package(&json!({ "tool_id": "t", "tool_runtime_type": "binary" }), &[], &[]),
            "exactly one file in `code/`",
        ),
        (
            package(&json!({ "tool_id": "t", "tool_runtime_type": "shell" }), &[CODE], &[]),
            "must be `python` or `binary`",
        ),
    ] {
        let error = world.upload(broken).await.unwrap_err();
        assert!(error.contains(told), "{error}");
    }
    assert_eq!(world.files(), paths(&[]));
    // The control: much, and not too much.
    let much: File<'_> = ("code/noise", &noise, 0o644);
    world.upload(package(&spec("t"), &[CODE, much], &[])).await.unwrap();
}

#[tokio::test]
async fn entries_are_their_organisations_and_bounded() {
    let world = World::new().await;
    let other = Org::new("beta").unwrap();
    world.packages.create_entry(&world.org, Json::encode(&spec("t"))).await.unwrap();
    assert_eq!(world.packages.get_entry(&other, "t").await, Err(ToolPackageError::NotFound));
    assert!(world.packages.list_entries(&other).await.unwrap().is_empty());
    let changes = Json::encode(&json!({ "tool_type": "local" }));
    assert_eq!(
        world.packages.update_entry(&other, "t", changes.clone()).await,
        Err(ToolPackageError::NotFound)
    );
    assert_eq!(world.packages.remove_entry(&other, "t").await, Err(ToolPackageError::NotFound));
    world.packages.update_entry(&world.org, "t", changes).await.unwrap();
    let entry = world.packages.get_entry(&world.org, "t").await.unwrap().to_value();
    assert_eq!((&entry["tool_type"], &entry["tool_tags"]), (&json!("local"), &json!(["a"])));
    let moved = Json::encode(&json!({ "tool_id": "u" }));
    assert!(world.packages.update_entry(&world.org, "t", moved).await.is_err());
    for n in 1..MAX_ENTRIES_PER_ORG {
        let entry = Json::encode(&json!({ "tool_id": format!("t{n}") }));
        world.packages.create_entry(&world.org, entry).await.unwrap();
    }
    let over = Json::encode(&json!({ "tool_id": "over" }));
    let full = world.packages.create_entry(&world.org, over.clone()).await;
    assert!(matches!(full, Err(ToolPackageError::LimitReached(_))), "{full:?}");
    world.packages.create_entry(&other, over).await.unwrap();
    assert_eq!(world.packages.list_entries(&world.org).await.unwrap().len(), MAX_ENTRIES_PER_ORG);
}

#[tokio::test]
async fn what_an_earlier_process_left_half_unpacked_is_removed() {
    let world = World::new().await;
    world.upload(package(&spec("t"), &[CODE], &[])).await.unwrap();
    let home = world.home.path().join("catalogue");
    let left = home.join("0123456789abcdef0123456789abcdef");
    let other = home.join("notes");
    for folder in [&left, &other] {
        std::fs::create_dir(folder).unwrap();
    }
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let again = PackageStore::open(store, &home).await.unwrap();
    assert!(!left.exists() && other.exists());
    assert!(again.get_entry(&world.org, "t").await.is_ok());
    assert!(world.files().contains(&PathBuf::from("tool/code/function.py")));
}

/// A package that takes so many KiB and a little more.
fn sized(id: &str, kib: usize) -> Bytes {
    let mut state = 7_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(kib << 10)
    .collect();
    package(&spec(id), &[CODE, ("code/noise", &noise, 0o644)], &[])
}

#[tokio::test]
async fn packages_of_an_organisation_and_of_all_have_a_limit_in_bytes() {
    let mut world = World::new().await;
    let limits = PackageLimits { max_total_bytes: 3 << 20, max_bytes_per_org: 2 << 20 };
    world.packages = world.packages.with_limits(limits);
    let full = |answer: Result<String, ToolPackageError>| match answer {
        Err(ToolPackageError::LimitReached(told)) => told,
        other => panic!("{other:?}"),
    };
    let (other, third) = (Org::new("other").unwrap(), Org::new("third").unwrap());
    // Twice its size while it is unpacked, and counted once.
    world.packages.upload_package(&world.org, sized("a", 1_500)).await.unwrap();
    let there = world.files();
    let told = full(world.packages.upload_package(&world.org, sized("b", 1_500)).await);
    assert!(told.contains("tool_packages.bytes_per_organisation"), "{told}");
    assert_eq!(world.files(), there);
    world.packages.upload_package(&other, sized("b", 1_000)).await.unwrap();
    let told = full(world.packages.upload_package(&third, sized("c", 1_000)).await);
    assert!(told.contains("`tool_packages.bytes`") && told.contains("3145728"), "{told}");

    // What has no entry counts for nothing: an id that is there, and a package that does not fit.
    let again = world.packages.upload_package(&other, sized("b", 100)).await;
    assert_eq!(again, Err(ToolPackageError::AlreadyExists("b".to_owned())));
    assert!(world.packages.upload_package(&other, Bytes::from_static(b"no zip")).await.is_err());
    // What is removed is given back, also after a restart.
    let store = Arc::clone(&world.store) as Arc<dyn Store>;
    let home = world.home.path().join("catalogue");
    let packages = PackageStore::open(store, &home).await.unwrap().with_limits(limits);
    full(packages.upload_package(&third, sized("c", 1_000)).await);
    packages.remove_entry(&world.org, "a").await.unwrap();
    packages.upload_package(&third, sized("c", 1_900)).await.unwrap();
}

#[tokio::test]
async fn many_small_files_count_by_their_blocks() {
    let mut world = World::new().await;
    let limits = PackageLimits { max_total_bytes: 1 << 20, max_bytes_per_org: 1 << 20 };
    world.packages = world.packages.with_limits(limits);
    let names: Vec<_> = (0..300).map(|n| format!("code/{n}")).collect();
    let mut files: Vec<File<'_>> = names.iter().map(|name| (&**name, &b"x"[..], 0o644)).collect();
    files.push(CODE);
    let answer = world.packages.upload_package(&world.org, package(&spec("t"), &files, &[])).await;
    assert!(matches!(answer, Err(ToolPackageError::LimitReached(_))), "{answer:?}");
    assert_eq!(world.files(), [] as [PathBuf; 0]);
}
