//! Tests of the tool `run_shell`.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::calls::{Stage, value, words};

#[tokio::test]
async fn it_tells_both_streams_the_code_and_the_time() {
    let stage = Stage::new().await;
    let told = stage.call("run_shell", &json!({"command": "echo out; echo err >&2; exit 7"})).await;
    let told = value(&told);
    assert_eq!(told["stdout"], "out\n");
    assert_eq!(told["stderr"], "err\n");
    assert_eq!(told["returncode"], 7);
    assert_eq!(told["truncated"], false);
    assert!(told["elapsed_ms"].as_u64().unwrap() < 60_000);
}

#[tokio::test]
async fn it_works_in_the_folder_and_in_those_below() {
    let stage = Stage::new().await;
    std::fs::create_dir(stage.work.path().join("sub")).unwrap();
    let made = stage.call("run_shell", &json!({"command": "pwd > made", "cwd": "sub"})).await;
    assert_eq!(value(&made)["returncode"], 0, "{made:?}");
    let made = std::fs::read_to_string(stage.work.path().join("sub/made")).unwrap();
    assert_eq!(made.trim(), stage.work.path().join("sub").to_str().unwrap());
    for away in ["no/such", "../..", "/root", "/proc/1/root"] {
        let told = stage.call("run_shell", &json!({"command": "ls", "cwd": away})).await;
        if told.is_error {
            assert!(words(&told).starts_with("cwd: "), "{told:?}");
        } else {
            // A folder of the sandbox itself.
            let names = value(&told)["stdout"].to_string();
            assert!(!names.contains("secret"), "{away}: {names}");
        }
    }
}

#[tokio::test]
async fn long_output_is_cut_and_read_to_its_end() {
    let stage = Stage::new().await;
    let command =
        "head -c 3000000 /dev/zero | tr '\\0' a; head -c 3000000 /dev/zero | tr '\\0' b >&2";
    let told = value(&stage.call("run_shell", &json!({"command": command})).await);
    assert_eq!(told["stdout"].as_str().unwrap().len(), 50_000);
    assert_eq!(told["stderr"].as_str().unwrap().len(), 10_000);
    assert_eq!((&told["truncated"], &told["returncode"]), (&json!(true), &json!(0)));
    let flood = json!({"command": "yes & yes >&2", "timeout": 1});
    let told = stage.call("run_shell", &flood).await;
    assert!(told.is_error);
    assert_eq!(value(&told)["returncode"], -1);
}

#[tokio::test]
async fn time_is_up_for_all_it_started() {
    let stage = Stage::new().await;
    let began = Instant::now();
    let deaf = "trap '' TERM; setsid sleep 600 & (setsid sh -c '(sleep 600 &)' &); sleep 600";
    let told = stage.call("run_shell", &json!({"command": deaf, "timeout": 1})).await;
    assert!(told.is_error && began.elapsed() < Duration::from_secs(20), "{told:?}");
    assert_eq!(value(&told)["error"], "the command was stopped after 1 s");
}

#[tokio::test]
async fn a_caller_who_gives_up_ends_it() {
    let stage = Stage::new().await;
    let cancel = CancellationToken::new();
    let began = Instant::now();
    let args = json!({"command": "sleep 600", "timeout": 300});
    let call = stage.tried("run_shell", &args, &cancel);
    let (ended, ()) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    });
    assert_eq!(ended.unwrap_err().code, tool::ErrorCode::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn signals_are_told_by_their_negative_numbers() {
    let stage = Stage::new().await;
    let told = value(&stage.call("run_shell", &json!({"command": "kill -SEGV $$"})).await);
    assert_eq!((&told["returncode"], &told["error"]), (&json!(-11), &json!("ended by signal 11")));
}

#[tokio::test]
async fn nothing_of_the_server_is_in_its_environment() {
    let stage = Stage::new().await;
    let told =
        value(&stage.call("run_shell", &json!({"command": "env; echo; id -un; hostname"})).await);
    let text = told["stdout"].as_str().unwrap();
    assert!(!text.contains("CARGO") && text.contains("HOME="), "{text}");
    assert!(text.ends_with("tool\nsandbox\n"), "{text}");
}

#[tokio::test]
async fn a_command_that_cannot_be_one_is_told() {
    let stage = Stage::new().await;
    let told = stage.call("run_shell", &json!({"command": "a\u{0}b"})).await;
    assert!(words(&told).contains("NUL"), "{told:?}");
}
