//! Users and administrators, who install, change and delete whatever comes to their mind, and write what they should not.

use super::specs::{self, CRASHES, any_namespace};
use super::store::{label, text};
use super::world::{CSV, World};
use cvo::testing::operator_process::Part;
use serde_json::json;

impl World {
    /// Namespace and name of one of the kind.
    fn any(&self, kind: &str) -> Option<(String, String)> {
        let all: Vec<_> =
            self.store.all(kind).map(|(namespace, name, _)| (namespace.to_owned(), name.to_owned())).collect();
        let at = self.random.below(all.len());
        all.into_iter().nth(at)
    }

    fn any_csv(&self) -> Option<(String, String)> {
        let all: Vec<_> = self.store.all(CSV).filter(|(_, _, csv)| label(csv, "olm.copiedFrom").is_none()).collect();
        let (namespace, name, _) = self.random.one_of(&all)?;
        Some(((*namespace).to_owned(), (*name).to_owned()))
    }

    /// Somebody does something.
    pub(super) fn user(&mut self) {
        match self.random.below(24) {
            0..5 => self.install(),
            5..9 => self.groups(),
            9..11 => self.namespaces(),
            11..14 => self.edit_csv(),
            14..16 => self.edit_deployment(),
            16..18 => self.edit_others(),
            18..20 => self.condition(),
            20 => self.subscribe(),
            21 => {
                let disabled = self.random.chance(50);
                self.store.change("OLMConfig", "", "cluster", |it| {
                    it["spec"] = json!({"features": {"disableCopiedCSVs": disabled}});
                });
            }
            22 => self.copies(),
            _ => {
                self.refuses =
                    self.random.pick(&[None, None, None, Some("Deployment"), Some("Role"), Some("Service"), Some(CSV)]);
            }
        }
    }

    /// Versions of an operator follow each other: Deployments that both of two others name, both would change back for ever.
    fn install(&mut self) {
        let namespace = any_namespace(&self.random);
        let mut csv = specs::csv(&self.random, namespace);
        let package = package(text(&csv, "/metadata/name")).to_owned();
        let here = self.store.of_namespace(CSV, namespace);
        let originals = here.iter().filter(|it| label(it, "olm.copiedFrom").is_none());
        let named =
            originals.map(|it| (text(it, "/metadata/name"), it.pointer("/metadata/deletionTimestamp").is_none()));
        let same = named.filter(|(name, _)| self::package(name) == package);
        let versions: Vec<(usize, bool)> = same.filter_map(|(name, stays)| Some((number(name)?, stays))).collect();
        if let Some((last, _)) = versions.iter().max() {
            csv["metadata"]["name"] = format!("{package}.v{}", last + 1).into();
        }
        // One that goes does not keep those before and after it together.
        if let Some((last, _)) = versions.iter().filter(|(_, stays)| *stays).max() {
            csv["spec"]["replaces"] = format!("{package}.v{last}").into();
        }
        let by_plan = self.random.chance(85);
        if let Ok(csv) = self.store.create(CSV, namespace, &csv)
            && by_plan
        {
            self.planned.insert(text(&csv, "/metadata/uid").to_owned());
            if self.random.chance(70) {
                self.carry_out(&csv);
            }
        }
    }

    fn groups(&mut self) {
        let namespace = any_namespace(&self.random);
        let here = self.store.of_namespace("OperatorGroup", namespace);
        let names: Vec<String> = here.iter().map(|it| text(it, "/metadata/name").to_owned()).collect();
        match (names.first().cloned(), self.random.below(10)) {
            (None, _) => self.create("OperatorGroup", namespace, &specs::group(&self.random, namespace, "g")),
            (Some(_), 0) => self.create("OperatorGroup", namespace, &specs::group(&self.random, namespace, "h")),
            (Some(name), 1..4) => drop(self.store.delete("OperatorGroup", namespace, &name, "")),
            (Some(name), 4) => {
                let apis = specs::some_apis(&self.random);
                self.store.change("OperatorGroup", namespace, &name, |it| {
                    it["metadata"]["annotations"]["olm.providedAPIs"] = apis.into();
                });
            }
            (Some(name), _) => {
                let spec = specs::group_spec(&self.random, namespace);
                self.store.change("OperatorGroup", namespace, &name, |it| it["spec"] = spec);
            }
        }
    }

    /// In some namespaces administrators see to it that there is one group, for the namespace alone.
    pub(super) fn mend_groups(&mut self) {
        for namespace in specs::NAMESPACES {
            if self.random.chance(50) {
                continue;
            }
            let here = self.store.of_namespace("OperatorGroup", namespace);
            let names: Vec<String> = here.iter().map(|it| text(it, "/metadata/name").to_owned()).collect();
            for name in names.iter().skip(1) {
                let _done = self.store.delete("OperatorGroup", namespace, name, "");
            }
            let spec = json!({"targetNamespaces": [namespace]});
            match names.first() {
                Some(name) => self.store.change("OperatorGroup", namespace, name, |it| it["spec"] = spec),
                None => {
                    let group = json!({"metadata": {"name": "g", "namespace": namespace}, "spec": spec});
                    self.create("OperatorGroup", namespace, &group);
                }
            }
        }
    }

