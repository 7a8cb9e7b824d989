use super::super::changes::{Change, FileChange, ListChange, UnitChange, changes};
use super::*;
use crate::machine_config::api::machine_config::MachineConfigSpec;
use crate::machine_config::ignition::Owner;
use serde_json::{Value, json};

fn state(text: &str) -> Option<FileState> {
    let owner = Owner::default();
    Some(FileState { contents: text.as_bytes().into(), mode: 0o644, user: owner.clone(), group: owner })
}

/// These files change from one text to another.
fn files(paths: &[&str]) -> Changes {
    let change = |path: &&str| FileChange { path: (*path).to_owned(), old: state("a"), new: state("b") };
    Changes { files: paths.iter().map(change).collect(), ..Changes::default() }
}

fn units(names: &[&str]) -> Changes {
    let change = |name: &&str| UnitChange { name: (*name).to_owned(), old: None, new: None };
    Changes { units: names.iter().map(change).collect(), ..Changes::default() }
}

fn policies(user: Value) -> Result<Policies, PolicyError> {
    Policies::new(&serde_json::from_value(user).unwrap())
}

/// `reboot`, or what is done, with `drain` before it if pods leave.
fn outcome(changes: &Changes, policies: &Policies) -> String {
    let found = disruption(changes, policies, false);
    assert!(!found.reboots || found.drains && found.actions.is_empty(), "{found:?}");
    let mut words: Vec<String> = Vec::new();
    words.extend((found.drains && !found.reboots).then(|| "drain".to_owned()));
    words.extend(found.reboots.then(|| "reboot".to_owned()));
    words.extend(found.actions.iter().map(Action::to_string));
    words.join(", ")
}

fn built_in(changes: &Changes) -> String {
    outcome(changes, &Policies::default())
}

#[test]
fn nothing_follows_no_change() {
    assert_eq!(disruption(&Changes::default(), &Policies::default(), false), Disruption::default());
}

#[test]
fn known_files_are_followed_by_what_reads_them() {
    for (path, expected) in [
        ("/var/lib/kubelet/config.json", ""),
        ("/etc/nmstate/openshift/cluster.yml", ""),
        ("/etc/machine-config-daemon/no-reboot/containers-gpg.pub", "Reload crio.service"),
        ("/etc/containers/policy.json", "Reload crio.service"),
        ("/etc/containers/registries.d/a.yaml", "Reload crio.service"),
        ("/etc/crio/policies/a.json", "Reload crio.service"),
        (
            "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
            "Restart coreos-update-ca-trust.service, Restart crio.service",
        ),
        ("/etc/pki/ca-trust/source/anchors/iri-root-ca.crt", "Restart coreos-update-ca-trust.service"),
        ("/etc/kubernetes/credential-providers/ecr.yaml", "Restart kubelet.service"),
        (
            "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf",
            "DaemonReload, Restart kubelet.service",
        ),
        ("/etc/iri-registry/config", "Restart iri-registry.service"),
        ("/usr/local/bin/load-registry-image.sh", "Restart iri-registry.service"),
    ] {
        assert_eq!(built_in(&files(&[path])), expected, "{path}");
    }
    assert_eq!(built_in(&units(&["iri-registry.service"])), "DaemonReload, Restart iri-registry.service");
}

#[test]
fn keys_and_passwords_are_followed_by_nothing() {
    let keys = Changes { ssh_keys: Some(Change { old: Vec::new(), new: vec!["a".to_owned()] }), ..Changes::default() };
    let password = Changes { password: true, ..Changes::default() };
    assert_eq!((built_in(&keys).as_str(), built_in(&password).as_str()), ("", ""));
    let restarting =
        policies(json!({"sshkey": {"actions": [{"type": "Restart", "restart": {"serviceName": "sshd.service"}}]}}))
            .unwrap();
    assert_eq!(outcome(&keys, &restarting), "Restart sshd.service");
}

#[test]
fn whatever_no_policy_covers_is_followed_by_a_reboot() {
    for changes in [
        files(&["/etc/unknown"]),
        files(&["/etc/containers/policy.json.bak"]),
        files(&["/etc/crio/policiesx"]),
        files(&["/etc/containers/policy.json", "/etc/unknown"]),
        units(&["unknown.service"]),
        units(&["iri-registry.service", "kubelet.service"]),
        Changes { links_removed: vec!["/etc/a".to_owned()], ..Changes::default() },
    ] {
        assert_eq!(built_in(&changes), "reboot", "{changes:?}");
    }
}

