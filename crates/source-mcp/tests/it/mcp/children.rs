//! Tests of real child processes over real pipes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox::process::{CommandSpec, EnvValue, ProcessLauncher};
use source_mcp::{McpOptions, McpSource, ServerLimits, StdioConnector};
use tokio::time::timeout;
use tool::source::SourceErrorKind;
use tool::{ErrorCode, Secret, Source as _, SourceName};

use super::marks::{carriers, mark};
use super::peer::names;
use super::runs::{Watch, runner, said};
use testkit::condition::wait_until;

const BIN: &str = env!("CARGO_BIN_EXE_fake-mcp");
const SOON: Duration = Duration::from_secs(20);

fn spec(args: &[&str], mark: &str) -> CommandSpec {
    CommandSpec {
        command: BIN.to_owned(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        env: vec![("TK_MARK".to_owned(), mark.into())],
        ..CommandSpec::default()
    }
}

fn source(name: &str, spec: CommandSpec) -> McpSource {
    let launcher = ProcessLauncher::new(PathBuf::from(BIN), vec![OsString::from("__launch")]);
    let bounds = ServerLimits {
        start_timeout: Duration::from_secs(5),
        list_timeout: Duration::from_secs(8),
        shutdown_grace: Duration::from_millis(300),
        ..ServerLimits::default()
    };
    let options = McpOptions { limits: bounds, ..McpOptions::default() };
    McpSource::with_pipes(
        SourceName::new(name).unwrap(),
        options,
        Arc::new(StdioConnector::new(launcher, spec)),
    )
}

#[tokio::test]
async fn a_child_is_listed_called_and_gone_after_closing() {
    let mark = mark("echo");
    let source = source("s", spec(&["echo"], &mark));
    assert_eq!(carriers(&mark), 0);
    let echo = runner(&source, "s.echo").await;
    assert_eq!(carriers(&mark), 1);
    for n in 0..100 {
        let args = format!("{{\"n\":{n},\"text\":\"é\\n\"}}");
        assert_eq!(said(&echo.call(&args).await.unwrap()), args);
    }
    timeout(SOON, source.shut_down()).await.unwrap();
    assert_eq!(carriers(&mark), 0);
}

#[tokio::test]
async fn twenty_starts_and_stops_of_a_large_family_leave_nothing() {
    let mark = mark("family");
    for _ in 0..20 {
        let source = source("s", spec(&["family"], &mark));
        names(&source).await;
        wait_until("the family", || carriers(&mark) >= 4).await;
        timeout(SOON, source.shut_down()).await.unwrap();
        assert_eq!(carriers(&mark), 0);
    }
}

/// Positive control: the same server, started and killed without the supervisor, leaves its
/// descendants.
#[tokio::test]
async fn killing_only_the_child_would_have_left_its_family() {
    let mark = mark("control");
    let mut command = tokio::process::Command::new(BIN);
    command.arg("family").env("TK_MARK", &mark).stdin(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::null()).kill_on_drop(true).spawn().unwrap();
    wait_until("the family", || carriers(&mark) >= 4).await;
    child.kill().await.unwrap();
    assert!(carriers(&mark) >= 3);
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw)
            && environ.windows(mark.len()).any(|part| part == mark.as_bytes())
        {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    wait_until("nobody", || carriers(&mark) == 0).await;
}

#[tokio::test]
async fn a_crash_is_told_with_status_and_last_words_and_without_secrets() {
    let mut spec = spec(&["crash", "1"], &mark("crash"));
    spec.env.push(("KEY".to_owned(), EnvValue::Secret(Secret::new("of \u{1b}[31mcheese"))));
    let source = source("s", spec);
    let echo = runner(&source, "s.echo").await;
    assert!(echo.call("{}").await.is_ok());
    let error = timeout(SOON, echo.call("{}")).await.unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::UpstreamLost);
    let seen = timeout(SOON, source.wait_for_change(tool::SourceRevision(1))).await.unwrap();
    let Err(error) = source.list_offers().await else { panic!("{seen:?} is too early") };
    assert_eq!(error.kind, SourceErrorKind::Crashed);
    let text = &error.problem.message;
    assert!(text.starts_with("ended: exit status 3; "), "{text}");
    assert!(text.ends_with("fake-mcp: mode crash | fake-mcp: fatal: out [secret]"), "{text}");
    assert!(error.problem.location.ends_with("fake-mcp`"), "{}", error.problem.location);
    assert!(error.problem.help.unwrap().contains("run the command by hand"));
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn the_first_line_and_the_last_of_a_child_that_failed_are_told_in_full() {
    // More output between them than is stored.
    let script = "echo 'Error: unable to create kubernetes target provider' >&2; seq 1 30000 >&2; \
                  echo \"AttributeError: $(printf 'x%.0s' $(seq 400)) end\" >&2; exit 1";
    let args = ["-c", script].map(str::to_owned).to_vec();
    let source =
        source("s", CommandSpec { command: "sh".to_owned(), args, ..CommandSpec::default() });
    let error = timeout(SOON, source.list_offers()).await.unwrap().unwrap_err();
    let text = &error.problem.message;
    let first = "its standard error: Error: unable to create kubernetes target provider | … | ";
    assert!(text.contains(first), "{text}");
    assert!(text.contains("| 30000 | AttributeError: xxx") && text.ends_with("xxx end"), "{text}");
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let absent = CommandSpec { command: "/no/such/program".to_owned(), ..CommandSpec::default() };
    let source = source("s", absent);
    let error = timeout(SOON, source.list_offers()).await.unwrap().unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Unreachable);
    assert!(error.problem.message.contains("`/no/such/program`"), "{error}");
    assert!(error.problem.help.unwrap().contains("`command`"));
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn children_that_hang_flood_or_crash_leave_the_others_untouched() {
    let mark = mark("mixed");
    let bad = ["hang-start", "hang-list", "hang-call", "flood", "crash", "crash-start", "noise"];
    let bad: Vec<_> = bad.iter().map(|mode| source(mode, spec(&[mode], &mark))).collect();
    let good = source("good", spec(&["echo"], &mark));
    let trouble = futures_util::future::join_all(bad.iter().map(|source| async {
        let Ok(listing) = source.list_offers().await else {
            return (source.name().as_str(), "no list");
        };
        let name = format!("{}.echo", source.name());
        let tool = super::runs::pick(&listing, &name);
        let watch = Watch::default();
        let cancel = watch.cancel.clone();
        let late = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            outcome = tool.watched("{}", &watch) => match outcome {
                Ok(outcome) if !outcome.is_error => "answered",
                _ => "failed",
            },
            () = late => "hangs",
        };
        (source.name().as_str(), ended)
    }));
    let untouched = async {
        let echo = runner(&good, "good.echo").await;
        for n in 0..500 {
            let args = format!("{{\"n\":{n}}}");
            let outcome = timeout(SOON, echo.call(&args)).await.unwrap().unwrap();
            assert_eq!(said(&outcome), args);
        }
    };
    let (troubles, ()) = tokio::join!(trouble, untouched);
    // Control: each mode did what its name says.
    let expected = [
        ("hang-start", "no list"),
        ("hang-list", "no list"),
        ("hang-call", "failed"),
        ("flood", "failed"),
        ("crash", "failed"),
        ("crash-start", "no list"),
        ("noise", "answered"),
    ];
    assert_eq!(troubles, expected);
    let closing = bad.iter().chain([&good]).map(|source| timeout(SOON, source.shut_down()));
    futures_util::future::join_all(closing).await.into_iter().for_each(|closed| closed.unwrap());
    assert_eq!(carriers(&mark), 0);
}