    fn namespaces(&mut self) {
        let name = any_namespace(&self.random);
        match self.random.below(6) {
            0 => drop(self.store.delete("Namespace", "", name, "")),
            1..4 => {
                let labels = specs::labels(&self.random);
                self.store.change("Namespace", "", name, |it| {
                    let known = it["metadata"]["labels"].as_object().cloned().unwrap_or_default();
                    it["metadata"]["labels"] = labels;
                    // What others have set stays, mostly.
                    for (key, value) in known.into_iter().filter(|(key, _)| key.starts_with("olm.")) {
                        it["metadata"]["labels"][key] = value;
                    }
                });
            }
            _ => self.create("Namespace", "", &specs::namespace(&self.random, name)),
        }
    }

    /// Those of the same operator beside it, by their numbers.
    fn beside(&self, namespace: &str, name: &str) -> Vec<usize> {
        let here = self.store.of_namespace(CSV, namespace);
        let here = here.iter().filter(|it| label(it, "olm.copiedFrom").is_none()).map(|it| text(it, "/metadata/name"));
        here.filter(|other| *other != name && package(other) == package(name)).filter_map(number).collect()
    }

    fn edit_csv(&mut self) {
        let Some((namespace, name)) = self.any_csv() else { return };
        let (other, beside) = (specs::csv(&self.random, &namespace), self.beside(&namespace, &name));
        let own = number(&name).unwrap_or_default();
        let is_between = beside.iter().any(|it| *it < own) && beside.iter().any(|it| *it > own);
        if let Some(csv) = self.store.get(CSV, &namespace, &name) {
            self.touched.insert(text(csv, "/metadata/uid").to_owned());
        }
        match self.random.below(12) {
            // Without the one in between, those around it would not know of each other.
            0..3 if is_between => {}
            0..3 => drop(self.store.delete(CSV, &namespace, &name, "")),
            3 => {
                let image = self.random.pick(&["fixed:1", "fixed:2", CRASHES]);
                self.store.change(CSV, &namespace, &name, |it| {
                    let pod = "/spec/install/spec/deployments/0/spec/template/spec/containers/0/image";
                    it.pointer_mut(pod).into_iter().for_each(|it| *it = image.into());
                });
            }
            4 => self.store.change(CSV, &namespace, &name, |it| {
                it["spec"]["customresourcedefinitions"] = other["spec"]["customresourcedefinitions"].clone();
            }),
            5 => self.store.change(CSV, &namespace, &name, |it| {
                it["spec"]["installModes"] = other["spec"]["installModes"].clone();
            }),
            6 => self.store.change(CSV, &namespace, &name, specs::other_deployments),
            7 => {
                let targets = self.random.pick(&["", "n0", "n0,n1"]);
                self.store.change(CSV, &namespace, &name, |it| {
                    it["metadata"]["annotations"]["olm.targetNamespaces"] = targets.into();
                });
            }
            8 => self.store.change(CSV, &namespace, &name, |it| it["metadata"]["labels"] = json!({})),
            9 if beside.is_empty() => {
                self.store
                    .change(CSV, &namespace, &name, |it| it["spec"]["replaces"] = other["spec"]["replaces"].clone());
            }
            _ => {
                // Somebody else writes the status.
                let phase = self.random.pick(&["", "Pending", "Installing", "Failed", "Replacing", "Unknown", "Other"]);
                let reason = self.random.pick(&[
                    "",
                    "InstallSucceeded",
                    "ComponentUnhealthy",
                    "InstallComponentFailedNoRetry",
                    "Copied",
                ]);
                let patch = json!({"status": {"phase": phase, "reason": reason, "message": "by hand"}});
                let _done = self.store.patch(CSV, (&namespace, &name), &patch, Part::Status);
            }
        }
    }

