use super::*;
use crate::machine_config::api::machine_config::ROLE_LABEL;
use crate::machine_config::render::{Defaults, render};
use serde_json::json;

fn input(name: &str, spec: Value) -> MachineConfig {
    let mut input = MachineConfig::new(name, serde_json::from_value(spec).unwrap());
    input.metadata.labels = Some([(ROLE_LABEL.to_owned(), "worker".to_owned())].into());
    input
}

/// A MachineConfig with these sections of Ignition.
fn ignition(name: &str, sections: Value) -> MachineConfig {
    let mut config = json!({"ignition": {"version": "3.5.0"}});
    for (key, value) in sections.as_object().unwrap() {
        match config.get_mut(key) {
            Some(Value::Object(section)) => section.extend(value.as_object().unwrap().clone()),
            _ => drop(config.as_object_mut().unwrap().insert(key.clone(), value.clone())),
        }
    }
    input(name, json!({"config": config}))
}

/// Checks the way from what the first inputs are rendered to, to that of the second ones.
fn check_all(
    old: &[MachineConfig],
    new: &[MachineConfig],
    overrides: &[StorageOverride],
) -> Result<(), ReconcileError> {
    let of = |inputs| render("worker", inputs, &Defaults::default()).unwrap().spec;
    check(("rendered-old", &of(old)), ("rendered-new", &of(new)), new, &overrides.iter().copied().collect())
}

/// The refusals of a change from the base to the base and this input, without what they all begin with.
fn refused(sections: Value) -> String {
    let base = ignition("00-base", json!({}));
    let error = check_all(std::slice::from_ref(&base), &[base.clone(), ignition("50-new", sections)], &[]).unwrap_err();
    let error = error.to_string();
    let rest = error.strip_prefix("running nodes cannot be taken from rendered-old to rendered-new: ");
    rest.unwrap_or(&error).to_owned()
}

fn accepted(old: Value, new: Value) {
    check_all(&[ignition("00-base", old)], &[ignition("00-base", new)], &[]).unwrap();
}

#[test]
fn files_units_keys_and_passwords_can_change() {
    accepted(
        json!({
            "storage": {"files": [{"path": "/a"}, {"path": "/b"}], "links": [{"path": "/l", "target": "/m"}]},
            "systemd": {"units": [{"name": "a.service"}]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a"]}]},
        }),
        json!({
            "storage": {"files": [{"path": "/a", "mode": 384}, {"path": "/c"}]},
            "systemd": {"units": [{"name": "a.service", "enabled": true}, {"name": "b.service"}]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["b"], "passwordHash": "x"}]},
        }),
    );
    let users = json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a"]}]}});
    accepted(users.clone(), json!({}));
    accepted(json!({}), users);
}

#[test]
fn the_operating_system_the_kernel_and_its_arguments_can_change() {
    let new = json!({"kernelArguments": ["a"], "kernelType": "realtime", "extensions": ["ipsec"], "osImageURL": "a@b"});
    check_all(&[input("00", json!({}))], &[input("00", new)], &[]).unwrap();
}

