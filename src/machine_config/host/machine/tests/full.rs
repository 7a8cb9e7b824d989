//! Disks without room.

use super::*;
use crate::machine_config::host::preflight::tests::Small;

#[tokio::test]
async fn disk_that_has_no_room_is_told_before_any_drain() {
    let Some(disk) = Small::mount("size=17m") else { return };
    let mut node = Node::new();
    node.add(machine_config("a", &[], &[]));
    node.add(machine_config("b", &[file("/small/file", &"x".repeat(4 << 20), 0o644)], &[]));
    node.reach("a").await;
    let at = node.dir.path().join("small");
    fs::create_dir(&at).unwrap();
    rustix::mount::mount_bind(disk.path(), &at).unwrap();
    let before = node.tree();
    node.desired = "b".to_owned();
    let machine = node.machine();
    let lived = node.live(&machine).await;
    let after = node.tree();
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::DETACH).unwrap();
    lived.unwrap();
    let told = node.told.last().unwrap();
    assert!(told.starts_with("before anything is changed: the file system of /small/file has"), "{told}");
    assert_eq!((node.drains, after), (0, before));
}

/// Others fill the disk after it was looked at, and while it is written.
#[tokio::test]
async fn disk_that_becomes_full_while_it_is_written_is_restored_bit_by_bit() {
    let Some(disk) = Small::mount("size=8m") else { return };
    // Two of them are larger together than what is reserved: what is new has to go first.
    let large = "a".repeat(900 << 10);
    let old = [file("/etc/a", &large, 0o600), file("/etc/also", &large, 0o600), file("/etc/gone", "x", 0o640)];
    let new = [
        file("/etc/a", "short", 0o644),
        file("/etc/also", "short", 0o644),
        file("/etc/b/b", &"b".repeat(700 << 10), 0o644),
        file("/etc/c", &"c".repeat(5 << 20), 0o644),
    ];
    let mut node = Node { dir: tempfile::tempdir_in(disk.path()).unwrap(), ..Node::new() };
    fs::create_dir(node.dir.path().join("etc")).unwrap();
    fs::create_dir_all(node.dir.path().join("var/lib")).unwrap();
    node.add(machine_config("a", &old, &[]));
    node.add(machine_config("b", &new, &[]));
    let machine = node.machine();
    machine.record_first(&machine_config("a", &old, &[]), None).unwrap();
    for (path, content, mode) in
        [("/etc/a", large.as_str(), 0o600), ("/etc/also", &large, 0o600), ("/etc/gone", "x", 0o640)]
    {
        node.put(path, content, mode);
    }
    node.desired = "b".to_owned();
    let before = node.tree();
    let planned = node.planned(&machine, &node.disk()).await;
    // The journal itself needs room for the configuration, so that what is large is left out of it.
    let planned = Planned { next: machine_config("b", &[], &[]), ..planned };
    let error = machine.apply(&planned, "1").await.unwrap_err().to_string();
    assert!(error.contains("/etc/c") && error.contains("No space left"), "{error}");
    assert_eq!(node.read("/etc/a").as_deref(), Some("short"), "it was being changed");
    // Somebody takes what is left, to the last block.
    let filler = disk.path().join("filler");
    let mut written = fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut written, &[0; 4096]).is_ok() {}
    machine.give_up(&planned.to, &error, "1", Timestamp::UNIX_EPOCH).unwrap();
    machine.roll_back(&node.disk(), "1").await.unwrap();
    assert_eq!(node.tree(), before);
    assert_eq!((node.disk().update, node.disk().failure.unwrap().cause), (None, error));
}
