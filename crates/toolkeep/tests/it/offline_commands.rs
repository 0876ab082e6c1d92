//! Tests of commands that need no server.

use crate::command_runner::CommandHome;

#[test]
fn help_suffices_and_tells_nothing_hidden() {
    let home = CommandHome::new();
    let help = home.run(&["--help"]);
    assert!(help.code == 0 && help.out.contains("toolkeep serve"), "{}", help.out);
    assert!(!help.out.contains("__launch"));
    let secret = home.run_with(&["tool", "list", "--help"], ("TOOLKEEP_KEY", "tk_secret"));
    assert!(secret.code == 0 && !secret.out.contains("tk_secret"));
    assert_eq!(home.run(&["--version"]).out, concat!("toolkeep ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn help_lists_every_exit_code_and_nothing_is_coloured() {
    let home = CommandHome::new();
    let help = home.run(&["help"]);
    for line in
        ["  0  success", "  1  failure", "  2  invalid command", "  3  not found", "  4  no server"]
    {
        assert!(help.code == 0 && help.out.contains(line), "{line}: {}", help.out);
    }
    for line in [&["--help"][..], &["tool", "lst"], &["tool", "show", "nope"], &["source", "list"]]
    {
        // This variable is how colours are forced through a pipe; there are none to be forced.
        for variable in [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")] {
            let ran = home.run_with(line, variable);
            assert!(!format!("{}{}", ran.out, ran.err).contains('\u{1b}'), "{line:?} {variable:?}");
        }
    }
}

#[test]
fn an_exported_list_is_the_one_that_is_listed() {
    let home = CommandHome::new();
    let count = home.run(&["tool", "count"]).out;
    let count = count.trim_end();
    assert!(count.parse::<usize>().unwrap() >= 16, "{count}");
    for format in ["openai_chat", "gemini", "openai_responses_strict"] {
        let listed = home.run(&["tool", "list", "--format", format]).json();
        let ran = home.run(&["tool", "export", "--format", format, "tools.json"]);
        assert!(
            ran.code == 0 && ran.out == format!("tools.json: {count} tools as {format}\n"),
            "{}",
            ran.out
        );
        let file = std::fs::read(home.path("tools.json")).unwrap();
        let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
        assert_eq!(file, listed["tools"]);
        assert_eq!(ran.err.contains("schema reduced: `echo`"), format.ends_with("_strict"));
    }
}

#[test]
fn a_shell_completes_with_the_printed_script() {
    let home = CommandHome::new();
    for (shell, part) in [("zsh", "#compdef toolkeep"), ("fish", "complete -c toolkeep")] {
        let ran = home.run(&["completions", shell]);
        assert!(ran.code == 0 && ran.out.contains(part), "{shell}: {}", ran.out);
        assert!(!ran.out.contains("__launch"), "{shell}");
    }
    assert_eq!(home.run(&["completions", "tcsh"]).code, 2);
    home.write("script", &home.run(&["completions", "bash"]).out);
    let ask = "source ./script; COMP_WORDS=(toolkeep record ta); COMP_CWORD=2; \
               _toolkeep toolkeep ta record; echo \"${COMPREPLY[@]}\"";
    #[expect(clippy::disallowed_methods, reason = "a shell reads the script as people's shells do")]
    let ran =
        std::process::Command::new("bash").args(["-c", ask]).current_dir(home.path("")).output();
    let ran = ran.unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "tail\n", "{ran:?}");
}

#[test]
fn a_wrong_line_is_told_with_the_nearest_right_one() {
    let home = CommandHome::new();
    let wrong = home.run(&["tool", "lst"]);
    assert!(wrong.code == 2 && wrong.err.contains("'list'"), "{}", wrong.err);
    assert_eq!(home.run(&[]).code, 2);
    assert_eq!(home.run(&["key", "create", "--subject", "a", "--right", "all"]).code, 2);
}

#[test]
fn the_supervisor_refuses_to_be_run_by_hand() {
    assert_eq!(CommandHome::new().run(&["__launch"]).code, 2);
}

#[test]
fn variables_and_flags_say_where_things_are() {
    let home = CommandHome::new();
    home.write("t.yaml", "version: 1\ndata: ./elsewhere\n");
    let ran = home.run_with(&["tool", "list"], ("TOOLKEEP_CONFIG", "t.yaml"));
    assert!(ran.code == 0 && home.path("elsewhere/owner.key").exists(), "{}", ran.err);
    assert!(!home.data("").exists());
    let ran = home.run_with(&["tool", "list", "--data", "third"], ("TOOLKEEP_CONFIG", "t.yaml"));
    assert!(ran.code == 0 && home.path("third/owner.key").exists(), "{}", ran.err);
}

#[test]
fn the_published_schema_is_printed() {
    let printed = CommandHome::new().run(&["config", "schema"]);
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/config.schema.json");
    assert_eq!(printed.out, std::fs::read_to_string(kept).unwrap());
}

#[test]
fn of_commands_at_once_each_gets_its_turn() {
    let home = CommandHome::new();
    let codes = std::thread::scope(|scope| {
        let call = || home.run(&["tool", "call", "echo", "message=hi"]).code;
        let all: Vec<_> = (0..4).map(|_| scope.spawn(call)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(codes, [0; 4]);
    let records = home.run(&["record", "list", "-o", "json"]).json();
    assert_eq!(records["records"].as_array().unwrap().len(), 8);
}
