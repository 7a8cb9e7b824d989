//! Volumes of pods of every source, with fields that the server defaults absent or present.

use crate::random::{Make, SeededRandom, flag, quantity};
use serde_json::{Value, json};

/// Some volumes with different names; a name may have another source in another manifest.
pub(super) fn volumes(d: &SeededRandom) -> Vec<Value> {
    let names = d.some_of(&["data", "certs", "cache", "token", "extra"]);
    names
        .iter()
        .map(|name| {
            let make = d.pick(SOURCES);
            let mut volume = make(d);
            volume["name"] = json!(name);
            volume
        })
        .collect()
}

const SOURCES: &[Make] = &[
    |_| json!({}),
    |d| json!({"emptyDir": d.some(&[("medium", |_| json!("Memory")), ("sizeLimit", quantity)])}),
    |d| json!({"hostPath": d.with(json!({"path": "/var/x"}), &[("type", |d| json!(d.pick(&["", "Directory", "DirectoryOrCreate"])))])}),
    |d| json!({"secret": d.with(json!({"secretName": "login"}), FILES)}),
    |d| json!({"configMap": d.with(json!({"name": "settings"}), FILES)}),
    |d| json!({"downwardAPI": d.some(&[("defaultMode", mode), ("items", downward)])}),
    projected,
    |d| json!({"persistentVolumeClaim": d.with(json!({"claimName": "data"}), &[("readOnly", flag)])}),
    |d| {
        json!({"csi": d.with(json!({"driver": "csi.example.com"}), &[
            ("readOnly", flag),
            ("fsType", |_| json!("xfs")),
            ("volumeAttributes", SeededRandom::entries),
            ("nodePublishSecretRef", |_| json!({"name": "login"})),
        ])})
    },
    |d| json!({"nfs": d.with(json!({"server": "n.example", "path": "/x"}), &[("readOnly", flag)])}),
    |d| json!({"image": d.with(json!({"reference": d.pick(&["r.example/v", "r.example/v:1"])}), &[("pullPolicy", |d| json!(d.pick(&["Always", "Never"])))])}),
    |d| json!({"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": d.entries()}, "spec": claim(d)}}}),
    |d| {
        json!({"iscsi": d.with(json!({"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:x", "lun": 0}), &[
            ("iscsiInterface", |_| json!("eth1")),
            ("fsType", |_| json!("ext4")),
            ("readOnly", flag),
            ("portals", |_| json!(["10.0.0.2"])),
        ])})
    },
    |d| {
        json!({"rbd": d.with(json!({"monitors": ["10.0.0.1"], "image": "i"}), &[
            ("pool", |d| json!(d.pick(&["rbd", "p"]))),
            ("user", |_| json!("u")),
            ("keyring", |_| json!("/k")),
            ("readOnly", flag),
        ])})
    },
    |d| {
        json!({"azureDisk": d.with(json!({"diskName": "d", "diskURI": "https://x.example/d"}), &[
            ("cachingMode", |d| json!(d.pick(&["None", "ReadWrite"]))),
            ("fsType", |_| json!("xfs")),
            ("readOnly", flag),
        ])})
    },
    |d| {
        json!({"scaleIO": d.with(json!({"gateway": "https://g.example", "system": "s", "secretRef": {"name": "x"}, "volumeName": "v"}), &[
            ("storageMode", |_| json!("ThickProvisioned")),
            ("fsType", |_| json!("ext4")),
            ("sslEnabled", flag),
        ])})
    },
];

const FILES: &[(&str, Make)] = &[
    ("defaultMode", mode),
    ("optional", flag),
    ("items", |d| {
        let mut item = json!({"key": "k", "path": "p"});
        if d.chance(40) {
            item["mode"] = mode(d);
        }
        json!([item])
    }),
];

fn mode(d: &SeededRandom) -> Value {
    json!(d.pick(&[0o644, 0o400, 0o755]))
}

fn downward(d: &SeededRandom) -> Value {
    d.pick(&[
        json!([{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]),
        json!([{"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}, "mode": 0o600}]),
        json!([{"path": "cpu", "resourceFieldRef": {"containerName": "web", "resource": "limits.cpu"}}]),
        json!([{"path": "cpu", "resourceFieldRef": {"containerName": "web", "resource": "limits.cpu", "divisor": "1m"}}]),
    ])
}

fn projected(d: &SeededRandom) -> Value {
    let mut sources = Vec::new();
    if d.chance(60) {
        sources.push(json!({"serviceAccountToken": d.with(json!({"path": "token"}), &[
            ("expirationSeconds", |d| json!(d.pick(&[3600, 7200]))),
            ("audience", |_| json!("x")),
        ])}));
    }
    if d.chance(60) {
        sources.push(json!({"configMap": {"name": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}));
    }
    if d.chance(40) {
        sources.push(json!({"secret": {"name": "login", "optional": d.chance(50)}}));
    }
    if d.chance(40) {
        sources.push(json!({"downwardAPI": {"items": downward(d)}}));
    }
    json!({"projected": d.with(json!({"sources": sources}), &[("defaultMode", mode)])})
}

/// The spec of a PersistentVolumeClaim.
pub(super) fn claim(d: &SeededRandom) -> Value {
    d.with(
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}),
        &[
            ("storageClassName", |d| json!(d.pick(&["", "fast"]))),
            ("volumeMode", |d| json!(d.pick(&["Filesystem", "Block"]))),
            ("selector", |_| json!({"matchLabels": {"a": "b"}})),
        ],
    )
}
