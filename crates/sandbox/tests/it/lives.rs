//! The end of a program and of all that it started, limits, and refusals.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::{Duration, Instant};

use meerkat_sandbox::{Denial, Limit, Limits, Profile, Refusal, Report, Stage};

use crate::support::{Scene, profiles};

/// Programs that leave processes behind; `MARK` is in their command lines.
const LEFT: [(&str, &str); 5] = [
    ("daemons", "for i in $(seq 50); do setsid sleep MARK > /dev/null 2>&1 & done"),
    (
        "double forks",
        "for i in $(seq 20); do (setsid sh -c 'sleep MARK & sleep MARK &' > /dev/null 2>&1 &); done",
    ),
    ("ignored signals", "(trap '' TERM HUP INT; sleep MARK > /dev/null 2>&1) & sleep 0.1"),
    (
        "dead leader",
        "python3 -c 'import threading,ctypes,time\nthreading.Thread(target=time.sleep,args=(MARK,)).start()\nctypes.CDLL(None).syscall(60,0)' > /dev/null 2>&1 & sleep 0.5",
    ),
    (
        "fork chain",
        "python3 -c 'import os\nwhile True:\n if os.fork(): os._exit(0)\n#MARK' > /dev/null 2>&1 & sleep 0.3",
    ),
];

fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("9{:07}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the number of processes with a mark in their command line.
fn marked(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(mark)).count()
}

fn await_none(mark: &str, what: &str) {
    let started = Instant::now();
    while marked(mark) > 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: processes are left");
        std::thread::yield_now();
    }
}

#[test]
fn nothing_outlives_the_program() {
    for profile in profiles().iter().copied() {
        for (name, script) in LEFT {
            let mark = mark();
            let outcome = Scene::new().run(profile, &script.replace("MARK", &mark));
            assert_eq!(outcome.code, 0, "{name}, {profile:?}: {outcome:?}");
            assert_eq!(marked(&mark), 0, "{name}, {profile:?}");
        }
    }
}

#[test]
fn hanging_up_ends_everything() {
    for profile in profiles().iter().copied() {
        let mark = mark();
        let scene = Scene::new();
        let script = format!("trap '' TERM; setsid sleep {mark} & echo up; while :; do sleep {mark}; done");
        let mut running = scene.start(profile, &script);
        assert_eq!(running.control.next_report().unwrap(), Some(Report::Ready));
        BufReader::new(&mut running.output).read_line(&mut String::new()).unwrap();
        drop(running.control);
        running.child.wait().unwrap();
        assert_eq!(marked(&mark), 0, "{profile:?}");
    }
}

#[test]
fn killed_helper_ends_its_namespace() {
    if !profiles().contains(&Profile::Namespaces) {
        return;
    }
    let mark = mark();
    let scene = Scene::new();
    let mut running =
        scene.start(Profile::Namespaces, &format!("setsid sleep {mark} & echo up; sleep {mark}"));
    BufReader::new(&mut running.output).read_line(&mut String::new()).unwrap();
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    await_none(&mark, "killed helper");
}

#[test]
fn killed_helper_leaves_nothing_that_opens() {
    let daemon = "import os, errno\nos.write(1, b\"up\\n\"); os.read(3, 1)\nfailed = []\n\
        for attempt in [lambda: open(\"opened\", \"w\"), lambda: os.rename(\"readme\", \"x\")]:\n try: attempt()\n \
        except OSError as error: failed.append(errno.errorcode[error.errno])\n\
        os.write(4, (\" \".join(failed) + \"\\n\").encode())";
    let script = format!(
        "mkfifo p q && exec 3<>p 4<>q && (setsid python3 -c '{daemon}' 2> /dev/null &) && sleep 1000"
    );
    for profile in profiles().iter().copied().filter(|profile| *profile != Profile::Namespaces) {
        let scene = Scene::new();
        let mut running = scene.start(profile, &script);
        BufReader::new(&mut running.output).read_line(&mut String::new()).unwrap();
        let open = |name| std::fs::File::options().read(true).write(true).open(scene.path(name)).unwrap();
        let (mut order, answer) = (open("work/p"), open("work/q"));
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        order.write_all(b"now\n").unwrap();
        let mut line = String::new();
        BufReader::new(answer).read_line(&mut line).unwrap();
        assert_eq!(line, "ENOSYS ENOSYS\n", "{profile:?}");
    }
}

