//! Tests of the built-in file tools: free to read, approval to change.

use serde_json::json;

use crate::support::installation::Installation;
use crate::support::server_process::start_server;

#[tokio::test]
async fn a_file_is_written_once_a_person_agrees_and_read_without() {
    let home = Installation::new("version: 1\n");
    let server = start_server(&home).await;
    let (agent, owner) = (server.agent(), server.owner());
    let asked = json!({ "path": "notes/a.txt", "content": "one" });
    let held = agent.call("write_file", &asked).await;
    assert_eq!(held.status, 202, "{held:?}");
    let file = home.data().join("work/notes/a.txt");
    assert!(!file.exists());
    // An agent approves nothing, its own calls least of all.
    let path = format!("/v1/approvals/{}/approve", held.call_id());
    assert_eq!(agent.post(&path, &json!({})).await.status, 403);
    assert!(!file.exists());
    assert_eq!(owner.post(&path, &json!({})).await.status, 200);
    let ended = format!("/v1/calls/{}/resume?wait=30s", held.call_id());
    let ended = agent.post(&ended, &json!({})).await;
    assert_eq!(
        (ended.status, &ended.body["result"]["bytes_written"]),
        (200, &json!(3)),
        "{ended:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
    let read = agent.call("read_file", &json!({ "path": "notes/a.txt" })).await;
    assert_eq!(read.body["result"]["content"], "one", "{read:?}");
    // Keys and records are next to the folder and not accessible.
    for path in
        ["../owner.key", "../store.db", &home.data().join("owner.key").display().to_string()]
    {
        let told = agent.call("read_file", &json!({ "path": path })).await;
        let text = told.body["error"]["message"].as_str().or(told.body["result"].as_str());
        assert!(
            text.is_some_and(|it| it.contains("there is no") || it.contains("not allowed")),
            "{path}: {told:?}"
        );
        assert!(!format!("{told:?}").contains("tk_"), "{told:?}");
    }
    assert!(server.stop().await.success());
}

/// A folder that was plain when a person agreed and leads elsewhere when the call runs.
#[tokio::test]
async fn a_link_put_there_after_the_approval_leads_nowhere() {
    let home = Installation::new("version: 1\n");
    let server = start_server(&home).await;
    let (agent, owner) = (server.agent(), server.owner());
    let (work, outside) = (home.data().join("work"), home.data().join("outside"));
    std::fs::create_dir_all(&outside).unwrap();
    let mut statuses = Vec::new();
    for (folder, changed) in [("plain", false), ("swapped", true)] {
        std::fs::create_dir_all(work.join(folder)).unwrap();
        let asked = json!({ "path": format!("{folder}/a.txt"), "content": "one" });
        let held = agent.call("write_file", &asked).await;
        let approved = format!("/v1/approvals/{}/approve", held.call_id());
        assert_eq!(owner.post(&approved, &json!({})).await.status, 200);
        if changed {
            std::fs::remove_dir(work.join(folder)).unwrap();
            std::os::unix::fs::symlink(&outside, work.join(folder)).unwrap();
        }
        let resumed = format!("/v1/calls/{}/resume?wait=30s", held.call_id());
        let ended = agent.post(&resumed, &json!({})).await;
        statuses.push((ended.body["is_error"].as_bool(), outside.join("a.txt").exists()));
        // Following the link without a check leads outside.
        assert_eq!(std::fs::canonicalize(work.join(folder)).unwrap() == outside, changed);
    }
    assert_eq!(statuses, [(Some(false), false), (Some(true), false)]);
    assert_eq!(std::fs::read_to_string(work.join("plain/a.txt")).unwrap(), "one");
    assert!(server.stop().await.success());
}