#[test]
fn what_a_running_system_cannot_take_over_is_followed_by_a_reboot() {
    let text = || Some(Change { old: "a".to_owned(), new: "b".to_owned() });
    let list = || Some(ListChange { removed: Vec::new(), added: vec!["a".to_owned()] });
    let none = policies(json!({"files": [{"path": "/", "actions": [{"type": "None"}]}]})).unwrap();
    for (changes, what) in [
        (Changes { os_image: text(), ..Changes::default() }, "the operating system"),
        (Changes { extensions_image: text(), ..Changes::default() }, "the extensions image"),
        (Changes { kernel_arguments: list(), ..Changes::default() }, "kernel arguments"),
        (Changes { kernel_type: text(), ..Changes::default() }, "the kernel type"),
        (Changes { extensions: list(), ..Changes::default() }, "extensions"),
        (Changes { fips: Some(Change { old: false, new: true }), ..Changes::default() }, "FIPS mode"),
    ] {
        let found = disruption(&changes, &none, false);
        assert!(found.reboots && found.drains, "{what}");
        assert_eq!(found.causes, [(what.to_owned(), vec![Action::Reboot])]);
    }
    let forced = disruption(&Changes::default(), &none, true);
    assert!(forced.reboots);
    assert_eq!(forced.causes, [("the force file".to_owned(), vec![Action::Reboot])]);
}

#[test]
fn the_policy_of_the_longest_path_counts() {
    let restart = |name: &str| json!([{"type": "Restart", "restart": {"serviceName": name}}]);
    let policies = policies(json!({"files": [
        {"path": "/etc/app", "actions": restart("outer.service")},
        {"path": "/etc/app/inner/", "actions": restart("inner.service")},
        {"path": "/etc/app/inner/file", "actions": [{"type": "Reboot"}]},
        {"path": "/", "actions": [{"type": "None"}]},
    ]}))
    .unwrap();
    for (path, expected) in [
        ("/etc/app", "Restart outer.service"),
        ("/etc/app/a/b", "Restart outer.service"),
        ("/etc/app/inner/a", "Restart inner.service"),
        ("/etc/app/inner/file", "reboot"),
        ("/etc/application", ""),
    ] {
        assert_eq!(outcome(&files(&[path]), &policies), expected, "{path}");
    }
}

#[test]
fn a_policy_of_the_administrator_replaces_the_built_in_one_with_the_same_path_or_name() {
    let policies = policies(json!({
        "files": [{"path": "/etc/containers/policy.json", "actions": [{"type": "Drain"}, {"type": "Restart", "restart": {"serviceName": "crio.service"}}]}],
        "units": [{"name": "iri-registry.service", "actions": [{"type": "None"}]}],
    }))
    .unwrap();
    assert_eq!(outcome(&files(&["/etc/containers/policy.json"]), &policies), "drain, Restart crio.service");
    assert_eq!(outcome(&units(&["iri-registry.service"]), &policies), "DaemonReload");
    assert_eq!(outcome(&files(&["/etc/crio/policies/a"]), &policies), "Reload crio.service");
}

#[test]
fn nothing_beside_another_action_is_no_action() {
    let both = files(&["/etc/nmstate/openshift/a", "/etc/containers/policy.json"]);
    assert_eq!(built_in(&both), "Reload crio.service");
}

#[test]
fn actions_are_done_once_units_read_first_and_restarts_in_place_of_reloads() {
    let all = files(&[
        "/etc/containers/policy.json",
        "/etc/crio/policies/a.json",
        "/etc/kubernetes/credential-providers/a",
        "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
        "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf",
    ]);
    assert_eq!(
        built_in(&all),
        "DaemonReload, Restart kubelet.service, Restart coreos-update-ca-trust.service, Restart crio.service"
    );
}

#[test]
fn pods_leave_for_a_change_of_the_registries_only_if_it_is_not_safe() {
    let registries = |old: &str, new: &str| {
        let change = FileChange { path: REGISTRIES.to_owned(), old: state(old), new: state(new) };
        Changes { files: vec![change], ..Changes::default() }
    };
    let (one, two) = ("unqualified-search-registries = [\"a\"]", "unqualified-search-registries = [\"a\", \"b\"]");
    let safe = disruption(&registries(one, two), &Policies::default(), false);
    assert_eq!((safe.drains, safe.reboots, &safe.actions), (false, false, &vec![reload(CRIO)]));
    let unsafe_ = disruption(&registries(two, one), &Policies::default(), false);
    assert_eq!((unsafe_.drains, unsafe_.reboots, &unsafe_.actions), (true, false, &vec![reload(CRIO)]));
    assert_eq!(unsafe_.causes, [(format!("file {REGISTRIES}"), vec![Action::Drain, reload(CRIO)])]);
    let removed = FileChange { path: REGISTRIES.to_owned(), old: state(two), new: None };
    assert!(disruption(&Changes { files: vec![removed], ..Changes::default() }, &Policies::default(), false).drains);
}

