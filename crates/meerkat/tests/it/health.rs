//! Health of a runtime whose realm disappears, and of one that shuts down.

use std::fs;
use std::time::Duration;

use meerkat::{ErrorKind, Health};
use meerkat_testkit::Script;

use crate::world::{World, say, text, then};

#[tokio::test]
async fn replaced_realm_accepts_no_runs() {
    let world = World::new([Script::say("one"), Script::say("two")]);
    let id = world.create(say("first")).await.unwrap().session_id;
    assert!(world.runtime.health().await.is_ready());
    let root = world.runtime.realm().paths().unwrap().root.clone();
    let aside = root.with_extension("aside");
    fs::rename(&root, &aside).unwrap();
    for _ in 0..2 {
        let error = world.resume(id, then("second")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreError);
        assert!(error.to_string().contains("was deleted or replaced"), "{error}");
        assert_eq!(world.create(say("second")).await.unwrap_err().kind(), ErrorKind::StoreError);
        let health = world.runtime.health().await;
        assert_eq!((health.store.unwrap_err().kind(), health.is_draining), (ErrorKind::StoreError, false));
        // The second time, another realm is in its place.
        let other = world.another([]);
        std::thread::spawn(move || drop(other)).join().unwrap();
    }
    fs::rename(&root, root.with_extension("other")).unwrap();
    fs::rename(&aside, &root).unwrap();
    assert!(world.runtime.health().await.is_ready());
    assert_eq!(text(&world.resume(id, then("second")).await.unwrap()), "two");
}

#[tokio::test]
async fn runtime_is_draining_after_shutdown() {
    let world = World::new([]);
    world.runtime.shutdown(Duration::ZERO).await;
    let health = world.runtime.health().await;
    assert!(matches!(health, Health { store: Ok(()), is_draining: true }), "{health:?}");
    assert!(!health.is_ready());
}