#[test]
fn what_is_set_up_at_the_first_boot_is_refused_with_the_input_that_brings_it() {
    let kept = "and running nodes keep";
    let way_out = "they were installed with; remove it, or add new nodes to a new pool";
    for (sections, expected) in [
        (
            json!({"storage": {"disks": [{"device": "/dev/sdb", "wipeTable": true}]}}),
            format!(
                "storage.disks[/dev/sdb] is added, {kept} the disks {way_out}, or allow it with Disks in \
                 irreconcilableValidationOverrides of the MachineConfiguration"
            ),
        ),
        (
            json!({"storage": {"filesystems": [{"device": "/dev/sdb", "path": "/var"}]}}),
            format!(
                "storage.filesystems[/dev/sdb] is added, {kept} the file systems {way_out}, or allow it with FileSystems in \
                 irreconcilableValidationOverrides of the MachineConfiguration"
            ),
        ),
        (
            json!({"storage": {"raid": [{"name": "data", "level": "raid1"}]}}),
            format!(
                "storage.raid[data] is added, {kept} the RAID arrays {way_out}, or allow it with Raid in \
                 irreconcilableValidationOverrides of the MachineConfiguration"
            ),
        ),
        (
            json!({"storage": {"luks": [{"name": "data"}]}}),
            format!("storage.luks[data] is added, {kept} the encrypted volumes {way_out}"),
        ),
        (
            json!({"storage": {"directories": [{"path": "/a"}]}}),
            format!("storage.directories[/a] is added, {kept} the directories {way_out}"),
        ),
        (
            json!({"passwd": {"groups": [{"name": "a"}]}}),
            format!("passwd.groups[a] is added, {kept} the groups {way_out}"),
        ),
        (
            json!({"kernelArguments": {"shouldExist": ["a"]}}),
            format!(
                "kernelArguments is added, {kept} the kernel arguments of Ignition (kernelArguments of a MachineConfig can \
                 change) {way_out}"
            ),
        ),
        (
            json!({"ignition": {"timeouts": {"httpTotal": 5}}}),
            format!("ignition.timeouts is added, {kept} the timeouts of Ignition {way_out}"),
        ),
    ] {
        assert_eq!(refused(sections), format!("MachineConfig 50-new: {expected}"));
    }
}

#[test]
fn links_appended_contents_and_other_users_are_refused_with_the_input_that_brings_them() {
    for (sections, expected) in [
        (
            json!({"storage": {"links": [{"path": "/a", "target": "/b"}]}}),
            "storage.links[/a] is added or changed, and running nodes can only lose links; remove it, or create it by a unit",
        ),
        (
            json!({"storage": {"files": [{"path": "/a", "append": [{"source": "data:,a"}]}]}}),
            "storage.files[/a] appends to a file, and nothing tells afterwards what of the file was there before; write the \
             whole contents",
        ),
        (
            json!({"storage": {"files": [{"path": "/run/machine-config-daemon-force"}]}}),
            "storage.files[/run/machine-config-daemon-force] asks a node to write everything anew, which is for an \
             administrator on the node; remove it",
        ),
        (
            json!({"passwd": {"users": [{"name": "admin", "sshAuthorizedKeys": ["a"]}]}}),
            "passwd.users[admin] is another user than core, the only one that can be changed on running nodes; remove the entry",
        ),
        (
            json!({"passwd": {"users": [{"name": "core"}]}}),
            "passwd.users[core] has neither sshAuthorizedKeys nor passwordHash, so that nobody could log in; set one of them",
        ),
        (
            json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["a"], "shell": "/bin/sh"}]}}),
            "passwd.users[core] sets shell, and only sshAuthorizedKeys and passwordHash can be changed on running nodes; \
             remove it",
        ),
    ] {
        assert_eq!(refused(sections), format!("MachineConfig 50-new: {expected}"));
    }
}

#[test]
fn fips_cannot_change_and_old_and_new_are_named_in_this_order() {
    let (off, on) = (input("00", json!({})), input("50-fips", json!({"fips": true})));
    assert_eq!(
        check_all(std::slice::from_ref(&off), &[off.clone(), on.clone()], &[]).unwrap_err().to_string(),
        "running nodes cannot be taken from rendered-old to rendered-new: MachineConfig 50-fips: fips changes from false to \
         true, and it is set when a node is installed; set it back to false"
    );
    assert_eq!(
        check_all(&[off.clone(), on], &[off], &[]).unwrap_err().to_string(),
        "running nodes cannot be taken from rendered-old to rendered-new: fips changes from true to false, and it is set when \
         a node is installed; set it back to true (no MachineConfig of the pool sets it any more)"
    );
}

#[test]
fn an_override_exempts_its_own_kind_of_storage_only() {
    let old = [ignition("00", json!({}))];
    let disk = ignition("50-disk", json!({"storage": {"disks": [{"device": "/dev/sdb", "wipeTable": true}]}}));
    let raid = ignition("60-raid", json!({"storage": {"raid": [{"name": "data", "level": "raid1"}]}}));
    let new = [old[0].clone(), disk, raid];
    check_all(&old, &new[..2], &[StorageOverride::Disks]).unwrap();
    check_all(&old, &new, &[StorageOverride::Disks, StorageOverride::Raid]).unwrap();
    for (overrides, guilty) in
        [(&[StorageOverride::Disks][..], &["60-raid"][..]), (&[StorageOverride::FileSystems], &["50-disk", "60-raid"])]
    {
        let Err(ReconcileError::Refused { guilt, .. }) = check_all(&old, &new, overrides) else { panic!() };
        let inputs: Vec<_> = guilt.iter().filter_map(|guilt| guilt.input.as_deref()).collect();
        assert_eq!(inputs, guilty);
    }
}

