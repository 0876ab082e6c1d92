//! Warnings of `config check` about skipped entries and about names without a match.

use std::fs;

use tool::Problem;

use super::played::Played;
use cli_core::server_launcher::ConfigReview;

fn checked(review: ConfigReview, text: &str, more: &[&str]) -> super::played::Ran {
    let played = Played::default().reviewed(review);
    let file = played.data().with_file_name("t.yaml");
    fs::write(&file, text).unwrap();
    let line = [&["config", "check", file.to_str().unwrap()], more].concat();
    let ran = played.run(&line);
    assert_eq!(played.starts(), 0);
    ran
}

const GOOD: &str = "version: 1\nsources: [{ name: a, tools: a.yaml }]\n";

fn problem(message: &str) -> Problem {
    Problem::new("a.yaml:3", message).with_help("mend it")
}

/// A tool file that is not there and one full of faults were both good.
#[test]
fn what_a_server_leaves_out_is_a_fault_beside_those_of_the_file() {
    let review =
        ConfigReview { left_out: vec![problem("no tool")], warnings: vec![problem("no name")] };
    let text = format!("{GOOD}  # a fault in a source alone\n")
        .replace("]\n", ", { name: b, tols: b }]\n");
    let ran = checked(review, &text, &[]);
    assert_eq!((ran.exit, ran.out.as_str()), (1, ""));
    for told in [
        "unknown key `tols`",
        "a.yaml:3: no tool\n  help: mend it",
        "warning: a.yaml:3: no name",
        "serves the others",
    ] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
    // The control: with nothing left out it is good.
    assert_eq!(checked(ConfigReview::default(), GOOD, &[]).exit, 0);
}

#[test]
fn a_warning_alone_is_no_fault_unless_it_is_asked_to_be() {
    let review = || ConfigReview { left_out: Vec::new(), warnings: vec![problem("no name")] };
    let ran = checked(review(), GOOD, &[]);
    assert_eq!(ran.exit, 0, "{}", ran.err);
    assert!(ran.out.contains("valid, with 1 source\n\nwarning: a.yaml:3: no name"), "{}", ran.out);
    let ran = checked(review(), GOOD, &["--strict"]);
    assert!(ran.exit == 1 && ran.err.contains("1 warning in the configuration"), "{}", ran.err);
}
