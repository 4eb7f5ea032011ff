//! More connections than the system allows by default: the server raises the limit, and serves clients.

use std::io::Write as _;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::http_access::assert_serves;
use super::support::TestEnv;
use super::web::Web;

/// Number of idle connections that the server must handle.
const CONNECTIONS: u64 = 10_000;
/// Files that this process and the server need in addition to connections, and that concurrent tests use.
const OTHER_FILES: u64 = 2_000;

#[test]
fn idle_connections_do_not_lock_out_clients() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let count = maximum.unwrap_or(u64::MAX).saturating_sub(OTHER_FILES).min(CONNECTIONS);
    let env = TestEnv::new();
    // The server starts with a low file limit, as on many systems, and must raise it.
    let mut server = env.limited("-Sn 256", &["--realm", "test", "--http", "127.0.0.1:0"]);
    let web = Web::spawn(&env, &mut server);
    let mut idle: Vec<_> = (0..count).map(|_| web.connect()).collect();
    // Some have started to send a request.
    for stream in idle.iter_mut().step_by(3) {
        // A connection that has been idle for too long is closed, which is also correct.
        let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: ");
    }
    assert_serves(&web);
    drop(idle);
    assert_serves(&web);
}
