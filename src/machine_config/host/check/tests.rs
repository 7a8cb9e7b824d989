use super::*;
use crate::machine_config::host::commands::recorded::Recorded;
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;

/// The deviation of a node with these files from a configuration with these units.
async fn found(files: &[(&str, &str)], units: Value) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match content.strip_prefix("-> ") {
            Some(to) => std::os::unix::fs::symlink(to, path).unwrap(),
            None => fs::write(path, content).unwrap(),
        }
    }
    let recorded = Arc::new(Recorded::default());
    recorded.set_enabled("on.service", true);
    let config = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": units}});
    let ignition = Ignition::read(&config).unwrap().ignition;
    let root = Root::open(dir.path()).unwrap();
    match of_files(&root, &ignition).unwrap() {
        None => of_units(&root, &recorded.commands(), &ignition).await.unwrap(),
        found => found,
    }
}

#[tokio::test]
async fn units_are_compared() {
    const ON: &str = "/etc/systemd/system/on.service";
    const OFF: &str = "/etc/systemd/system/off.service";
    let masked = json!([{"name": "on.service", "mask": true}]);
    assert_eq!(found(&[(ON, "-> /dev/null")], masked.clone()).await, None);
    let expected = "the unit on.service is not masked and should be";
    assert_eq!(found(&[(ON, "")], masked).await.as_deref(), Some(expected));
    let enabled = |name: &str, enabled: bool| json!([{"name": name, "enabled": enabled}]);
    assert_eq!(found(&[(ON, "")], enabled("on.service", true)).await, None);
    assert_eq!(found(&[(OFF, "")], enabled("off.service", false)).await, None);
    assert_eq!(found(&[], enabled("missing.service", true)).await, None, "the node does not have it");
    let expected = "the unit on.service is enabled and should not be";
    assert_eq!(found(&[(ON, "")], enabled("on.service", false)).await.as_deref(), Some(expected));
}

#[tokio::test]
async fn empty_drop_in_need_not_be_there() {
    let drop_in =
        |contents: &str| json!([{"name": "on.service", "dropins": [{"name": "a.conf", "contents": contents}]}]);
    assert_eq!(found(&[], drop_in("")).await, None);
    let expected = "/etc/systemd/system/on.service.d/a.conf is missing";
    assert_eq!(found(&[], drop_in("[Service]")).await.as_deref(), Some(expected));
}
