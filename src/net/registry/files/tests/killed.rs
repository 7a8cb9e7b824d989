//! What processes leave behind that are killed while they write.

use super::super::super::partial::remove_abandoned;
use super::*;

#[tokio::test]
async fn what_a_killed_process_has_left_is_not_used_again() {
    let fake = Fake::start().await;
    let (image, layers) = built(&[archive("configs/a=1")], Pack::Plain);
    let place = pushed(&fake, &image, layers).await;
    let folder = tempfile::tempdir().unwrap();
    // Of the same process, as they all have one id in containers, and perhaps of one that is about to write the same.
    let id = std::process::id();
    for number in 0..1000 {
        let tree = folder.path().join(format!("out.v2.partial-{id}-{number}/tree/configs"));
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("old"), "x").unwrap();
    }
    let to = folder.path().join("out.v2");
    write(&place, &image, &["configs"], &to, &LIMITS).await.unwrap();
    assert_eq!(found(&to), ["configs/a=1"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1001);
    fs::create_dir(folder.path().join("out.v3.partial-1-1")).unwrap();
    fs::remove_dir_all(&to).unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    write(&place, &image, &["configs"], &to, &Limits { time: Duration::from_secs(1), ..LIMITS }).await.unwrap();
    assert_eq!(found(folder.path()), ["out.v2/configs/a=1", "out.v3.partial-1-1/"]);
    let error = write(&place, &image, &["configs"], Path::new(""), &LIMITS).await.unwrap_err().to_string();
    assert!(error.contains("the folder needs a name of its own"), "{error}");
}

#[test]
fn what_killed_processes_have_left_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (left, kept) = (folder.path().join("sha256-1.partial-7-0"), folder.path().join("partial-names.d"));
    fs::create_dir_all(left.join("content")).unwrap();
    fs::write(left.join("content/1"), "x").unwrap();
    fs::create_dir(&kept).unwrap();
    remove_abandoned(folder.path(), Duration::from_secs(60));
    assert!(left.exists());
    remove_abandoned(folder.path(), Duration::ZERO);
    assert!(!left.exists() && kept.exists());
}
