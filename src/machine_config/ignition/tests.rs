mod contents;
mod merging;
mod properties;
mod version2;

use super::*;

/// A configuration of version 3.5.0 with these sections.
fn config(sections: Value) -> Value {
    let mut config = json!({"ignition": {"version": "3.5.0"}});
    config.as_object_mut().unwrap().extend(sections.as_object().unwrap().clone());
    config
}

fn read(sections: Value) -> Ignition {
    Ignition::read(&config(sections)).unwrap().ignition
}

fn error(sections: Value) -> String {
    Ignition::read(&config(sections)).unwrap_err().to_string()
}

fn files(paths: &[&str]) -> Value {
    paths.iter().map(|path| json!({"path": path, "contents": {"source": "data:,"}})).collect()
}

#[test]
fn versions_from_2_0_to_2_2_and_from_3_0_to_3_5_become_3_5_0() {
    for version in ["2.0.0", "2.1.0", "2.2.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0"] {
        let file = json!({"path": "/etc/a", "filesystem": "root", "mode": 420, "contents": {"source": "data:,a"}});
        let read = Ignition::read(&json!({"ignition": {"version": version}, "storage": {"files": [file]}})).unwrap();
        assert_eq!(
            read.ignition.value(),
            &json!({
                "ignition": {"version": "3.5.0"},
                "storage": {"files": [{"path": "/etc/a", "mode": 420, "contents": {"source": "data:,a"}}]},
            }),
            "{version}"
        );
        assert_eq!(read.warnings.is_empty(), version.starts_with('2'), "{version}: {:?}", read.warnings);
    }
}

#[test]
fn an_unknown_version_is_refused_with_those_that_are_known() {
    let cases = [
        (json!("3.6.0"), "\"3.6.0\""),
        (json!("3.6.0-experimental"), "\"3.6.0-experimental\""),
        (json!("2.3.0"), "\"2.3.0\""),
        (json!("3.5.1"), "\"3.5.1\""),
        (json!("1.0.0"), "\"1.0.0\""),
        (json!("three"), "\"three\""),
        (json!(3), "a number"),
        (json!(null), "not set"),
    ];
    for (version, found) in cases {
        let error = Ignition::read(&json!({"ignition": {"version": version}})).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "ignition.version is {found}, and this program reads 2.0.0, 2.1.0, 2.2.0 and 3.0.0 to 3.5.0; \
                 write the configuration in one of these versions"
            )
        );
    }
    let error = Ignition::read(&json!({"storage": {}})).unwrap_err();
    assert!(matches!(error, IgnitionError::Version { .. }), "{error}");
}

#[test]
fn null_and_an_empty_object_are_the_empty_configuration() {
    for value in [Value::Null, json!({}), json!({"ignition": {"version": "3.2.0"}, "storage": {"files": []}})] {
        assert_eq!(Ignition::read(&value).unwrap().ignition, Ignition::empty(), "{value}");
    }
}

#[test]
fn config_that_is_no_object_is_refused() {
    for (value, found) in
        [(json!([]), "a list"), (json!("{}"), "text"), (json!(1), "a number"), (json!(true), "a boolean")]
    {
        assert_eq!(
            Ignition::read(&value).unwrap_err().to_string(),
            format!(
                "config is {found}, and an Ignition configuration is a JSON object; write one, or leave config out"
            )
        );
    }
}

#[test]
fn a_value_of_another_type_is_refused_by_its_field() {
    let cases = [
        (json!({"storage": []}), "storage is a list and has to be an object; correct its value"),
        (json!({"storage": {"files": {}}}), "storage.files is an object and has to be a list; correct its value"),
        (
            json!({"storage": {"files": ["/etc/a"]}}),
            "storage.files[0] is text and has to be an object; correct its value",
        ),
        (
            json!({"storage": {"files": [{"path": "/a", "mode": "0644"}]}}),
            "storage.files[/a].mode is text and has to be an integer; correct its value",
        ),
        (
            json!({"storage": {"files": [{"path": "/a", "mode": 420.5}]}}),
            "storage.files[/a].mode is a number and has to be an integer; correct its value",
        ),
        (
            json!({"systemd": {"units": [{"name": "a.service", "enabled": "yes"}]}}),
            "systemd.units[a.service].enabled is text and has to be true or false; correct its value",
        ),
        (
            json!({"storage": {"files": [{"mode": 420}]}}),
            "storage.files[0].path is missing; set it, or remove the entry",
        ),
        (
            json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [null]}]}}),
            "passwd.users[core].sshAuthorizedKeys[0] is missing; set it, or remove the entry",
        ),
    ];
    for (sections, expected) in cases {
        assert_eq!(error(sections), expected);
    }
}