    fn edit_deployment(&mut self) {
        let Some((namespace, name)) = self.any("Deployment") else { return };
        match self.random.below(6) {
            0 => drop(self.store.delete("Deployment", &namespace, &name, "")),
            1 => self.store.change("Deployment", &namespace, &name, |it| {
                it["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1".into();
            }),
            2 => self.store.change("Deployment", &namespace, &name, |it| {
                it["spec"]["replicas"] = 3.into();
                it["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update", "subresource": "scale",
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
            }),
            3 => self.store.change("Deployment", &namespace, &name, |it| {
                it["spec"]["template"]["metadata"]["annotations"]["restartedAt"] = "now".into();
            }),
            4 => self.store.change("Deployment", &namespace, &name, |it| it["metadata"]["labels"] = json!({})),
            _ => {
                let what = self.random.pick(&["ready", "away", "late"]);
                self.report(&namespace, &name, what);
            }
        }
    }

    fn edit_others(&mut self) {
        let kind = self.random.pick(&[
            "Role",
            "RoleBinding",
            "ClusterRole",
            "ClusterRoleBinding",
            "ServiceAccount",
            "CustomResourceDefinition",
            "Service",
            "Secret",
            "ValidatingWebhookConfiguration",
            "APIService",
            "OperatorCondition",
        ]);
        if self.random.chance(15) {
            let rules =
                json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "update", "delete"]}]);
            let subject =
                json!([{"kind": "ServiceAccount", "name": "installer", "namespace": any_namespace(&self.random)}]);
            let namespace = any_namespace(&self.random);
            self.create("ServiceAccount", namespace, &json!({"metadata": {"name": "installer"}}));
            self.create("ClusterRole", "", &json!({"metadata": {"name": "installer"}, "rules": rules}));
            self.create(
                "ClusterRoleBinding",
                "",
                &json!({"metadata": {"name": format!("installer-{namespace}")}, "subjects": subject,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "installer"}}),
            );
            return;
        }
        let Some((namespace, name)) = self.any(kind) else { return };
        match self.random.below(3) {
            0 if kind.ends_with("Role") => self.store.change(kind, &namespace, &name, |it| it["rules"] = json!([])),
            1 if kind == "Secret" => self.store.change(kind, &namespace, &name, |it| it["data"] = json!({})),
            1 => self.store.change(kind, &namespace, &name, |it| it["metadata"]["labels"]["by"] = "hand".into()),
            _ => drop(self.store.delete(kind, &namespace, &name, "")),
        }
    }

    /// What an operator or an administrator says of updates.
    fn condition(&mut self) {
        let Some((namespace, name)) = self.any("OperatorCondition") else { return };
        let status = self.random.pick(&["True", "False"]);
        let said = json!({"type": "Upgradeable", "status": status, "reason": "R", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let part = self.random.pick(&["conditions", "overrides", "none"]);
        self.store.change("OperatorCondition", &namespace, &name, |it| match part {
            "none" => it["spec"]["overrides"] = json!([]),
            part => it["spec"][part] = json!([said]),
        });
    }

    fn subscribe(&mut self) {
        let Some((namespace, name)) = self.any_csv() else { return };
        let package = name.split('.').next().unwrap_or_default();
        let config = match self.random.below(3) {
            0 => json!({}),
            at => json!({"env": [{"name": "LEVEL", "value": at.to_string()}]}),
        };
        let subscription = json!({"metadata": {"name": package}, "spec": {"channel": "c", "name": package, "source": "s",
            "sourceNamespace": "s", "config": config}});
        self.create("Subscription", &namespace, &subscription);
        self.store.change("Subscription", &namespace, package, |it| it["spec"] = subscription["spec"].clone());
        let status =
            json!({"status": {"installedCSV": name, "currentCSV": name, "lastUpdated": "2026-01-01T00:00:00Z"}});
        let _done = self.store.patch("Subscription", (&namespace, package), &status, Part::Status);
    }

    /// Somebody changes or deletes a copy, or makes something that looks like one.
    fn copies(&mut self) {
        let all: Vec<_> = self.store.all(CSV).filter(|(_, _, csv)| label(csv, "olm.copiedFrom").is_some()).collect();
        let of = self.random.one_of(&all).map(|(namespace, name, _)| ((*namespace).to_owned(), (*name).to_owned()));
        if let Some(copy) = of.as_ref().and_then(|(namespace, name)| self.store.get(CSV, namespace, name)) {
            self.touched.insert(text(copy, "/metadata/uid").to_owned());
        }
        match (of, self.random.below(4)) {
            (Some((namespace, name)), 0) => drop(self.store.delete(CSV, &namespace, &name, "")),
            (Some((namespace, name)), 1) => {
                self.store.change(CSV, &namespace, &name, |it| it["spec"]["replaces"] = "x".into())
            }
            (Some((namespace, name)), 2) => {
                let patch = json!({"status": {"phase": "Succeeded", "reason": "InstallSucceeded"}});
                let _done = self.store.patch(CSV, (&namespace, &name), &patch, Part::Status);
            }
            _ => {
                let namespace = any_namespace(&self.random);
                let mut csv = specs::csv(&self.random, namespace);
                csv["metadata"]["labels"] = json!({"olm.copiedFrom": any_namespace(&self.random)});
                self.create(CSV, namespace, &csv);
            }
        }
    }
}

/// The package of a version, and its number.
fn package(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

fn number(name: &str) -> Option<usize> {
    name.rsplit_once('v')?.1.parse().ok()
}
