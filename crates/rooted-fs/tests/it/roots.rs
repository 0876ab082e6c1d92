//! Files of a folder: whole, bounded, and none from outside.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rooted_fs::rooted_dir::{AccessMode, FileAccessError, FileKind, RootedDir, WriteMode};
use rustix::fs::{CWD, FileType, Mode};
use tempfile::TempDir;

/// A folder with `root` in it, and beside that `secret`.
fn folder() -> (TempDir, RootedDir) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("root/sub")).unwrap();
    fs::write(folder.path().join("secret"), "OUTSIDE").unwrap();
    fs::write(folder.path().join("root/a"), "inside").unwrap();
    fs::write(folder.path().join("root/sub/b"), "below").unwrap();
    let root = RootedDir::open_root(folder.path().join("root"), AccessMode::ReadWrite).unwrap();
    (folder, root)
}

fn no_such(error: &FileAccessError) -> bool {
    matches!(error, FileAccessError::NotFound { .. })
}

#[test]
fn files_are_read_written_listed_and_removed() {
    let (_folder, root) = folder();
    for path in ["a", "./a", "sub/../a", "sub//..//a"] {
        assert_eq!(root.read_file(path, 6).unwrap(), b"inside", "{path}");
    }
    root.create_dir("new").unwrap();
    root.write_file("new/c", b"one", WriteMode::CreateNew).unwrap();
    root.write_file("new/c", b"two", WriteMode::Overwrite).unwrap();
    assert_eq!(root.read_file("new/c", 100).unwrap(), b"two");
    assert_eq!(root.read_metadata("new/c").unwrap().size, 3);
    assert_eq!(root.read_metadata("").unwrap().kind, FileKind::Directory);
    let names = |path| {
        root.list_dir(path, 10)
            .unwrap()
            .entries
            .into_iter()
            .map(|entry| entry.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names(""), names("new/")),
        (vec!["a".into(), "new".into(), "sub".into()], vec!["c".into()])
    );
    root.remove_file("new/c").unwrap();
    assert!(no_such(&root.read_file("new/c", 100).unwrap_err()) && names("new").is_empty());
}

#[test]
fn what_is_in_the_way_is_told() {
    let (_folder, root) = folder();
    assert!(matches!(root.create_dir("sub"), Err(FileAccessError::AlreadyExists { .. })));
    assert!(matches!(
        root.write_file("a", b"", WriteMode::CreateNew),
        Err(FileAccessError::AlreadyExists { .. })
    ));
    assert!(matches!(
        root.write_file("sub", b"", WriteMode::Overwrite),
        Err(FileAccessError::NotRegularFile { .. })
    ));
    assert!(matches!(root.read_file("sub", 1), Err(FileAccessError::NotRegularFile { .. })));
}

#[test]
fn what_is_outside_answers_as_what_is_not_there() {
    let (_folder, root) = folder();
    let told = |path: &str| {
        let errors = [
            root.read_file(path, 100).unwrap_err(),
            root.read_metadata(path).unwrap_err(),
            root.list_dir(path, 100).unwrap_err(),
            root.write_file(path, b"x", WriteMode::CreateNew).unwrap_err(),
            root.create_dir(path).unwrap_err(),
            root.remove_file(path).unwrap_err(),
        ];
        errors.map(|error| error.to_string().replace(path, "PATH"))
    };
    let missing = told("nowhere/x");
    assert!(missing.iter().all(|text| text.contains("there is no")), "{missing:?}");
    for path in [
        "../secret",
        "../nope",
        "sub/../../secret",
        "/etc/passwd",
        "/etc/nope",
        "..",
        "/",
        "../root/a",
    ] {
        assert_eq!(told(path), missing, "{path}");
    }
}