#[test]
fn what_is_not_set_and_what_is_empty_is_left_out() {
    let value = json!({
        "storage": {
            "files": [{"path": "/etc/a", "mode": null, "user": {}, "append": [], "contents": {"verification": {"hash": null}}}],
            "links": [],
        },
        "passwd": {},
        "systemd": {"units": [{"name": "a.service", "contents": "", "dropins": []}]},
    });
    let expected = json!({
        "storage": {"files": [{"path": "/etc/a"}]},
        "systemd": {"units": [{"name": "a.service", "contents": ""}]},
    });
    assert_eq!(read(value).value(), &config(expected));
}

#[test]
fn fields_that_the_version_does_not_have_are_left_out_with_a_warning() {
    let value = json!({
        "ignition": {"version": "3.2.0"},
        "kernelArguments": {"shouldExist": ["quiet"]},
        "storage": {"fles": [{}], "luks": [{"name": "data", "discard": true}]},
    });
    let read = Ignition::read(&value).unwrap();
    assert_eq!(read.ignition.value(), &config(json!({"storage": {"luks": [{"name": "data"}]}})));
    assert_eq!(
        read.warnings,
        [
            "kernelArguments is ignored: Ignition has it since version 3.3.0; write that in ignition.version",
            "storage.fles is ignored: Ignition has no such field; correct its name",
            "storage.luks[data].discard is ignored: Ignition has it since version 3.4.0; write that in ignition.version",
        ]
    );
}

#[test]
fn paths_that_no_file_of_a_configuration_can_have_are_refused() {
    let long = format!("/{}", "a".repeat(256));
    let cases = [
        ("etc/a", "which is not absolute"),
        ("", "which is not absolute"),
        ("/", "which is the root folder"),
        ("/etc/../proc/a", "which contains .."),
        ("/etc/..", "which contains .."),
        ("/etc//a", "which has an empty part"),
        ("/etc/a/", "which has an empty part"),
        ("/etc/./a", "which has an empty part"),
        ("/etc/a\0b", "which contains a NUL character"),
        ("/proc/sys/kernel/panic", "where the kernel provides all files"),
        ("/sys", "where the kernel provides all files"),
        ("/dev/sda", "where the kernel provides all files"),
        (&long, "which is longer than Linux allows"),
    ];
    for (path, problem) in cases {
        for (list, entry) in [
            ("files", json!({"path": path})),
            ("directories", json!({"path": path})),
            ("links", json!({"path": path, "target": "/etc/b"})),
        ] {
            let error = error(json!({"storage": {list: [entry]}}));
            assert!(
                error.starts_with(&format!("storage.{list}[{path}].path is the path {path:?}, {problem}"))
                    && error.contains("; "),
                "{error}"
            );
        }
    }
    assert_eq!(
        read(json!({"storage": {"files": files(&["/device", "/system/a", "/etc/..a", "/procfs"])}}))
            .config()
            .storage
            .files
            .len(),
        4
    );
}

#[test]
fn a_link_needs_a_target_and_a_hard_link_a_path() {
    for (link, expected) in [
        (json!({"path": "/etc/a"}), "storage.links[/etc/a].target is missing; set it, or remove the entry"),
        (
            json!({"path": "/etc/a", "target": ""}),
            "storage.links[/etc/a].target is missing; set it, or remove the entry",
        ),
        (
            json!({"path": "/etc/a", "target": "../b", "hard": true}),
            "storage.links[/etc/a].target is the path \"../b\", which is not absolute; let it begin with /",
        ),
        (
            json!({"path": "/etc/a", "target": "b\0"}),
            "storage.links[/etc/a].target is the path \"b\\0\", which no file system can contain; correct it",
        ),
    ] {
        assert_eq!(error(json!({"storage": {"links": [link]}})), expected);
    }
    read(json!({"storage": {"links": [{"path": "/etc/a", "target": "../b"}]}}));
}

#[test]
fn a_path_that_is_there_twice_is_refused() {
    assert_eq!(
        error(json!({"storage": {"files": files(&["/etc/a", "/etc/b", "/etc/a"])}})),
        "storage.files contains \"/etc/a\" twice; keep one of the entries"
    );
    assert_eq!(
        error(json!({"storage": {"files": files(&["/etc/a"]), "directories": [{"path": "/etc/a"}]}})),
        "storage (directories, files, links) contains \"/etc/a\" twice; keep one of the entries"
    );
    assert_eq!(
        error(json!({"systemd": {"units": [{"name": "a.service"}, {"name": "a.service"}]}})),
        "systemd.units contains \"a.service\" twice; keep one of the entries"
    );
}

