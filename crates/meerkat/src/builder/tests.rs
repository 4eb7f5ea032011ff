//! Tests that a runtime's skills and registry follow the newest config.

use serde_json::{Value, json};

use super::{Runtime, RuntimeOptions};
use crate::config::{ConfigChange, CurrentConfig};

/// Changes the config and returns it, without applying it to anything.
async fn patch(runtime: &Runtime, document: Value) -> CurrentConfig {
    let Value::Object(patch) = document else { panic!("{document}") };
    runtime.config().change(ConfigChange::Patch(patch), None).await.unwrap()
}

#[tokio::test]
async fn older_config_never_replaces_a_newer_one() {
    let runtime = Runtime::ephemeral(RuntimeOptions::default()).unwrap();
    let count = || runtime.skills().catalog().snapshot().active().count();
    let older = patch(&runtime, json!({ "skills": { "enabled": true } })).await;
    patch(&runtime, json!({ "skills": { "enabled": false } })).await;
    runtime.refresh_skills().await.unwrap();
    assert_eq!(count(), 0);
    // A run applies the config that it read before the change.
    runtime.skills_extension().refresh(&older).await;
    assert_eq!(count(), 0);
    patch(&runtime, json!({ "skills": { "enabled": true } })).await;
    runtime.refresh_skills().await.unwrap();
    assert_ne!(count(), 0);
}

#[cfg(feature = "registry")]
#[tokio::test]
async fn older_config_never_moves_the_registry_back() {
    let runtime = Runtime::ephemeral(RuntimeOptions::default()).unwrap();
    let scope = |registry: &crate::RealmRegistry| registry.registry().options().scopes.skills.clone();
    let older = runtime.config().get().await.unwrap();
    let moved = patch(&runtime, json!({ "registry": { "scopes": { "skills": "others" } } })).await;
    let registry = runtime.registry().await.unwrap();
    runtime.skills_extension().refresh(&older).await;
    runtime.runtime_registry().tools(&older.config).await;
    assert_eq!(scope(&registry), "others");

    let register = json!({ "id": "demo", "skill": "# Demo" });
    registry.call("skills::register", register).await.unwrap();
    // This run adds the registered skills to the catalog, still under the newer config.
    runtime.skills_extension().refresh(&older).await;
    assert!(runtime.skills().catalog().snapshot().by_name("demo").is_ok());

    patch(&runtime, json!({ "registry": { "enabled": false } })).await;
    runtime.refresh_skills().await.unwrap();
    runtime.skills_extension().refresh(&moved).await;
    assert!(runtime.skills().catalog().snapshot().by_name("demo").is_err());
}
