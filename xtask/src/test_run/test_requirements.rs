//! Requirements of tests beyond Rust and a C compiler: one row for each, and nowhere else.

use super::requirement_checks as checks;
use crate::workspace::Workspace;

/// Something that tests need and that a machine may lack.
pub(super) struct TestRequirement {
    /// Name on the command line: `--without NAME`.
    pub(super) name: &'static str,
    /// What it is, for the person who provides it.
    pub(super) description: &'static str,
    pub(super) provision: Provision,
    /// Tries the requirement. Returns what it found, or why it is missing.
    pub(super) check: fn(&Workspace) -> Result<String, String>,
    /// Tests that need it, as nextest prints them: the binary, a space and the start of the name.
    pub(super) tests: &'static [&'static str],
}

/// How a person provides a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provision {
    /// Packages of Debian; the test run installs them where it may.
    Packages(&'static [&'static str]),
    /// What to do, in the imperative.
    Advice(&'static str),
}

impl TestRequirement {
    /// Returns the packages that provide the requirement; none if no package does.
    pub(super) fn packages(&self) -> &'static [&'static str] {
        match self.provision {
            Provision::Packages(packages) => packages,
            Provision::Advice(_) => &[],
        }
    }

    /// Returns what the person can do: provide the requirement, or leave its tests out.
    pub(super) fn fix_advice(&self) -> String {
        let provide = match self.provision {
            Provision::Packages(packages) => format!("`apt-get install {}`", packages.join(" ")),
            Provision::Advice(advice) => advice.to_owned(),
        };
        format!("{provide}, or leave its tests out with `--without {}`", self.name)
    }

    /// Returns whether a test needs this; `test` is its binary, a space and its name.
    pub(super) fn is_needed_by(&self, test: &str) -> bool {
        self.tests.iter().any(|start| test.starts_with(start))
    }

    /// Returns the end of a filter expression of nextest that leaves its tests out.
    pub(super) fn exclusion_filter(&self) -> String {
        let exclude = |start: &&str| match start.split_once(' ') {
            Some((binary, "")) => format!(" & not binary_id(={binary})"),
            Some((binary, name)) => format!(" & not (binary_id(={binary}) & test(/^{name}/))"),
            None => String::new(),
        };
        self.tests.iter().map(exclude).collect()
    }
}

/// Returns the names of all requirements, as `--without` takes them.
pub(super) fn requirement_names() -> String {
    let names: Vec<&str> = REQUIREMENTS.iter().map(|row| row.name).collect();
    names.join(", ")
}

/// Returns a line for each requirement: its name, what it is, and what provides it.
pub(crate) fn requirement_table() -> String {
    let line = |row: &TestRequirement| {
        let provision = match row.provision {
            Provision::Packages(packages) => format!("Debian: {}", packages.join(" ")),
            Provision::Advice(advice) => advice.to_owned(),
        };
        format!("  --without {:11} {} ({provision})\n", row.name, row.description)
    };
    REQUIREMENTS.iter().map(line).collect()
}

/// Checks that every entry of the table stands for a test that exists.
pub(super) fn check_table<'a>(
    tests: &(impl Iterator<Item = &'a String> + Clone),
) -> Result<(), String> {
    let all = REQUIREMENTS.iter().flat_map(|row| row.tests);
    let mut unknown = all.filter(|start| !tests.clone().any(|test| test.starts_with(**start)));
    unknown.next().map_or(Ok(()), |start| {
        Err(format!("test_requirements.rs names `{start}`, but no test is named so: correct it"))
    })
}

