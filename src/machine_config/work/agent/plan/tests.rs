use super::*;
use crate::machine_config::api::machine_config::MachineConfigSpec;
use serde_json::{Value, json};

fn config(name: &str, spec: Value) -> MachineConfig {
    MachineConfig::new(name, serde_json::from_value::<MachineConfigSpec>(spec).unwrap())
}

fn planned(old: Value, new: Value, configuration: Option<&Value>) -> Result<Planned, Plan> {
    let record = Record { target: Target::new("old"), config: config("old", old) };
    let given = Given {
        settings: Settings::of(configuration).unwrap(),
        system: System::Plain,
        forced: false,
        repairs: Repairs::default(),
        lacking: BTreeSet::new(),
    };
    plan(&record, config("new", new), &Target::new("new"), &given)
}

fn file(path: &str, content: &str) -> Value {
    let file = json!({"path": path, "contents": {"source": format!("data:,{content}")}});
    json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}}})
}

#[test]
fn policies_of_administrators_decide_what_a_change_disrupts() {
    let restarts = planned(json!({}), file("/etc/app/x", "1"), None).unwrap();
    assert!(restarts.reboots && restarts.drains);
    let actions = json!([{"type": "Restart", "restart": {"serviceName": "app.service"}}]);
    let configuration =
        json!({"spec": {"nodeDisruptionPolicy": {"files": [{"path": "/etc/app", "actions": actions}]}}});
    let planned = planned(json!({}), file("/etc/app/x", "1"), Some(&configuration)).unwrap();
    assert!(!planned.reboots && !planned.drains);
    assert_eq!(planned.actions, [crate::machine_config::disruption::Action::Restart("app.service".into())]);
}

#[test]
fn policies_that_cannot_be_read_say_so() {
    let of = |policy: Value| Settings::of(Some(&json!({"spec": {"nodeDisruptionPolicy": policy}}))).unwrap_err();
    assert!(of(json!({"files": 3})).to_string().starts_with("cannot read spec.nodeDisruptionPolicy"));
    let unknown = of(json!({"files": [{"path": "/a", "actions": [{"type": "Explode"}]}]})).to_string();
    assert!(unknown.contains("Explode"), "{unknown}");
}

#[test]
fn plain_operating_system_is_given_files_only() {
    let new = json!({"osImageURL": "registry/os@sha256:1", "kernelArguments": ["quiet"]});
    let Err(Plan::Unreconcilable(cause)) = planned(json!({}), new.clone(), None) else { panic!("planned") };
    assert!(cause.starts_with("the MachineConfig changes osImageURL, kernelArguments, and"), "{cause}");
    assert!(planned(new.clone(), new, None).is_ok(), "what does not change need not be understood");
}

#[test]
fn change_that_no_running_node_follows_names_its_field_and_what_allows_it() {
    let disks = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"disks": [{"device": "/dev/sdb"}]}}});
    let Err(Plan::Unreconcilable(cause)) = planned(json!({}), disks.clone(), None) else { panic!("planned") };
    assert!(cause.contains("MachineConfig new: storage.disks[/dev/sdb] is added"), "{cause}");
    let allowed = json!({"spec": {"irreconcilableValidationOverrides": {"storage": ["Disks"]}}});
    assert!(planned(json!({}), disks, Some(&allowed)).is_ok());
}
