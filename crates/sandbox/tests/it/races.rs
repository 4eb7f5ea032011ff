//! Races with the gate: a program changes what a name means while it is opened. Outside each of them hits.

use meerkat_sandbox::Profile;

use crate::support::{Scene, profiles};

/// Opens `name` again and again, while a thread swaps what it means; exits with 0 on the first hit.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile char name[16] = "readme";
static volatile int mode, stop;

static void set(const char *text) {
    for (int i = 0; i < 13; i++) { name[i] = text[i]; if (!text[i]) break; }
}

static void *swap(void *unused) {
    for (unsigned i = 0; !stop; i++) switch (mode) {
        case 'm': set(i & 1 ? ".env" : "readme"); break;
        case 'l': symlink(i & 1 ? ".env" : "readme", "next"); rename("next", "l"); break;
        case 'd': rename(i & 1 ? "plain" : "swapped", i & 1 ? "swapped" : "plain"); break;
        case 'o': symlink(i & 1 ? "../outside" : "src", "next"); rename("next", "dir"); break;
    }
    return unused;
}

int main(int argc, char **argv) {
    long rounds = atol(argv[2]);
    mode = argv[1][0];
    if (mode == 'l') set("l");
    if (mode == 'd') set("swapped/.env");
    if (mode == 'o') set("dir/file");
    pthread_t thread;
    pthread_create(&thread, 0, swap, 0);
    for (long i = 0; i < rounds; i++) {
        char text[64] = "";
        int file = open((const char *)name, mode == 'o' ? O_WRONLY | O_TRUNC | O_CREAT : O_RDONLY, 0600);
        struct stat at;
        int hit = 0;
        if (file >= 0 && mode == 'o') hit = fstat(file, &at) == 0 && at.st_ino == (ino_t)atol(argv[3]);
        else if (file >= 0) hit = read(file, text, 63) > 0 && strstr(text, "hidden");
        if (file >= 0) close(file);
        if (hit) { stop = 1; pthread_join(thread, 0); return 0; }
    }
    stop = 1;
    pthread_join(thread, 0);
    return 1;
}
"#;

const RACES: [(&str, &str); 4] = [
    ("m", "the path in memory"),
    ("l", "a symlink"),
    ("d", "a directory"),
    ("o", "a symlink to a directory outside"),
];

fn scene() -> Scene {
    let scene = Scene::new();
    std::fs::write(scene.path("work/race.c"), PROGRAM).unwrap();
    std::fs::create_dir(scene.path("work/plain")).unwrap();
    std::fs::write(scene.path("work/plain/.env"), "hidden").unwrap();
    assert!(scene.run_outside("cc -O1 -pthread -o race race.c"));
    scene
}

fn script(scene: &Scene, race: &str, rounds: u32) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let inode = scene.path("outside/file").metadata().unwrap().ino();
    format!("./race {race} {rounds} {inode}")
}

#[test]
fn races_hit_outside() {
    let scene = scene();
    for (race, name) in RACES {
        assert!(scene.run_outside(&script(&scene, race, u32::MAX)), "{name}");
    }
}

#[test]
fn races_never_hit_in_namespaces() {
    never_hit(Profile::Namespaces);
}

#[test]
fn races_never_hit_under_landlock() {
    never_hit(Profile::Landlock);
}

fn never_hit(profile: Profile) {
    let scene = scene();
    for (race, name) in RACES.into_iter().filter(|_| profiles().contains(&profile)) {
        let outcome = scene.run(profile, &script(&scene, race, 30_000));
        assert_eq!(outcome.code, 1, "{name}, {profile:?}: {outcome:?}");
    }
}

/// `move ROUNDS` moves a file to a place where no directory may be; `swap` exchanges it with a directory meanwhile. Exits
/// with 0 if a directory got there.
const MOVER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        puts("up");
        fflush(stdout);
        for (;;) renameat2(AT_FDCWD, "f", AT_FDCWD, "d", RENAME_EXCHANGE);
    }
    for (long i = 0; i < atol(argv[2]); i++) {
        rename("f", ".git/modules/x");
        if (access(".git/modules/x/hooks/h", F_OK) == 0) return 0;
        unlink(".git/modules/x");
        close(open("f", O_CREAT | O_WRONLY, 0600));
    }
    return 1;
}
"#;

#[test]
fn sandboxes_that_share_a_directory_never_hit() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        scene.init_git();
        std::fs::write(scene.path("work/move.c"), MOVER).unwrap();
        assert!(
            scene.run_outside("cc -O1 -o move move.c && mkdir -p d/hooks .git/modules && touch d/hooks/h f")
        );
        let mut swapping = scene.start(profile, "exec ./move swap");
        assert_eq!(swapping.control.next_report().unwrap(), Some(meerkat_sandbox::Report::Ready));
        std::io::BufRead::read_line(&mut std::io::BufReader::new(&mut swapping.output), &mut String::new())
            .unwrap();
        let outcome = scene.run(profile, "./move move 20000");
        drop(swapping.control);
        swapping.child.wait().unwrap();
        assert_eq!(outcome.code, 1, "{profile:?}: {outcome:?}");
    }
}
