use crate::tests::{error_lines, load_yaml, valid_config};

fn messages(text: &str) -> (bool, Vec<String>) {
    let report = load_yaml(text, &[]);
    (report.config.is_none(), error_lines(&report))
}

#[test]
fn a_tool_is_narrowed_and_never_widened() {
    let text = "version: 1\nbuiltins:\n  roots: [{ path: /srv/a, write: true, protect: [x/y] }]\n  \
                search: { searxng: 'http://127.0.0.1:8888' }\n  tools:\n    write_file: { enabled: false }\n    \
                read_file: { safety: dangerous, maximum: { max_bytes: 100 }, timeout: 2s }\n    sql_query: { arguments: 2MiB }\n";
    let config = valid_config(text);
    assert!(config.builtins.tools["write_file"].is_disabled);
    assert_eq!(config.builtins.tools["read_file"].max_values["max_bytes"], 100);
    assert_eq!(config.builtins.tools["sql_query"].max_argument_bytes, Some(2 << 20));
    assert_eq!(config.builtins.file_roots[0].protected_paths, ["x/y"]);
    // Those of other crates too.
    for name in ["calculate", "symbolic_solve", "embed_text", "run_program"] {
        let text =
            format!("version: 1\nbuiltins: {{ tools: {{ {name}: {{ enabled: false }} }} }}\n");
        assert!(valid_config(&text).builtins.tools[name].is_disabled, "{name}");
    }
    for (wrong, messages) in [
        ("write_file: { safety: safe }", "`safety`"),
        ("read_file: { maximum: { max_bytes: 99000000 } }", "max_bytes"),
        ("read_file: { maximum: { path: 1 } }", "path"),
        ("read_file: { chain: true, required_permission: guest }", "required_permission"),
        ("sql_query: { arguments: 65MiB }", "out of range"),
        ("read_file: { arguments: 2MiB }", "`arguments`"),
        ("rm: { enabled: false }", "`rm`"),
        ("mcmc: { maximum: { n_samples: 5 } }", "`maximum`"),
    ] {
        let text = format!("version: 1\nbuiltins:\n  tools:\n    {wrong}\n");
        let (refused, errors) = self::messages(&text);
        assert!(errors.len() == 1 && errors[0].contains(messages), "{wrong}: {errors:?}");
        assert!(refused, "{wrong}");
    }
    let math = "version: 1\nbuiltins: { tools: { mcmc: { enabled: false }, calculate: { safety: dangerous } } }\n";
    assert!(valid_config(math).builtins.tools["mcmc"].is_disabled);
    for wrong in [
        "roots: [{ write: true }]",
        "search: { searxng: 'ftp://x' }",
        "roots: [{ path: a, protect: ['../b'] }]",
    ] {
        let (_, errors) = messages(&format!("version: 1\nbuiltins:\n  {wrong}\n"));
        assert_eq!(errors.len(), 1, "{wrong}: {errors:?}");
    }
}