#[tokio::test]
async fn a_child_that_changes_its_tools_is_listed_anew() {
    let source = source("s", spec(&["grow"], &mark("grow")));
    let seen = source.list_offers().await.unwrap().revision;
    assert!(runner(&source, "s.echo").await.call("{}").await.is_ok());
    timeout(SOON, source.wait_for_change(seen)).await.unwrap();
    assert_eq!(names(&source).await, ["s.echo", "s.extra0"]);
    timeout(SOON, source.shut_down()).await.unwrap();
}

#[tokio::test]
async fn a_dropped_source_leaves_no_child() {
    let mark = mark("dropped");
    let source = source("s", spec(&["family"], &mark));
    names(&source).await;
    drop(source);
    wait_until("nobody", || carriers(&mark) == 0).await;
}

/// Child that fails and prints its arguments on both outputs.
fn careless(secret: &str) -> CommandSpec {
    let script = "echo \"noise $2\"; echo \"bad option $1, bad value $2\" >&2; exit 3";
    let option = format!("--api-token={secret}");
    CommandSpec {
        command: "/bin/sh".to_owned(),
        ..spec(&["-c", script, "sh", &option, secret], "args")
    }
}

#[tokio::test]
async fn the_arguments_of_a_command_are_in_nothing_that_is_told_of_it() {
    let secret = "SEKRET-12345";
    let source = source("s", careless(secret));
    let error = source.list_offers().await.unwrap_err();
    source.shut_down().await;
    let told = format!("{error} {:?}", error.problem);
    assert_eq!(error.problem.location, "`/bin/sh`");
    assert!(!told.contains(secret), "{told}");
    // Control: the child printed its arguments, and the placeholder identifies them.
    assert!(told.contains("bad option --api-token=[argument "), "{told}");
    assert!(told.contains("noise [argument "), "{told}");
}
