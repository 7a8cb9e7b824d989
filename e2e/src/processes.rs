//! What holds for every process of the project, whatever its product.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::Cvo;
use crate::until::until;

/// A process ends as soon as it is told to, although it cannot reach the cluster that it begins with. The command is made for an
/// empty folder.
pub async fn assert_ends_when_it_has_only_just_begun(command: impl Fn(&Path) -> Cvo) {
    let folder = std::env::temp_dir().join(format!("cvo-just-begun-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir_all(&folder).unwrap();
    let kubeconfig = folder.join("kubeconfig");
    let text = "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}],\n\
        users: [], contexts: [{name: c, context: {cluster: c, user: ''}}], current-context: c}\n";
    std::fs::write(&kubeconfig, text).unwrap();
    let command = command(&folder).kubeconfig(&kubeconfig);
    let what = format!("{command:?}");
    let mut process = command.start().unwrap().child;
    let id = process.id().unwrap();
    let begun = Instant::now();
    let handles = until("a handler for SIGTERM", Duration::from_secs(20)).end_of(async {
        while !handles_sigterm(id) {
            assert_eq!(process.try_wait().unwrap(), None, "{what}: it ends by itself");
            tokio::task::yield_now().await;
        }
    });
    handles.await.unwrap();
    let ready = begun.elapsed();
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let told = Instant::now();
    let ended = until(format!("{what} to end"), Duration::from_secs(30)).end_of(process.wait());
    let status = ended.await.unwrap().unwrap();
    println!("{what}: a handler after {ready:?}, ended after {:?}", told.elapsed());
    assert!(status.success(), "{what}: {status}");
    assert!(told.elapsed() < Duration::from_secs(5), "{what}: {:?}", told.elapsed());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Whether the process has a handler for SIGTERM, as the kernel says.
fn handles_sigterm(process: u32) -> bool {
    const TERM: u32 = 15;
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (TERM - 1) & 1 == 1)
}