#[test]
fn a_path_below_a_file_or_a_link_is_refused() {
    for list in ["files", "links", "directories"] {
        let mut storage = json!({"files": files(&["/etc/a"])});
        let below = json!({"path": "/etc/a/b/c", "target": "/x"});
        match storage.get_mut(list) {
            Some(Value::Array(entries)) => entries.push(json!({"path": "/etc/a/b/c"})),
            _ => drop(storage.as_object_mut().unwrap().insert(list.to_owned(), json!([below]))),
        }
        assert_eq!(
            error(json!({"storage": storage})),
            format!(
                "storage.{list}[/etc/a/b/c].path is the path \"/etc/a/b/c\", which is below \"/etc/a\", and that is itself \
                 a file or a link; move or remove one of them"
            )
        );
    }
    let link = json!([{"path": "/etc/a", "target": "/etc/c"}]);
    assert!(error(json!({"storage": {"links": link, "files": files(&["/etc/a/b"])}})).contains("below \"/etc/a\""));
    read(json!({"storage": {"files": files(&["/etc/ab", "/etc/a", "/etc/d/e"]), "directories": [{"path": "/etc/d"}]}}));
}

#[test]
fn a_file_that_is_a_unit_or_a_drop_in_as_well_is_refused() {
    let units =
        json!([{"name": "a.service", "contents": "[Unit]", "dropins": [{"name": "b.conf", "contents": "[Unit]"}]}]);
    for path in ["/etc/systemd/system/a.service", "/etc/systemd/system/a.service.d/b.conf"] {
        assert_eq!(
            error(json!({"storage": {"files": files(&[path])}, "systemd": {"units": units}})),
            format!(
                "storage.files[{path}].path is the path {path:?}, which systemd.units writes as well; keep one of them"
            )
        );
    }
    let without = json!([{"name": "a.service", "enabled": true}]);
    read(json!({"storage": {"files": files(&["/etc/systemd/system/a.service"])}, "systemd": {"units": without}}));
}

#[test]
fn unit_names_that_systemd_does_not_know_are_refused() {
    let long = format!("{}.service", "a".repeat(250));
    for (name, problem) in [
        ("/etc/systemd/system/a.service", "which is a path; name the unit alone, as systemctl does"),
        ("../a.service", "which is a path; name the unit alone, as systemctl does"),
        ("kubelet", "which has no suffix, such as .service; name the unit completely"),
        (".service", "which has no suffix, such as .service; name the unit completely"),
        ("", "which has no suffix, such as .service; name the unit completely"),
        ("a.conf", "which has none of the suffixes that systemd knows, such as .service; correct the name"),
        ("a b.service", "which systemd does not accept as a name; use letters, digits and :-_.\\@"),
        ("a\0.service", "which systemd does not accept as a name; use letters, digits and :-_.\\@"),
        (&long, "which systemd does not accept as a name; use letters, digits and :-_.\\@"),
    ] {
        let expected = format!("systemd.units[{name}].name is {name:?}, {problem}");
        assert_eq!(error(json!({"systemd": {"units": [{"name": name}]}})), expected);
    }
    for name in ["kubelet.service", "getty@tty1.service", "a-b_c.mount", "dev-disk\\x2d1.swap", "a:b.timer"] {
        read(json!({"systemd": {"units": [{"name": name}]}}));
    }
    for (name, problem) in [
        ("a.txt", "which does not end in .conf, and systemd reads no others; rename it"),
        (".conf", "which does not end in .conf, and systemd reads no others; rename it"),
        ("../a.conf", "which is a path; name the drop-in alone"),
    ] {
        assert_eq!(
            error(json!({"systemd": {"units": [{"name": "a.service", "dropins": [{"name": name}]}]}})),
            format!("systemd.units[a.service].dropins[{name}].name is {name:?}, {problem}")
        );
    }
}

#[test]
fn modes_above_0777_are_refused() {
    for mode in [0o1000, 0o4755, 0o2755, 644, 755, -1, i64::MAX] {
        for list in ["files", "directories"] {
            let error = error(json!({"storage": {list: [{"path": "/etc/a", "mode": mode}]}}));
            assert!(error.starts_with(&format!("storage.{list}[/etc/a].mode is {mode} (0")), "{error}");
            assert!(error.contains("0 to 511 (0777)") && error.contains("420 means 0644"), "{error}");
        }
    }
    for mode in [0, 0o644, 0o777] {
        let ignition = read(json!({"storage": {"files": [{"path": "/etc/a", "mode": mode}]}}));
        assert_eq!(i64::from(ignition.config().storage.files[0].permissions()), mode);
    }
}