#[test]
fn no_link_is_followed() {
    let (folder, root) = folder();
    let within = |name: &str| folder.path().join("root").join(name);
    symlink(folder.path().join("secret"), within("file")).unwrap();
    symlink("/", within("all")).unwrap();
    symlink("..", within("up")).unwrap();
    symlink("/proc/self/root", within("magic")).unwrap();
    symlink("a", within("inner")).unwrap();
    let mut followed = 0;
    for path in
        ["file", "all/etc/passwd", "up/secret", "up/up/etc/passwd", "magic/etc/passwd", "inner"]
    {
        // Positive control: whoever joins the path to the folder follows the link.
        followed += usize::from(fs::metadata(within(path)).is_ok_and(|it| it.is_file()));
        assert!(no_such(&root.read_file(path, 1 << 20).unwrap_err()), "{path}");
        assert!(no_such(&root.write_file(path, b"x", WriteMode::Overwrite).unwrap_err()), "{path}");
    }
    assert!(followed > 3, "{followed}");
    assert_eq!(fs::read(within("up/secret")).unwrap(), b"OUTSIDE");
    assert_eq!(root.read_metadata("file").unwrap().kind, FileKind::Symlink);
    assert_eq!(fs::read(folder.path().join("secret")).unwrap(), b"OUTSIDE");
}

#[test]
fn links_that_stay_inside_can_be_read_through_and_nothing_is_written_through_one() {
    let (folder, root) = folder();
    let within = |name: &str| folder.path().join("root").join(name);
    symlink("sub", within("same")).unwrap();
    symlink("../..", within("sub/out")).unwrap();
    symlink(folder.path(), within("abs")).unwrap();
    symlink("/proc/self/root", within("magic")).unwrap();
    symlink("a", within("inner")).unwrap();
    symlink("../inner", within("sub/twice")).unwrap();
    symlink("sub/../../secret", within("leads")).unwrap();
    symlink(folder.path().join("secret"), within("whole")).unwrap();
    symlink("round", within("round")).unwrap();
    let inside = fs::read(within("a")).unwrap();
    for path in ["same/b", "inner", "sub/twice", "same/twice"] {
        assert!(no_such(&root.read_file(path, 100).unwrap_err()), "{path}");
    }
    let root = root.follow_dir_symlinks();
    assert_eq!(root.read_file("same/b", 10).unwrap(), b"below");
    for path in ["inner", "sub/twice", "same/twice"] {
        assert_eq!(root.read_file(path, 100).unwrap(), inside, "{path}");
    }
    assert_eq!(root.list_dir("same", 10).unwrap().entries.len(), 3);
    let out = ["sub/out/secret", "abs/secret", "magic/etc/passwd", "same/out/secret", "leads"];
    for path in out.into_iter().chain(["whole", "round"]) {
        assert!(no_such(&root.read_file(path, 1 << 20).unwrap_err()), "{path}");
    }
    // What is written is written where it is named.
    for path in ["same/new", "inner", "sub/twice"] {
        assert!(root.write_file(path, b"x", WriteMode::Overwrite).is_err(), "{path}");
    }
    assert_eq!(fs::read(within("a")).unwrap(), inside);
    // A protected file or folder is not there through a link either.
    let root = root.hide_path("sub").unwrap().hide_path("a").unwrap();
    for path in ["same/b", "inner", "same/twice"] {
        assert!(no_such(&root.read_file(path, 100).unwrap_err()), "{path}");
    }
}

