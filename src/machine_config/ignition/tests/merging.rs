use super::*;

/// Merges the sections one after the other.
fn merged(sections: &[Value]) -> Value {
    let all = sections.iter().map(|sections| read(sections.clone()));
    let merged = all.fold(Ignition::empty(), |merged, child| merged.merge(&child).unwrap());
    let mut value = merged.value().clone();
    value.as_object_mut().unwrap().remove("ignition");
    value
}

fn file(fields: Value) -> Value {
    json!({"storage": {"files": [fields]}})
}

#[test]
fn fields_are_replaced_only_if_the_child_sets_them() {
    let parent = file(json!({"path": "/a", "mode": 384, "overwrite": true, "contents": {"source": "data:,a"}}));
    let child = file(json!({"path": "/a", "mode": 420, "user": {"name": "core"}}));
    assert_eq!(
        merged(&[parent, child]),
        file(
            json!({"path": "/a", "mode": 420, "overwrite": true, "user": {"name": "core"}, "contents": {"source": "data:,a"}})
        )
    );
}

#[test]
fn entries_with_the_same_key_are_merged_in_their_place_and_others_appended() {
    let unit =
        |name, contents: Option<&str>, dropins: Value| json!({"name": name, "contents": contents, "dropins": dropins});
    let parent = json!({"systemd": {"units": [
        unit("a.service", Some("old"), json!([{"name": "1.conf", "contents": "1"}, {"name": "2.conf", "contents": "2"}])),
        unit("b.service", Some("b"), json!([])),
    ]}});
    let child = json!({"systemd": {"units": [
        unit("c.service", Some("c"), json!([])),
        unit("a.service", None, json!([{"name": "3.conf", "contents": "3"}, {"name": "2.conf", "contents": "new"}])),
    ]}});
    assert_eq!(
        merged(&[parent, child]),
        json!({"systemd": {"units": [
            {"name": "a.service", "contents": "old", "dropins": [
                {"name": "1.conf", "contents": "1"}, {"name": "2.conf", "contents": "new"}, {"name": "3.conf", "contents": "3"},
            ]},
            {"name": "b.service", "contents": "b"},
            {"name": "c.service", "contents": "c"},
        ]}})
    );
}

#[test]
fn an_entry_of_another_kind_with_the_same_path_replaces_that_of_the_parent() {
    let parent = json!({"storage": {
        "files": files(&["/a", "/b", "/c"]),
        "directories": [{"path": "/d"}],
        "links": [{"path": "/l", "target": "/x"}],
    }});
    let child = json!({"storage": {
        "directories": [{"path": "/a"}],
        "links": [{"path": "/b", "target": "/y"}],
        "files": files(&["/d", "/l"]),
    }});
    assert_eq!(
        merged(&[parent, child]),
        json!({"storage": {
            "files": files(&["/c", "/d", "/l"]),
            "directories": [{"path": "/a"}],
            "links": [{"path": "/b", "target": "/y"}],
        }})
    );
    let arguments =
        |should, should_not| json!({"kernelArguments": {"shouldExist": should, "shouldNotExist": should_not}});
    assert_eq!(
        merged(&[arguments(json!(["a", "b"]), json!(["c"])), arguments(json!(["c", "d"]), json!(["a"]))]),
        arguments(json!(["b", "c", "d"]), json!(["a"]))
    );
}

#[test]
fn keys_of_users_are_united_and_options_appended() {
    let user = |keys: Value| json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": keys}]}});
    assert_eq!(merged(&[user(json!(["a", "b"])), user(json!(["c", "a", "c"]))]), user(json!(["a", "b", "c"])));
    let raid = |options: Value, devices: Value| json!({"storage": {"raid": [{"name": "r", "level": "raid1", "devices": devices, "options": options}]}});
    assert_eq!(
        merged(&[raid(json!(["-a"]), json!(["/dev/a"])), raid(json!(["-a"]), json!(["/dev/a", "/dev/b"]))]),
        raid(json!(["-a", "-a"]), json!(["/dev/a", "/dev/b"]))
    );
}

#[test]
fn parts_that_this_project_does_not_act_upon_are_merged_as_well() {
    let disk = |partitions: Value| json!({"storage": {"disks": [{"device": "/dev/sda", "partitions": partitions}]}});
    assert_eq!(
        merged(&[
            disk(json!([{"number": 1, "sizeMiB": 10}, {"label": "var", "sizeMiB": 20}])),
            disk(json!([{"label": "var", "sizeMiB": 30}, {"number": 2}, {"number": 1, "label": "boot"}])),
        ]),
        disk(json!([{"number": 1, "sizeMiB": 10, "label": "boot"}, {"label": "var", "sizeMiB": 30}, {"number": 2}]))
    );
    let luks = |clevis: Value| json!({"storage": {"luks": [{"name": "root", "device": "/dev/x", "clevis": clevis}]}});
    assert_eq!(
        merged(&[luks(json!({"tpm2": true, "tang": [{"url": "http://a"}]})), luks(json!({"threshold": 2}))]),
        luks(json!({"tpm2": true, "threshold": 2, "tang": [{"url": "http://a"}]}))
    );
}

#[test]
fn what_is_appended_to_a_file_is_collected() {
    let append = |source: &str| file(json!({"path": "/a", "append": [{"source": source}]}));
    assert_eq!(
        merged(&[append("data:,a"), append("data:,b"), append("data:,a")]),
        file(json!({"path": "/a", "append": [{"source": "data:,a"}, {"source": "data:,b"}, {"source": "data:,a"}]}))
    );
}

#[test]
fn plain_contents_over_compressed_ones_are_not_decompressed() {
    const EMPTY_GZIP: &str = "data:;base64,H4sIAAAAAAAC/wMAAAAAAAAAAAA=";
    let hash = "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let compressed = json!({"source": EMPTY_GZIP, "compression": "gzip", "verification": {"hash": hash}});
    let parent = file(json!({"path": "/a", "contents": compressed}));
    let plain = file(json!({"path": "/a", "contents": {"source": "data:,plain"}}));
    assert_eq!(merged(&[parent.clone(), plain.clone()]), plain);
    assert_eq!(merged(&[plain, parent.clone()]), parent);
    // A child that sets no contents leaves compressed ones as they are.
    let mode = file(json!({"path": "/a", "mode": 384}));
    assert_eq!(merged(&[parent, mode]), file(json!({"path": "/a", "mode": 384, "contents": compressed})));
}

#[test]
fn two_valid_configurations_that_contradict_each_other_are_not_merged() {
    let below = read(json!({"storage": {"files": files(&["/a/b"])}}));
    let error = read(json!({"storage": {"files": files(&["/a"])}})).merge(&below).unwrap_err();
    assert!(
        error.to_string().starts_with("storage.files[/a/b].path is the path \"/a/b\", which is below \"/a\""),
        "{error}"
    );
    // A folder in place of the file makes room for it.
    let folder = read(json!({"storage": {"directories": [{"path": "/a"}], "files": files(&["/a/b"])}}));
    let merged = read(json!({"storage": {"files": files(&["/a"])}})).merge(&folder).unwrap();
    assert_eq!(merged, folder);
}
