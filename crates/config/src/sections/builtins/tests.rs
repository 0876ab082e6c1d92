use crate::tests::{faults, good, reading};

fn told(text: &str) -> (bool, Vec<String>) {
    let reading = reading(text, &[]);
    (reading.config.is_none(), faults(&reading))
}

#[test]
fn a_tool_is_narrowed_and_never_widened() {
    let text = "version: 1\nbuiltins:\n  roots: [{ path: /srv/a, write: true, protect: [x/y] }]\n  \
                search: { searxng: 'http://127.0.0.1:8888' }\n  tools:\n    write_file: { enabled: false }\n    \
                read_file: { safety: dangerous, maximum: { max_bytes: 100 }, timeout: 2s }\n    sql_query: { arguments: 2MiB }\n";
    let config = good(text);
    assert!(config.builtins.tools["write_file"].off);
    assert_eq!(config.builtins.tools["read_file"].maximum["max_bytes"], 100);
    assert_eq!(config.builtins.tools["sql_query"].arguments, Some(2 << 20));
    assert_eq!(config.builtins.roots[0].protect, ["x/y"]);
    // Those of other crates too.
    for name in ["calculate", "symbolic_solve", "embed_text", "run_program"] {
        let text =
            format!("version: 1\nbuiltins: {{ tools: {{ {name}: {{ enabled: false }} }} }}\n");
        assert!(good(&text).builtins.tools[name].off, "{name}");
    }
    for (wrong, told) in [
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
        let (refused, faults) = self::told(&text);
        assert!(faults.len() == 1 && faults[0].contains(told), "{wrong}: {faults:?}");
        assert!(refused, "{wrong}");
    }
    let math = "version: 1\nbuiltins: { tools: { mcmc: { enabled: false }, calculate: { safety: dangerous } } }\n";
    assert!(good(math).builtins.tools["mcmc"].off);
    for wrong in [
        "roots: [{ write: true }]",
        "search: { searxng: 'ftp://x' }",
        "roots: [{ path: a, protect: ['../b'] }]",
    ] {
        let (_, faults) = told(&format!("version: 1\nbuiltins:\n  {wrong}\n"));
        assert_eq!(faults.len(), 1, "{wrong}: {faults:?}");
    }
}