#[test]
fn limits_stop_programs_and_are_reported() {
    let python = |code: &str| format!("python3 -c 'import os,time,signal\n{code}'");
    let forks = "n=0\ntry:\n while n<400:\n  if os.fork()==0: time.sleep(1000)\n  n+=1\nexcept BlockingIOError: time.sleep(1)\nprint(n)";
    for profile in profiles().iter().copied() {
        let mut scene = Scene::new();
        scene.policy.limits = Limits { processes: 40, free_disk: 0, ..Limits::default() };
        if profile == Profile::Namespaces {
            let outcome = scene.run(profile, &python(forks));
            let count: u32 = outcome.output.trim().parse().unwrap_or(u32::MAX);
            assert!(count < 320, "{outcome:?}");
            assert_eq!(outcome.limit, Some(Limit::Processes), "{outcome:?}");
        } else {
            let outcome = scene.run(profile, &python("[os.fork() for _ in range(6)]\ntime.sleep(5)"));
            assert!(
                outcome.limit == Some(Limit::Processes) || outcome.output.contains("BlockingIOError"),
                "{profile:?}: {outcome:?}"
            );
        }

        scene.policy.limits = Limits { file_size: 1 << 20, free_disk: 0, ..Limits::default() };
        let outcome = scene.run(profile, "exec head -c 2000000 /dev/zero > big");
        assert_eq!((outcome.code, outcome.limit), (153, Some(Limit::FileSize)), "{profile:?}: {outcome:?}");

        scene.policy.limits = Limits { open_files: 30, free_disk: 0, ..Limits::default() };
        let outcome = scene.run(profile, &python("f=[open(\"readme\") for _ in range(40)]"));
        assert_eq!((outcome.code, outcome.limit), (1, Some(Limit::OpenFiles)), "{profile:?}: {outcome:?}");

        scene.policy.limits = Limits { memory: 200 << 20, free_disk: 0, ..Limits::default() };
        let outcome = scene.run(profile, &python("b=bytearray(500<<20)"));
        assert_eq!(outcome.code, 1, "{profile:?}: {outcome:?}");
        let many = "[os.fork() for _ in range(2)]\nb=bytearray(90<<20)\nfor i in range(0,len(b),4096): b[i]=1\ntime.sleep(1000)";
        let outcome = scene.run(profile, &python(many));
        assert_eq!(outcome.limit, Some(Limit::Memory), "{profile:?}: {outcome:?}");
    }
}

#[test]
fn denials_are_reported_once() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let outcome = scene.run(profile, "cat .env .env; echo x > .envrc");
        let denial = |operation: &str, name: &str, reason: &str| Denial {
            operation: operation.to_owned(),
            subject: scene.path(name).display().to_string(),
            reason: reason.to_owned(),
        };
        let expected = [
            denial("open", "work/.env", "secret"),
            denial("create", "work/.envrc", "runs or is obeyed by itself"),
        ];
        assert_eq!(outcome.denials, expected, "{profile:?}");
    }
}

#[test]
fn programs_that_cannot_start_are_refused() {
    for profile in profiles().iter().copied() {
        let scene = Scene::new();
        let mut plan = scene.plan(profile, "true");
        plan.program.path = "/missing".into();
        assert_eq!(scene.refusal(&plan), Refusal { stage: Stage::Program, path: None, error: 2 });
        let mut plan = scene.plan(profile, "true");
        plan.program.directory = "/missing".into();
        assert_eq!(scene.refusal(&plan), Refusal { stage: Stage::Directory, path: None, error: 2 });
    }
}

#[test]
fn shared_memory_counts_once_and_is_limited() {
    for profile in profiles().iter().copied() {
        let mut scene = Scene::new();
        scene.policy.limits = Limits { memory: 200 << 20, free_disk: 0, ..Limits::default() };
        let script = "python3 -c 'import mmap, os, time\nm=mmap.mmap(-1, 120<<20); os.fork(); os.fork()\n\
            for i in range(0, len(m), 4096): m[i]=1\ntime.sleep(1)'";
        let outcome = scene.run(profile, script);
        assert_eq!((outcome.code, outcome.limit), (0, None), "{profile:?}: {outcome:?}");
        if profile != Profile::Landlock {
            let outcome = scene.run(profile, "head -c 150M /dev/zero > /dev/shm/x && echo hidden");
            assert!(outcome.code != 0 && !outcome.output.contains("hidden"), "{profile:?}: {outcome:?}");
        }
    }
}

#[test]
fn programs_are_preferred_when_memory_is_short() {
    for profile in profiles().iter().copied() {
        let outcome = Scene::new().run(profile, "cat /proc/self/oom_score_adj");
        assert_eq!(outcome.output, "500\n", "{profile:?}: {outcome:?}");
    }
}
