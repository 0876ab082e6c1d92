use std::fs;
use std::path::Path;

use super::{CommandOrigin, ConfigDiscovery, Environment, trust_file};

fn write(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "version: 1\n").unwrap();
}

#[test]
fn a_file_of_the_current_folder_counts_before_the_users_own() {
    let home = tempfile::tempdir().unwrap();
    let environment: Environment = [("HOME", home.path().to_str().unwrap())].into_iter().collect();
    let (folder, usual) =
        (home.path().join("project"), home.path().join(".config/toolkeep/toolkeep.yaml"));
    fs::create_dir_all(&folder).unwrap();
    let find = |named: Option<&str>| {
        ConfigDiscovery::find_file(
            named.map(Into::into),
            (&folder, CommandOrigin::Person),
            &environment,
        )
    };
    assert_eq!(find(None), ConfigDiscovery::default());
    write(&usual);
    assert_eq!(find(None).file, Some(usual));
    write(&folder.join("toolkeep.yaml"));
    assert_eq!(find(None).file, Some(folder.join("toolkeep.yaml")));
    let named = find(Some("x.yaml"));
    assert_eq!((named.file, named.is_named), (Some("x.yaml".into()), true));
}

#[test]
fn a_program_in_a_folder_that_nobody_trusted_gets_no_configuration_of_it() {
    let home = tempfile::tempdir().unwrap();
    let environment: Environment = [("HOME", home.path().to_str().unwrap())].into_iter().collect();
    let (ours, cloned) = (home.path().join("ours"), home.path().join("cloned"));
    for folder in [&ours, &cloned] {
        write(&folder.join("toolkeep.yaml"));
    }
    trust_file(&ours.join("toolkeep.yaml"), &environment).unwrap();
    trust_file(&ours.join("toolkeep.yaml"), &environment).unwrap();
    let find = |folder: &Path, kind| ConfigDiscovery::find_file(None, (folder, kind), &environment);
    let refused = find(&cloned, CommandOrigin::Program);
    assert_eq!((refused.file, refused.untrusted_file), (None, Some(cloned.join("toolkeep.yaml"))));
    // The controls: a person gets it, and a program in a folder that is trusted gets that one.
    assert!(find(&cloned, CommandOrigin::Person).file.is_some());
    assert_eq!(find(&ours, CommandOrigin::Program).file, Some(ours.join("toolkeep.yaml")));
    let list = home.path().join(".config/toolkeep/trusted_configurations");
    assert_eq!(fs::read_to_string(list).unwrap().lines().count(), 1);
}
