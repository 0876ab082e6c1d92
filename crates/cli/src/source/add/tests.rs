use std::fs;

use crate::tests::played::{Played, Ran};

pub(super) struct Tried {
    pub(super) played: Played,
    pub(super) file: std::path::PathBuf,
}

impl Tried {
    pub(super) fn on(text: &str) -> Self {
        let played = Played::default();
        let file = played.data().with_file_name("t.yaml");
        fs::write(&file, text).unwrap();
        Self { played, file }
    }

    pub(super) fn add(&self, line: &[&str]) -> Ran {
        let (rest, command) = match line.iter().position(|word| *word == "--") {
            Some(at) => line.split_at(at),
            None => (line, &[][..]),
        };
        let config = ["--config", self.file.to_str().unwrap()];
        let data = self.played.data();
        let data = ["--data", data.to_str().unwrap()];
        let start = [&["source", "add"], rest, &config, &data, command].concat();
        self.played.run_whole(&start)
    }

    pub(super) fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }
}

const FILE: &str = "version: 1 # mine\nsources:\n  - { name: a, tools: ./t.yaml }\n\n# rest\nlimits: { calls: 5 }\n";

#[test]
fn sources_of_every_kind_are_added_one_after_the_other() {
    let tried = Tried::on(FILE);
    for line in [
        &["b", "--tools", "./b: c.yaml"][..],
        &["c", "--module", "http://127.0.0.1:8000", "--timeout", "2m"],
        &["d", "--mcp", "https://h.example/mcp", "--trust", "review"],
        &["e", "--", "npx", "-y", "@x/y", "#not a remark", "yes"],
    ] {
        let ran = tried.add(line);
        assert_eq!(ran.exit, 0, "{line:?}: {}", ran.err);
    }
    let expected = FILE.replace(
        "\n\n# rest",
        "
  - name: b
    tools: \"./b: c.yaml\"
  - name: c
    module: http://127.0.0.1:8000
    timeout: 2m
  - name: d
    mcp:
      url: https://h.example/mcp
    trust: review
  - name: e
    mcp:
      command: npx
      args:
      - -y
      - \"@x/y\"
      - \"#not a remark\"
      - \"yes\"

# rest",
    );
    assert_eq!(tried.text(), expected);
    assert_eq!(tried.played.starts(), 0);
    let beside = fs::read_dir(tried.file.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "nothing is left beside the file");
}

/// Where nobody sits at a terminal, nothing is asked, and the answer is no.
#[test]
fn annotations_are_trusted_by_a_word_alone() {
    let tried = Tried::on("version: 1\n");
    for line in [
        &["a", "--mcp", "https://h.example/a"][..],
        &["b", "--trust-annotations", "--mcp", "https://h.example/b"],
        &["c", "--trust-annotations=false", "--", "prog"],
    ] {
        let ran = tried.add(line);
        assert_eq!(ran.exit, 0, "{line:?}: {}", ran.err);
    }
    let trusts: Vec<_> = tried
        .text()
        .lines()
        .filter(|it| it.contains("trust_annotations"))
        .map(str::to_owned)
        .collect();
    assert_eq!(trusts, ["    trust_annotations: true"], "{}", tried.text());
    let ran = tried.add(&["d", "--tools", "t", "--trust-annotations"]);
    assert_eq!(ran.exit, 2, "{}", ran.err);
    assert!(ran.err.contains("requires an MCP server"), "{}", ran.err);
}

