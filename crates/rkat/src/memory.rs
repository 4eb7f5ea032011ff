//! Returns free memory to the system. The allocator of glibc otherwise keeps most of what a load left behind.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "the allocator has no safe interface")
)]

use std::time::Duration;

/// Interval between returns of free memory.
const INTERVAL: Duration = Duration::from_secs(30);

/// Returns free memory to the system at intervals, forever.
pub(crate) async fn trim_forever() {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        let _ = tokio::task::spawn_blocking(trim).await;
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: the function takes no pointers, may be called at any time, and locks the allocator itself.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