#[test]
fn a_changed_file_of_a_configuration_is_followed_by_its_policy_without_a_drain() {
    let spec = |source: &str| MachineConfigSpec {
        config: json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [
            {"path": "/etc/containers/policy.json", "contents": {"source": source}},
            {"path": "/etc/unknown", "contents": {"source": "data:,same"}},
        ]}}),
        ..MachineConfigSpec::default()
    };
    let changes = changes(&spec("data:,a"), &spec("data:,b")).unwrap();
    let found = disruption(&changes, &Policies::default(), false);
    assert_eq!((found.drains, found.reboots, found.actions), (false, false, vec![reload(CRIO)]));
    assert_eq!(found.causes, [("file /etc/containers/policy.json".to_owned(), vec![reload(CRIO)])]);
}

#[test]
fn policies_that_make_no_sense_are_refused() {
    let path = |actions: Value| json!({"files": [{"path": "/etc/a", "actions": actions}]});
    for (user, expected) in [
        (
            path(json!([{"type": "Special"}])),
            "nodeDisruptionPolicy of path /etc/a: the action type \"Special\" does not exist; use Reboot, Drain, Reload, \
             Restart, DaemonReload or None",
        ),
        (
            path(json!([{"type": "Restart"}])),
            "nodeDisruptionPolicy of path /etc/a: Restart has no serviceName; name the service, such as crio.service",
        ),
        (
            path(json!([{"type": "Reload", "restart": {"serviceName": "a.service"}}])),
            "nodeDisruptionPolicy of path /etc/a: Reload has no serviceName; name the service, such as crio.service",
        ),
        (
            json!({"units": [{"name": "a.service", "actions": [{"type": "None"}, {"type": "Drain"}]}]}),
            "nodeDisruptionPolicy of unit a.service: None has other actions beside it; keep it alone, or remove it",
        ),
        (
            json!({"sshkey": {"actions": []}}),
            "nodeDisruptionPolicy of sshkey has no action; write None if nothing is to be done",
        ),
    ] {
        assert_eq!(policies(user).unwrap_err().to_string(), expected);
    }
}

#[test]
fn units_that_change_are_read_again_whatever_the_policy_says() {
    let none = json!([{"type": "None"}]);
    let restart = json!([{"type": "Restart", "restart": {"serviceName": "a.service"}}]);
    let of_unit = |actions: &Value| policies(json!({"units": [{"name": "a.service", "actions": actions}]})).unwrap();
    assert_eq!(outcome(&units(&["a.service"]), &of_unit(&none)), "DaemonReload");
    assert_eq!(outcome(&units(&["a.service"]), &of_unit(&restart)), "DaemonReload, Restart a.service");
    let of_file = policies(json!({"files": [{"path": "/etc/systemd", "actions": none}]})).unwrap();
    assert_eq!(outcome(&files(&["/etc/systemd/system/a.service.d/b.conf"]), &of_file), "DaemonReload");
    assert_eq!(outcome(&files(&["/etc/systemd/logind.conf"]), &of_file), "");
    assert_eq!(built_in(&units(&["a.service"])), "reboot");
}

#[test]
fn built_in_policy_whose_service_the_node_lacks_does_not_hold() {
    let lacking = |services: &[&str]| services.iter().map(|&it| it.to_owned()).collect::<BTreeSet<_>>();
    let containerd = lacking(&["crio.service"]);
    let on = |changes: &Changes, policies: &Policies| {
        let found = disruption_on(&containerd, changes, policies, false);
        (found.drains, found.reboots, found.actions)
    };
    let nothing = (false, false, Vec::new());
    // What only CRI-O reads while it runs.
    for path in
        ["/etc/containers/policy.json", "/etc/containers/registries.d/a.yaml", REGISTRIES, "/etc/crio/policies/a"]
    {
        assert_eq!(on(&files(&[path]), &Policies::default()), nothing, "{path}");
    }
    let authority = files(&["/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt"]);
    assert_eq!(on(&authority, &Policies::default()), (true, true, Vec::new()), "whatever runs containers starts anew");
    let found = disruption(&authority, &Policies::default(), false);
    assert_eq!(found.assumed, lacking(&["crio.service", CA_TRUST]));
    let credentials = files(&["/etc/kubernetes/credential-providers/a"]);
    assert!(disruption_on(&lacking(&[KUBELET]), &credentials, &Policies::default(), false).reboots);
    // What administrators say is done, or fails before anything is changed.
    let own = policies(json!({"files": [{"path": "/etc/containers/policy.json", "actions": [
        {"type": "Reload", "reload": {"serviceName": "crio.service"}}]}]}));
    let policy = files(&["/etc/containers/policy.json"]);
    assert_eq!(on(&policy, &own.clone().unwrap()), (false, false, vec![reload(CRIO)]));
    assert_eq!(disruption(&policy, &own.unwrap(), false).assumed, BTreeSet::new());
    assert_eq!(disruption(&files(&["/etc/unknown", REGISTRIES]), &Policies::default(), false).assumed, BTreeSet::new());
}