/// All requirements of tests. The first missing one of a test is the one that is reported.
pub(super) const REQUIREMENTS: &[TestRequirement] = &[
    TestRequirement {
        name: "data",
        description: "shared data: attack inputs, documents and a language model",
        provision: Provision::Advice("set TOOLKEEP_DATA to its folder"),
        check: checks::check_data,
        tests: &[
            "builtins-llm::it data::",
            "builtins::it data::",
            "egress::it data::",
            "formats::it data::",
            "http1::it data::",
            "identity::it data::",
            "nodes::it data::",
            "rooted-fs::it data::",
            "search tests::keyword_stuffing::",
            "server::it attack_data::",
            "toolkeep::it attack_data::",
            "builtins-llm::it real::",
            "toolkeep::it real::providers::",
        ],
    },
    TestRequirement {
        name: "python",
        description: "Python as /usr/bin/python3, which plugins run",
        provision: Provision::Packages(&["python3"]),
        check: checks::check_python,
        tests: &[
            "builtins::it data::python::",
            "builtins::it data::scenarios::",
            "builtins::it data::table::",
            "builtins::it speed::",
            "plugins::it ",
            "toolkeep::it attack_data::",
            "toolkeep::it plugins::",
            "toolkeep::it programs::generated_programs::",
            "toolkeep::it sandbox_levels::plugins_run_in_a_fenced_sandbox",
            "xtask::bin/xtask dist::zip_archive::tests::python_reads_the_archive",
        ],
    },
    TestRequirement {
        name: "namespaces",
        description: "user namespaces, which sandboxes of the level `whole` are made of",
        provision: Provision::Advice(
            "allow user namespaces: `sysctl user.max_user_namespaces` above 0, \
             `kernel.apparmor_restrict_unprivileged_userns` 0; in a container, a seccomp profile \
             that allows `unshare`",
        ),
        check: checks::check_namespaces,
        tests: &[
            "builtins::it data::commands::",
            "builtins::it data::scenarios::",
            "builtins::it shell::nothing_of_the_server",
            "plugins::it ",
            "sandbox::it isolation::",
            "toolkeep::it attack_data::",
            "toolkeep::it documents::the_example_of_run_program",
            "toolkeep::it guide_commands::the_",
            "toolkeep::it idle_server::",
            "toolkeep::it language_model::",
            "toolkeep::it plugins::",
            "toolkeep::it programs::",
            "toolkeep::it sandbox_levels::",
            "toolkeep::it secrets::nothing_that_anybody_sees",
            "toolkeep::it source_wait::approvals_and_programs",
            "toolkeep::it user_stories::tool_file::internal_tools",
        ],
    },
    TestRequirement {
        name: "mount",
        description: "a mount in an own namespace, as root or in a user namespace",
        provision: Provision::Advice("run as root, or allow user namespaces"),
        check: checks::check_mount,
        tests: &["toolkeep::it mount_namespace::"],
    },
    TestRequirement {
        name: "descriptors",
        description: "4,096 open files for a process (`ulimit -Hn`)",
        provision: Provision::Advice("raise the hard limit of open files of this user"),
        check: checks::check_descriptors,
        tests: &[
            "server::it approvals::rest::so_many_requests_of_one_key",
            "source-mcp::it mcp::oauth::alone::a_thousand_calls_at_once",
        ],
    },
    TestRequirement {
        name: "util-linux",
        description: "prlimit, setsid, ionice, chrt, taskset and renice",
        provision: Provision::Packages(&["util-linux"]),
        check: checks::check_util_linux,
        tests: &["sandbox::it descriptors::", "sandbox::it isolation::"],
    },
    TestRequirement {
        name: "bash",
        description: "bash, for its completions and as a shell in sandboxes",
        provision: Provision::Packages(&["bash"]),
        check: checks::check_bash,
        tests: &["builtins::it data::scenarios::", "toolkeep::it offline_commands::"],
    },
    TestRequirement {
        name: "curl",
        description: "curl, which the guide uses",
        provision: Provision::Packages(&["curl"]),
        check: checks::check_curl,
        tests: &["toolkeep::it approvals::approval_expiry::", "toolkeep::it guide_commands::the_"],
    },
    TestRequirement {
        name: "make",
        description: "make, for the Makefile of the module API",
        provision: Provision::Packages(&["make"]),
        check: checks::check_make,
        tests: &["toolkeep::it makefile::"],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::{REQUIREMENTS, TestRequirement, check_table, requirement_table};

    /// Returns the sources in a folder and below it.
    fn list_sources(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let sources = entries.flat_map(|entry| match entry.path() {
            path if path.is_dir() => list_sources(&path),
            path => Vec::from_iter(path.extension().is_some_and(|it| it == "rs").then_some(path)),
        });
        sources.collect()
    }

    fn row(name: &str) -> &'static TestRequirement {
        REQUIREMENTS.iter().find(|row| row.name == name).unwrap()
    }

    /// Uses of a requirement in the source of a test.
    const MARKS: &[(&str, &[&str])] = &[
        ("data", &["shared_data::read_rows"]),
        ("python", &["python3\"", "/usr/bin/python3"]),
        ("curl", &["\"curl\""]),
        ("make", &["\"make\""]),
        ("mount", &["mount -t tmpfs -o size"]),
        ("bash", &["Command::new(\"bash\")"]),
        ("util-linux", &["\"prlimit\"", "\"ionice\"", "\"setsid\""]),
    ];

    #[test]
    fn names_are_unique_and_every_row_has_tests() {
        let names: BTreeSet<&str> = REQUIREMENTS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), REQUIREMENTS.len());
        for row in REQUIREMENTS {
            assert!(!row.tests.is_empty() && !row.description.is_empty(), "{}", row.name);
            assert!(requirement_table().contains(&format!("--without {} ", row.name)));
        }
    }

    #[test]
    fn an_entry_without_a_test_is_an_error() {
        let starts = REQUIREMENTS.iter().flat_map(|row| row.tests);
        let mut tests: Vec<String> = starts.map(|start| format!("{start}x")).collect();
        assert_eq!(check_table(&tests.iter()), Ok(()));
        tests.retain(|test| !test.starts_with("egress::it data::"));
        let error = check_table(&tests.iter()).unwrap_err();
        assert!(error.contains("`egress::it data::`"), "{error}");
    }

    /// A file whose tests use a requirement belongs to its row, or some of its tests do.
    #[test]
    fn tests_that_use_a_requirement_are_in_its_row() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let mut uses = 0;
        for package in std::fs::read_dir(&crates).unwrap().flatten() {
            let tests = package.path().join("tests/it");
            for source in list_sources(&tests) {
                let module = source.strip_prefix(&tests).unwrap().with_extension("");
                let module = module.to_str().unwrap().replace('/', "::");
                let start = format!("{}::it {module}::", package.file_name().display());
                let text = std::fs::read_to_string(&source).unwrap();
                // A file without tests serves tests of others, which have their own entries.
                let has_tests = text.contains("test]\n");
                let used =
                    |marks: &[&str]| has_tests && marks.iter().any(|mark| text.contains(mark));
                for (name, _) in MARKS.iter().filter(|(_, marks)| used(marks)) {
                    uses += 1;
                    let mut entries = row(name).tests.iter();
                    let is_listed =
                        entries.any(|it| start.starts_with(it) || it.starts_with(&start));
                    assert!(is_listed, "`{start}` needs {name}: add it to the row");
                }
            }
        }
        assert!(uses > 20, "{uses} uses were found");
    }
}