#[test]
fn only_regular_files_are_opened() {
    let (folder, root) = folder();
    let within = |name: &str| folder.path().join("root").join(name);
    rustix::fs::mknodat(CWD, within("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(within("socket")).unwrap();
    for path in ["pipe", "socket"] {
        let error = root.read_file(path, 10).unwrap_err();
        assert!(
            matches!(
                error,
                FileAccessError::NotRegularFile { .. } | FileAccessError::NotFound { .. }
            ),
            "{path}: {error}"
        );
        assert!(root.write_file(path, b"x", WriteMode::Overwrite).is_err(), "{path}");
        assert_eq!(root.read_metadata(path).unwrap().kind, FileKind::Other);
    }
    // Devices answer endlessly; only root may make one, so an existing one is asked.
    let devices = RootedDir::open_root("/dev", AccessMode::ReadOnly).unwrap();
    assert!(matches!(devices.read_file("zero", 10), Err(FileAccessError::NotRegularFile { .. })));
}

#[test]
fn size_is_what_is_read() {
    let (_folder, root) = folder();
    root.write_file("big", &[b'x'; 101], WriteMode::CreateNew).unwrap();
    assert_eq!(root.read_file("big", 101).unwrap().len(), 101);
    assert!(matches!(
        root.read_file("big", 100),
        Err(FileAccessError::TooLarge { limit: 100, .. })
    ));
    // The system says zero bytes of these.
    let system = RootedDir::open_root("/proc/self", AccessMode::ReadOnly).unwrap();
    assert_eq!(system.read_metadata("maps").unwrap().size, 0);
    assert!(matches!(
        system.read_file("maps", 10),
        Err(FileAccessError::TooLarge { limit: 10, .. })
    ));
    assert!(no_such(&system.read_file("root/etc/passwd", 10).unwrap_err()));
    assert!(no_such(&system.read_file("exe", 10).unwrap_err()));
}

#[test]
fn a_file_with_two_names_is_not_written() {
    let (folder, root) = folder();
    fs::hard_link(folder.path().join("secret"), folder.path().join("root/h")).unwrap();
    assert!(matches!(
        root.write_file("h", b"x", WriteMode::Overwrite),
        Err(FileAccessError::HardLinked { .. })
    ));
    assert_eq!(fs::read(folder.path().join("secret")).unwrap(), b"OUTSIDE");
}

#[test]
fn a_replaced_file_keeps_its_mode_and_leaves_nothing_beside_it() {
    let (folder, root) = folder();
    let a = folder.path().join("root/a");
    fs::set_permissions(&a, fs::Permissions::from_mode(0o4751)).unwrap();
    root.write_file("a", b"new", WriteMode::Overwrite).unwrap();
    assert_eq!(fs::metadata(&a).unwrap().permissions().mode() & 0o7777, 0o751);
    fs::create_dir(folder.path().join("root/full")).unwrap();
    assert!(root.write_file("full", b"new", WriteMode::Overwrite).is_err());
    assert_eq!(root.list_dir("", 10).unwrap().entries.len(), 3);
}

/// In a child, as the limit holds for a whole process: there the system refuses to write on.
#[test]
fn a_write_that_fails_leaves_the_old_file() {
    if std::env::var_os("TK_SMALL").is_none() {
        let (folder, _) = folder();
        #[expect(clippy::disallowed_methods, reason = "the test runs itself under a limit")]
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact roots::a_write_that_fails_leaves_the_old_file"]);
        let shell =
            shell.arg(std::env::current_exe().unwrap()).env("TK_SMALL", folder.path().join("root"));
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(fs::read(folder.path().join("root/a")).unwrap(), b"inside");
        assert_eq!(fs::read_dir(folder.path().join("root")).unwrap().count(), 2);
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let root =
        RootedDir::open_root(std::env::var_os("TK_SMALL").unwrap(), AccessMode::ReadWrite).unwrap();
    let error = root.write_file("a", &vec![b'x'; 1 << 20], WriteMode::Overwrite).unwrap_err();
    assert!(matches!(error, FileAccessError::Io { .. }), "{error}");
}

#[test]
fn a_root_for_reading_is_not_written() {
    let (folder, _) = folder();
    let root = RootedDir::open_root(folder.path().join("root"), AccessMode::ReadOnly).unwrap();
    assert_eq!(root.read_file("a", 10).unwrap(), b"inside");
    for error in [
        root.write_file("a", b"x", WriteMode::Overwrite).unwrap_err(),
        root.write_file("new", b"x", WriteMode::CreateNew).unwrap_err(),
        root.create_dir("x").unwrap_err(),
        root.remove_file("a").unwrap_err(),
    ] {
        assert!(matches!(error, FileAccessError::ReadOnly { .. }), "{error}");
    }
}

#[test]
fn what_is_protected_is_not_there_under_any_name() {
    let (folder, root) = folder();
    fs::create_dir_all(folder.path().join("root/keys/deep/er")).unwrap();
    fs::write(folder.path().join("root/keys/deep/er/k"), "key").unwrap();
    let root = root.hide_path("keys").unwrap().hide_path("a").unwrap();
    fs::rename(folder.path().join("root/keys"), folder.path().join("root/sub/other")).unwrap();
    for path in
        ["sub/other/deep/er/k", "a", "sub/other", "sub/other/deep", "sub/other/deep/er/../er/k"]
    {
        assert!(no_such(&root.read_file(path, 10).unwrap_err()), "{path}");
        assert!(no_such(&root.list_dir(path, 10).unwrap_err()), "{path}");
        assert!(root.write_file(path, b"x", WriteMode::Overwrite).is_err(), "{path}");
    }
    assert!(no_such(
        &root.write_file("sub/other/deep/new", b"x", WriteMode::CreateNew).unwrap_err()
    ));
    let names: Vec<_> =
        root.list_dir("sub", 10).unwrap().entries.into_iter().map(|entry| entry.name).collect();
    assert_eq!(
        (names, root.read_file("sub/b", 10).unwrap()),
        (vec!["b".into()], b"below".to_vec())
    );
    assert!(root.hide_path("not-there").is_err());
}

#[test]
fn what_is_mounted_below_can_be_left_out() {
    let root = RootedDir::open_root("/", AccessMode::ReadOnly).unwrap();
    assert!(root.read_file("proc/version", 1 << 20).is_ok());
    assert!(no_such(&root.stay_on_device().read_file("proc/version", 1 << 20).unwrap_err()));
}

#[test]
fn a_listing_is_bounded_and_shows_any_name() {
    let (folder, root) = folder();
    for number in 0..50 {
        fs::write(folder.path().join(format!("root/sub/f{number}")), "").unwrap();
    }
    let odd = Path::new(OsStr::from_bytes(b"\xff\xfe\n"));
    fs::write(folder.path().join("root").join(odd), "odd").unwrap();
    let some = root.list_dir("sub", 10).unwrap();
    assert_eq!((some.entries.len(), some.is_truncated), (10, true));
    let all = root.list_dir("sub", 51).unwrap();
    assert_eq!((all.entries.len(), all.is_truncated), (51, false));
    assert!(
        root.list_dir("", 10).unwrap().entries.iter().any(|entry| entry.name == odd.as_os_str())
    );
    assert_eq!(root.read_file(odd, 10).unwrap(), b"odd");
}

#[test]
fn a_root_that_cannot_be_used_says_why() {
    let (folder, _) = folder();
    for path in [folder.path().join("none"), folder.path().join("secret")] {
        let error = RootedDir::open_root(&path, AccessMode::ReadOnly).unwrap_err();
        assert!(
            matches!(error, FileAccessError::InvalidRoot { .. })
                && error.to_string().contains(path.to_str().unwrap())
        );
    }
}

#[test]
fn a_file_is_filled_as_it_comes_or_not_at_all() {
    use std::io::{self, Read as _, Write as _};
    let folder = tempfile::tempdir().unwrap();
    let root = RootedDir::open_root(folder.path(), AccessMode::ReadWrite).unwrap();
    root.create_parent_dirs("a/b/c").unwrap();
    let filled = root.write_file_with("a/b/c", WriteMode::Overwrite, |file| {
        file.write_all(b"first ")?;
        file.write_all(b"second").map(|()| 12)
    });
    assert_eq!(filled.unwrap(), 12);
    let broken = root.write_file_with("a/b/c", WriteMode::Overwrite, |file| {
        file.write_all(b"half")?;
        Err::<(), _>(io::Error::other("it broke off"))
    });
    assert!(broken.unwrap_err().to_string().contains("it broke off"));
    let panicked = std::panic::catch_unwind(|| {
        root.write_file_with("a/b/c", WriteMode::Overwrite, |_| -> io::Result<()> {
            panic!("a test of a filler that panics")
        })
    });
    assert!(panicked.is_err());
    let (mut file, meta) = root.open_file("a/b/c").unwrap();
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!((content.as_str(), meta.size), ("first second", 12));
    assert_eq!(root.list_dir("a/b", 10).unwrap().entries.len(), 1, "nothing is left beside it");
    assert!(root.open_file("a/b").is_err() && root.open_file("../x").is_err());
}
