//! Background commands.

use meerkat_core::{FinishedJob, JobStatus};
use serde_json::{Value, json};

use crate::support::{World, unsandboxed};

fn world() -> World {
    World::with_shell(unsandboxed())
}

async fn start_job(world: &World, command: &str) -> String {
    let reply = world.json("shell", json!({ "command": command, "background": true })).await;
    assert_eq!(reply["status"], "running");
    reply["job_id"].as_str().unwrap().to_owned()
}

/// Waits until a job is reported as finished.
async fn wait_for_job(world: &World) -> FinishedJob {
    loop {
        if let Some(job) = world.source().take_finished_jobs().pop() {
            return job;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn finished_job_is_reported_once() {
    let world = world();
    let id = start_job(&world, "echo out; echo err >&2; exit 3").await;
    let job = wait_for_job(&world).await;
    let name = "echo out; echo err >&2; exit 3".to_owned();
    let detail = "exit code 3".to_owned();
    assert_eq!(job, FinishedJob { id: id.clone(), name, status: JobStatus::Completed, detail });
    assert_eq!(world.source().take_finished_jobs(), []);
    let mut view = world.json("shell_job_status", json!({ "job_id": id })).await;
    view["status"]["duration_secs"] = Value::Null;
    assert_eq!(
        view["status"],
        json!({ "status": "completed", "exit_code": 3, "stdout": "out\n", "stderr": "err\n", "duration_secs": null })
    );
}

#[tokio::test]
async fn job_can_be_cancelled() {
    let world = world();
    let id = start_job(&world, "sleep 1000").await;
    let reply = world.json("shell_job_cancel", json!({ "job_id": id })).await;
    assert_eq!(reply, json!({ "job_id": id, "status": "cancelled" }));
    let jobs = world.json("shell_jobs", json!({})).await;
    assert_eq!((&jobs[0]["id"], &jobs[0]["status"]), (&json!(id), &json!("cancelled")));
    let (kind, message) = world.failure("shell_job_cancel", json!({ "job_id": id })).await;
    assert_eq!((kind.as_str(), message), ("execution_failed", format!("job `{id}` has already finished")));
}

#[tokio::test]
async fn number_of_jobs_is_limited() {
    let world = world();
    for _ in 0..10 {
        start_job(&world, "sleep 1000").await;
    }
    let (_, message) = world.failure("shell", json!({ "command": "true", "background": true })).await;
    assert_eq!(message, "10 jobs are already running; wait for one or cancel one");
}

#[tokio::test]
async fn job_of_another_session_is_not_found() {
    let world = world();
    let (_, message) = world.failure("shell_job_status", json!({ "job_id": "job_x" })).await;
    assert_eq!(message, "no job `job_x`; see shell_jobs");
}
