use super::*;

fn config(sections: Value) -> Value {
    let mut config = json!({"ignition": {"version": "2.2.0"}});
    config.as_object_mut().unwrap().extend(sections.as_object().unwrap().clone());
    config
}

/// The sections as version 3.
fn converted(sections: Value) -> Value {
    let read = Ignition::read(&config(sections)).unwrap();
    assert_eq!(read.warnings, Vec::<String>::new());
    let mut value = read.ignition.value().clone();
    value.as_object_mut().unwrap().remove("ignition");
    value
}

fn error(sections: Value) -> String {
    Ignition::read(&config(sections)).unwrap_err().to_string()
}

#[test]
fn the_last_of_several_files_with_the_same_path_counts() {
    let file = |path: &str, source: &str| json!({"path": path, "filesystem": "root", "contents": {"source": source}});
    let files = [file("/a", "data:,1"), file("/b", "data:,b"), file("/a", "data:,2")];
    assert_eq!(
        converted(json!({"storage": {"files": files}})),
        json!({"storage": {"files": [
            {"path": "/b", "contents": {"source": "data:,b"}}, {"path": "/a", "contents": {"source": "data:,2"}},
        ]}})
    );
}

#[test]
fn contents_that_are_appended_become_a_list() {
    let file = |append: Value| json!({"storage": {"files": [{"path": "/a", "append": append, "contents": {"source": "data:,a"}}]}});
    assert_eq!(
        converted(file(json!(true))),
        json!({"storage": {"files": [{"path": "/a", "append": [{"source": "data:,a"}]}]}})
    );
    assert_eq!(
        converted(file(json!(false))),
        json!({"storage": {"files": [{"path": "/a", "contents": {"source": "data:,a"}}]}})
    );
}

#[test]
fn units_with_the_same_name_share_their_drop_ins() {
    let units = json!([
        {"name": "a.service", "contents": "1", "enable": true, "dropins": [
            {"name": "1.conf", "contents": "1"}, {"name": "2.conf", "contents": "1"},
        ]},
        {"name": "b.service", "enable": true},
        {"name": "a.service", "contents": "2", "dropins": [{"name": "2.conf", "contents": "2"}]},
    ]);
    assert_eq!(
        converted(json!({"systemd": {"units": units}})),
        json!({"systemd": {"units": [
            {"name": "b.service", "enabled": true},
            {"name": "a.service", "contents": "2", "dropins": [
                {"name": "1.conf", "contents": "1"}, {"name": "2.conf", "contents": "2"},
            ]},
        ]}})
    );
}

#[test]
fn entries_for_the_user_core_become_one_with_the_newest_keys_first() {
    let users = json!([
        {"name": "core", "sshAuthorizedKeys": ["a", "b"], "passwordHash": "x"},
        {"name": "core", "sshAuthorizedKeys": ["c", "a"]},
    ]);
    assert_eq!(
        converted(json!({"passwd": {"users": users}})),
        json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["c", "a", "b"], "passwordHash": "x"}]}})
    );
}

#[test]
fn what_has_no_counterpart_is_refused_with_a_way_out() {
    for (sections, expected) in [
        (
            json!({"networkd": {"units": [{"name": "a.network"}]}}),
            "networkd.units cannot be converted from Ignition 2 to 3: write network configuration as files below \
             /etc/NetworkManager/system-connections",
        ),
        (
            json!({"storage": {"disks": [{"device": "/dev/sda"}]}}),
            "storage.disks cannot be converted from Ignition 2 to 3: write the configuration in version 3",
        ),
        (
            json!({"storage": {"filesystems": [{"name": "data", "mount": {"device": "/dev/sda", "format": "xfs"}}]}}),
            "storage.filesystems cannot be converted from Ignition 2 to 3: write the configuration in version 3",
        ),
        (
            json!({"storage": {"files": [{"path": "/a", "filesystem": "data"}]}}),
            "storage.files[/a].filesystem cannot be converted from Ignition 2 to 3: only the file system root can be \
             written to; use the path that the other one is mounted at",
        ),
        (
            json!({"passwd": {"users": [{"name": "admin"}]}}),
            "passwd.users[admin] cannot be converted from Ignition 2 to 3: the only user that can be configured is core; \
             remove the entry",
        ),
        (
            json!({"passwd": {"users": [{"name": "core", "create": {"uid": 5}}]}}),
            "passwd.users[core] cannot be converted from Ignition 2 to 3: create has no counterpart; write its fields into \
             the entry itself",
        ),
        (
            json!({"ignition": {"version": "2.2.0", "config": {"append": [{"source": "http://a"}]}}}),
            "ignition.config.append cannot be converted from Ignition 2 to 3: a node must not need the network; write its \
             contents into a MachineConfig",
        ),
    ] {
        assert_eq!(error(sections), expected);
    }
}

#[test]
fn wrong_types_are_errors_of_their_field() {
    for (sections, expected) in [
        (json!({"systemd": {"units": [5]}}), "systemd.units[0] is a number and has to be an object; correct its value"),
        (
            json!({"systemd": {"units": [{"name": "a.service", "dropins": 5}]}}),
            "systemd.units[a.service].dropins is a number and has to be a list; correct its value",
        ),
        (
            json!({"storage": {"files": [{"path": "/a", "append": "yes"}]}}),
            "storage.files[/a].append is text and has to be a list; correct its value",
        ),
        (
            json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": "a"}]}}),
            "passwd.users[core].sshAuthorizedKeys is text and has to be a list; correct its value",
        ),
        (json!({"storage": 5}), "storage is a number and has to be an object; correct its value"),
    ] {
        assert_eq!(error(sections), expected);
    }
}