#[test]
fn users_and_owners_that_the_system_cannot_have_are_refused() {
    let user = |fields: Value| json!({"passwd": {"users": [fields]}});
    let file = |owner: Value| json!({"storage": {"files": [{"path": "/etc/a", "user": owner}]}});
    for (sections, expected) in [
        (user(json!({"name": "a:b"})), "passwd.users[a:b].name is \"a:b\", which is no name of a user; correct it"),
        (user(json!({"name": "-r"})), "passwd.users[-r].name is \"-r\", which is no name of a user; correct it"),
        (
            user(json!({"name": "core", "sshAuthorizedKeys": ["ssh-rsa a\nssh-rsa b"]})),
            "passwd.users[core]: sshAuthorizedKeys has a key of several lines; write each key as an entry of its own",
        ),
        (
            user(json!({"name": "core", "passwordHash": "x:0:0"})),
            "passwd.users[core]: passwordHash contains a colon or a line break, which /etc/shadow cannot hold; \
             hash the password again",
        ),
        (
            file(json!({"id": 0, "name": "root"})),
            "storage.files[/etc/a].user: both id and name are set; keep one of them",
        ),
        (file(json!({"id": -1})), "storage.files[/etc/a].user: id is no number of a user or group; correct it"),
        (file(json!({"name": "a b"})), "storage.files[/etc/a].user: name is no name of a user or group; correct it"),
    ] {
        assert_eq!(error(sections), expected);
    }
    assert_eq!(read(file(json!({"name": "core"}))).config().storage.files[0].user.name.as_deref(), Some("core"));
}

#[test]
fn other_configurations_are_not_fetched() {
    for key in [json!({"merge": [{"source": "https://a.example/c.ign"}]}), json!({"replace": {"source": "data:,"}})] {
        let value = json!({"ignition": {"version": "3.5.0", "config": key}});
        assert_eq!(
            Ignition::read(&value).unwrap_err().to_string(),
            "ignition.config: a node must not need the network for its configuration; write the contents of the other \
             configuration into a MachineConfig"
        );
    }
}

#[test]
fn deep_nesting_is_not_followed() {
    let mut deep = json!(1);
    for _ in 0..2000 {
        deep = json!({"files": [deep]});
    }
    assert_eq!(
        error(json!({"storage": {"files": [{"path": deep}]}})),
        "storage.files[0].path is an object and has to be text; correct its value"
    );
    let read = Ignition::read(&config(json!({"other": deep, "storage": deep})));
    assert_eq!(read.unwrap_err().to_string(), "storage.files[0].path is missing; set it, or remove the entry");
}

#[test]
fn a_rendered_configuration_overwrites_files_that_do_not_say_otherwise() {
    let ignition = read(json!({"storage": {"files": [
        {"path": "/a", "contents": {"source": "data:,a"}},
        {"path": "/b", "overwrite": false},
        {"path": "/c"},
    ]}}));
    let expected = json!({"storage": {"files": [
        {"path": "/a", "overwrite": true, "contents": {"source": "data:,a"}},
        {"path": "/b", "overwrite": false},
        {"path": "/c", "overwrite": true, "contents": {"source": ""}},
    ]}});
    assert_eq!(ignition.overwriting().unwrap().value(), &config(expected));
}

#[test]
fn names_that_the_agent_of_a_node_cannot_use_are_read_and_refused_for_a_pool() {
    let (long, longest) = ("a".repeat(237), "a".repeat(236));
    let unit =
        |name: &str, dropin: &str| json!({"systemd": {"units": [{"name": name, "dropins": [{"name": dropin}]}]}});
    let link = |path: &str| json!({"storage": {"links": [{"path": path, "target": "/x"}]}});
    let deep = format!("/{}", "a/".repeat(2021));
    let kept = "where the agent of a node keeps what it has to know; write to another folder";
    let option = "is \"-a.service\", which a command would take for an option; choose another name";
    for (sections, problem) in [
        (json!({"storage": {"files": files(&[&format!("/etc/{long}")])}}), "which is too long"),
        (json!({"storage": {"files": files(&[&format!("{deep}b")])}}), "which is too long"),
        (link(&format!("/etc/{long}")), "which is too long"),
        (json!({"storage": {"files": files(&["/etc/machine-config-daemon/currentconfig"])}}), kept),
        (link("/var/lib/machine-config-daemon"), kept),
        (unit("-a.service", "a.conf"), option),
        (unit(&format!("{}.service", "a".repeat(229)), "a.conf"), "which is too long"),
        (unit("a.service", &format!("{}.conf", "a".repeat(232))), "which is too long"),
    ] {
        let error = read(sections.clone()).check_names().unwrap_err().to_string();
        assert!(error.contains(problem), "{sections}: {error}");
    }
    for sections in [
        json!({"storage": {"files": files(&[&format!("/etc/{longest}"), "/etc/machine-config-daemon-x"])}}),
        json!({"storage": {"files": files(&["/etc/machine-config-daemon/no-reboot/containers-gpg.pub"])}}),
        json!({"storage": {"files": files(&[&format!("/{long}/a")])}}),
        unit("-.slice", &format!("{}.conf", "a".repeat(231))),
        unit(&format!("{}.service", "a".repeat(228)), "a.conf"),
    ] {
        assert_eq!(read(sections.clone()).check_names(), Ok(()), "{sections}");
    }
}
