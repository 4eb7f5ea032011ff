//! Ordinary uses, which work in every profile.

use meerkat_sandbox::Profile;

use crate::support::{Scene, profiles};

/// A name, a script, and its output.
const USES: [(&str, &str, &str); 19] = [
    (
        "compile and run at once",
        "printf 'int main(){return 0;}' > src/a.c && for i in 1 2 3 4 5; do gcc -o a src/a.c && ./a || exit 1; done; echo ok",
        "ok\n",
    ),
    (
        "commit",
        "git config --global --add safe.directory '*' 2>/dev/null; \
         export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=a GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=b; \
         git add readme && git commit -qm first && git mv readme other && git commit -qm second && git log --format=%s && git status --short other",
        "second\nfirst\n",
    ),
    (
        "process pool",
        "python3 -c 'import multiprocessing as m\nwith m.Pool(3) as p: print(sum(p.map(abs, range(100))))'",
        "4950\n",
    ),
    ("FIFO", "mkfifo f && (echo through > f &) && cat f", "through\n"),
    (
        "FIFO with waiting reader",
        "mkfifo f; (cat f > got) & sleep 0.2; echo late > f; wait; cat got",
        "late\n",
    ),
    ("temporary files", "f=$(mktemp) && echo x > $f && cat $f && rm $f && mktemp -d > /dev/null", "x\n"),
    (
        "own Unix socket",
        "python3 -c 'import socket,os\ns=socket.socket(socket.AF_UNIX);s.bind(\"s\");s.listen()\nc=socket.socket(socket.AF_UNIX);c.connect(\"s\");a,_=s.accept();c.sendall(b\"hi\");print(a.recv(2).decode())'",
        "hi\n",
    ),
    (
        "metadata in the workspace",
        "chmod 600 readme && touch -d 2001-01-01 readme && mkdir -p a/b/c && ln -s ../readme a/l && ln readme a/h && mv a z && rm -r z/b && stat -c '%a %Y' readme && cat z/l",
        "600 978307200\nhello",
    ),
    (
        "modes of new files",
        "umask 027; echo > a; mkdir b; umask 077; mkfifo c; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"d\")'; stat -c %a a b c d",
        "640\n750\n600\n700\n",
    ),
    (
        "own processes",
        "sleep 1000 & kill $!; wait $! 2>/dev/null; echo $?; renice -n 5 -p $$ >/dev/null && prlimit --pid $$ --nofile=64:64 \
         && python3 -c 'import os, subprocess; os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0)); \
         p = subprocess.Popen([\"sleep\", \"1000\"], start_new_session=True); os.killpg(p.pid, 9); print(p.wait())'",
        "143\n-9\n",
    ),
    (
        "forks while children exit",
        "i=0; while [ $i -lt 150 ]; do /bin/true & /bin/true | /bin/true || exit 1; i=$((i+1)); done; wait; echo $i",
        "150\n",
    ),
    (
        "redirects while children exit",
        "i=0; while [ $i -lt 150 ]; do /bin/true & echo x > f || exit 1; i=$((i+1)); done; wait; echo $i",
        "150\n",
    ),
    (
        "many threads",
        "python3 -c 'import threading\nt=[threading.Thread(target=lambda:[open(\"readme\").read() for _ in range(50)]) for _ in range(16)]\n[x.start() for x in t];[x.join() for x in t];print(1)'",
        "1\n",
    ),
    ("search", "grep -rls hello . || true", "./readme\n"),
    (
        "own process files",
        "cat /proc/self/comm /dev/fd/0 < /dev/null; echo x | cat /dev/stdin; cat /proc/$$/comm",
        "cat\nx\nsh\n",
    ),
    ("pipes to a descriptor", "echo y > /dev/stdout; echo z | tee /dev/stderr 2>/dev/null", "y\nz\n"),
    ("output that nobody reads ends a program", "while :; do echo y; done | head -1", "y\n"),
    (
        "directories of the temporary directory are moved",
        "mkdir -p $TMPDIR/d/e && echo x > $TMPDIR/d/e/f && mv $TMPDIR/d d && cat d/e/f && mv d $TMPDIR/g && cat $TMPDIR/g/e/f",
        "x\nx\n",
    ),
    (
        "own secrets",
        "echo A=1 > .env.mine && cat .env.mine && cp .env.example .env.two && mv .env.two .env.three && cat .env.three",
        "A=1\nTOKEN=",
    ),
];

#[test]
fn ordinary_uses_work_in_every_profile() {
    for profile in profiles().iter().copied() {
        for (name, script, expected) in USES {
            let scene = Scene::new();
            scene.init_git();
            let outcome = scene.run(profile, script);
            assert_eq!((outcome.code, &*outcome.output), (0, expected), "{name}, {profile:?}: {outcome:?}");
        }
    }
}

#[test]
fn own_loopback_works_in_a_namespace() {
    let server = "import socket,threading\ns=socket.socket();s.bind((\"127.0.0.1\",0));s.listen()\n\
        t=threading.Thread(target=lambda:s.accept()[0].sendall(b\"hi\"));t.start()\n\
        print(socket.create_connection(s.getsockname(),5).recv(2).decode());t.join()";
    for profile in profiles().iter().filter(|profile| **profile != Profile::Landlock) {
        let outcome = Scene::new().run(*profile, &format!("python3 -c '{server}'"));
        assert_eq!((outcome.code, &*outcome.output), (0, "hi\n"), "{profile:?}: {outcome:?}");
    }
}