/// Variables, headers and the way to tokens; what is written is what a server reads.
#[test]
fn what_a_server_needs_is_said_with_it() {
    let tried = Tried::on("version: 1\n");
    for line in [
        &["a", "--env", "LANG=C=x", "--env", "PATH", "--", "prog"][..],
        &[
            "b",
            "--mcp",
            "https://h.example/mcp",
            "--header",
            "X-Team: a: b",
            "--oauth",
            "client_id=1",
            "--oauth",
            "scopes=read,write",
            "--oauth",
            "issuer=https://as.example",
        ],
    ] {
        let ran = tried.add(line);
        assert_eq!(ran.exit, 0, "{line:?}: {}", ran.err);
    }
    let expected = "version: 1
sources:
  - name: a
    mcp:
      command: prog
      env:
        LANG: C=x
        PATH: ${PATH}
  - name: b
    mcp:
      url: https://h.example/mcp
      headers:
        X-Team: \"a: b\"
      oauth:
        client_id: \"1\"
        scopes:
        - read
        - write
        issuer: https://as.example
";
    assert_eq!(tried.text(), expected);
    for (line, exit, told) in [
        (&["c", "--mcp", "https://h.example/mcp", "--oauth", "clientid=1"][..], 1, "`clientid`"),
        (&["c", "--mcp", "https://h.example/mcp", "--oauth", "grant=mine"], 1, "mine"),
        (&["c", "--mcp", "https://h.example/mcp", "--header", "none"], 2, "has no value for"),
        (&["c", "--env", "A=1", "--env", "A=2", "--", "p"], 2, "`A` is given twice"),
        (&["c", "--tools", "t", "--env", "A=1"], 2, "`--env` requires a program"),
        (&["c", "--tools", "t", "--header", "a: b"], 2, "`--header` requires `--mcp`"),
        (&["c", "--oauth", "client_id=1", "--", "p"], 2, "`--oauth` requires `--mcp`"),
    ] {
        let ran = tried.add(line);
        assert_eq!(ran.exit, exit, "{line:?}: {}", ran.err);
        assert!(ran.err.contains(told), "{line:?}: {}", ran.err);
        assert_eq!(tried.text(), expected, "{line:?}");
    }
}

#[test]
fn a_dry_run_shows_the_lines_and_writes_nothing() {
    let tried = Tried::on(FILE);
    let ran = tried.add(&["b", "--tools", "b.yaml", "--dry-run"]);
    let told =
        format!("would be added at {}:4:\n  - name: b\n    tools: b.yaml\n", tried.file.display());
    assert_eq!((ran.exit, ran.out), (0, told));
    assert_eq!(tried.text(), FILE);
    assert_eq!(
        tried.add(&["b", "--tools", "b.yaml", "--dry-run", "-o", "json"]).json()["written"],
        false
    );
}

#[test]
fn what_would_be_a_fault_is_told_with_its_place_and_not_written() {
    let tried = Tried::on(FILE);
    let file = tried.file.display();
    for (line, exit, told) in [
        (
            &["a", "--tools", "t"][..],
            1,
            format!("{file}:3:5: the source `a` exists already\n  help: choose another name"),
        ),
        (&["b b", "--tools", "t"], 1, format!("{file}:4:11: ")),
        (&["b", "--module", "nowhere"], 1, format!("{file}:5:13: ")),
        (&["b", "--mcp", "http://h", "--trust", "much"], 1, format!("{file}:7:12: ")),
        (
            &["b", "--module", "http://127.0.0.1:1", "--bearer-env", "TOKEN_THAT_IS_NOT_SET"],
            1,
            format!("{file}:7:19: "),
        ),
    ] {
        let ran = tried.add(line);
        assert_eq!(ran.exit, exit, "{line:?}: {}", ran.err);
        assert!(ran.err.contains(&told), "{line:?}: {}", ran.err);
        assert_eq!(tried.text(), FILE, "{line:?}");
    }
    let flow = Tried::on("version: 1\nsources: [{ name: a, tools: t }]\n");
    let ran = flow.add(&["b", "--tools", "t"]);
    assert!(
        ran.exit == 1 && ran.err.contains("t.yaml:2: the list of sources is on one line"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("name: b\n"), "{}", ran.err);
    let faulty = Tried::on("version: 1\nlissten: x\n");
    let ran = faulty.add(&["b", "--tools", "t"]);
    assert!(ran.exit == 1 && ran.err.contains("`lissten`"), "{}", ran.err);
    let ran = Played::default().run(&["source", "add", "b", "--tools", "t"]);
    assert!(ran.exit == 2 && ran.err.contains("no configuration file is given"), "{}", ran.err);
}