#[test]
fn an_input_that_repeats_what_nodes_have_is_not_guilty() {
    let disk = |wipe: bool| json!({"storage": {"disks": [{"device": "/dev/sdb", "wipeTable": wipe}]}});
    let old = [ignition("10-disk", disk(true))];
    let new = [old[0].clone(), ignition("20-same", disk(true)), ignition("30-other", disk(false))];
    let error = check_all(&old, &new, &[]).unwrap_err().to_string();
    assert!(error.contains(": MachineConfig 30-other: storage.disks[/dev/sdb] is changed, "), "{error}");
}

#[test]
fn what_is_removed_is_refused_without_a_guilty_input() {
    let disk = ignition("10-disk", json!({"storage": {"disks": [{"device": "/dev/sdb", "wipeTable": true}]}}));
    let error = check_all(&[ignition("00", json!({})), disk], &[ignition("00", json!({}))], &[]).unwrap_err();
    let Some((_, text)) = error.to_string().split_once("rendered-new: ").map(|(a, b)| (a.to_owned(), b.to_owned()))
    else {
        panic!()
    };
    assert_eq!(
        text,
        "storage.disks[/dev/sdb] is removed, and running nodes keep the disks they were installed with; bring it back, or \
         allow it with Disks in irreconcilableValidationOverrides of the MachineConfiguration (no MachineConfig of the pool \
         sets it any more)"
    );
}

#[test]
fn an_input_that_contradicts_the_old_configuration_is_guilty_of_what_it_brings_only() {
    let disk = json!({"storage": {"files": [{"path": "/a"}], "disks": [{"device": "/dev/sdb", "wipeTable": true}]}});
    let below = json!({"storage": {"files": [{"path": "/a/b"}], "directories": [{"path": "/d"}]}});
    let Err(ReconcileError::Refused { guilt, .. }) = check_all(&[ignition("00", disk)], &[ignition("50", below)], &[])
    else {
        panic!()
    };
    let found: Vec<_> = guilt.iter().map(|guilt| (guilt.refusal.field.as_str(), guilt.input.as_deref())).collect();
    assert_eq!(found, [("storage.disks[/dev/sdb]", None), ("storage.directories[/d]", Some("50"))]);
}

#[test]
fn users_that_nodes_have_may_stay_as_they_are() {
    let users = json!({"passwd": {"users": [{"name": "admin", "shell": "/bin/sh"}]}});
    accepted(users.clone(), users.clone());
    accepted(users, json!({}));
}

#[test]
fn a_link_may_stay_as_it_is_and_not_lead_elsewhere() {
    let link = |target: &str| json!({"storage": {"links": [{"path": "/a", "target": target}]}});
    accepted(link("/b"), link("/b"));
    let error = check_all(&[ignition("00", link("/b"))], &[ignition("00", link("/c"))], &[]).unwrap_err();
    assert!(error.to_string().contains("MachineConfig 00: storage.links[/a] is added or changed"), "{error}");
}

#[test]
fn many_refusals_are_cut_short() {
    let directories: Vec<_> = (0..8).map(|at| json!({"path": format!("/{at}")})).collect();
    let text = refused(json!({"storage": {"directories": directories}}));
    assert!(text.contains("[/4]") && !text.contains("[/5]") && text.ends_with("; and 3 more"), "{text}");
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let good = MachineConfigSpec::default();
    let bad = MachineConfigSpec { config: json!([]), ..MachineConfigSpec::default() };
    let error = check(("rendered-old", &bad), ("rendered-new", &good), &[], &BTreeSet::new()).unwrap_err();
    assert!(error.to_string().starts_with("cannot read the Ignition configuration of rendered-old: config is a list"));
}
