//! Starting programs.

use crate::support::{Scene, profiles};

#[test]
fn programs_run_and_return_their_code() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let outcome = scene.run(profile, "echo ready; exit 7");
        assert_eq!((outcome.code, &*outcome.output), (7, "ready\n"), "{profile:?}: {outcome:?}");
    }
}

#[test]
fn granted_files_can_be_read_and_written() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let outcome =
            scene.run(profile, "cat readme && echo new > src/file && cat src/file && cat ../outside/file");
        assert_eq!((outcome.code, &*outcome.output), (0, "hellonew\noutside"), "{profile:?}: {outcome:?}");
    }
}
