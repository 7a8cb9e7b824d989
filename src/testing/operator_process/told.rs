//! What a process is told of objects: what its watches select, as they do.

use super::OperatorProcess;
use crate::cluster::followed::{Followed, View};
use crate::cluster::watcher::{Event, Selector};
use crate::olm::api::keys::label;
use crate::olm::operator::component;
use crate::olm::work::follow::originals;
use crate::olm::work::operators::copies::live;
use serde_json::Value;

/// An event of a watch.
#[derive(Clone, Debug)]
pub enum Told<'a> {
    /// Everything that exists follows.
    Begins,
    Exists(&'a Value),
    All,
    Changed(&'a Value),
    /// As it was last, with the resourceVersion of its deletion.
    Deleted(&'a Value),
}

impl OperatorProcess {
    /// An event of the watch of a kind.
    pub fn tell(&mut self, kind: &str, told: &Told<'_>) {
        let live = &self.live;
        let managed = Selector::Labels(format!("{}=true", label::MANAGED));
        match kind {
            "ClusterServiceVersion" => {
                deliver(&live.csvs, told, &originals());
                self.tell_of_copies(told);
            }
            "OperatorGroup" => deliver(&live.groups, told, &Selector::All),
            "OperatorCondition" => deliver(&live.conditions, told, &Selector::All),
            "OLMConfig" => deliver(&live.configs, told, &Selector::All),
            "Namespace" => deliver(&live.namespaces, told, &Selector::All),
            "Deployment" => deliver(&live.deployments, told, &managed),
            "CustomResourceDefinition" => deliver(&live.definitions, told, &Selector::All),
            "APIService" => deliver(&live.api_services, told, &Selector::All),
            "ServiceAccount" => deliver(&live.accounts, told, &Selector::All),
            "Role" => deliver(&live.roles, told, &Selector::All),
            "RoleBinding" => deliver(&live.bindings, told, &Selector::All),
            "ClusterRole" => deliver(&live.cluster_roles, told, &Selector::All),
            "ClusterRoleBinding" => deliver(&live.cluster_bindings, told, &Selector::All),
            "Subscription" => deliver(&live.subscribers, told, &Selector::All),
            "Proxy" => deliver(&live.proxies, told, &Selector::All),
            "Service" => deliver(&live.services, told, &managed),
            "MutatingWebhookConfiguration" => deliver(&live.mutating, told, &managed),
            "ValidatingWebhookConfiguration" => deliver(&live.validating, told, &managed),
            "Secret" => deliver(&live.secrets, told, &managed),
            _ => {}
        }
    }

    fn tell_of_copies(&mut self, told: &Told<'_>) {
        let found = |object: &Value| live(serde_json::from_value(object.get("metadata")?.clone()).ok()?);
        let is_copy = |object: &Value| is_selected(object, &Selector::Labels(label::COPIED_FROM.to_owned()));
        match told {
            Told::Begins => self.book.begin(),
            Told::All => self.book.complete(),
            Told::Exists(object) | Told::Changed(object) if is_copy(object) => {
                if let Some((key, live)) = found(object) {
                    self.book.tell(key, live);
                }
            }
            Told::Changed(object) | Told::Deleted(object) => {
                if let Some((key, _)) = found(object) {
                    self.book.tell_deleted(key);
                }
            }
            Told::Exists(_) => {}
        }
    }

    /// The API server has answered a write of an object with it.
    pub(super) fn answered(&self, kind: &str, answer: Value) {
        let live = &self.live;
        match kind {
            "ClusterServiceVersion" => live.csvs.on_answer(answer),
            "OperatorGroup" => live.groups.on_answer(answer),
            "OperatorCondition" => live.conditions.on_answer(answer),
            "OLMConfig" => live.configs.on_answer(answer),
            "Namespace" => live.namespaces.on_answer(answer),
            "Deployment" => live.deployments.on_answer(answer),
            "CustomResourceDefinition" => live.definitions.on_answer(answer),
            "Secret" => live.secrets.on_answer(answer),
            _ => {
                if let Some(kind) = component::Kind::ALL.into_iter().find(|it| it.names().1 == kind) {
                    live.on_component(kind, answer);
                }
            }
        }
    }
}

/// What leaves the selection is as one that is deleted.
fn deliver<V: View>(followed: &Followed<V>, told: &Told<'_>, selector: &Selector) {
    let object = |object: &Value| serde_json::from_value::<V::Object>(object.clone()).ok();
    let event = match told {
        Told::Begins => Some(Event::Init),
        Told::All => Some(Event::InitDone),
        Told::Exists(it) => object(it).filter(|_| is_selected(it, selector)).map(Event::InitApply),
        Told::Changed(it) if is_selected(it, selector) => object(it).map(Event::Apply),
        Told::Changed(it) | Told::Deleted(it) => object(it).map(Event::Delete),
    };
    event.into_iter().for_each(|event| followed.on_event(Ok(event)));
}

fn is_selected(object: &Value, selector: &Selector) -> bool {
    let Selector::Labels(text) = selector else { return true };
    let label = |key: &str| object.pointer("/metadata/labels").and_then(|labels| labels.get(key)?.as_str());
    match (text.strip_prefix('!'), text.split_once('=')) {
        (Some(absent), _) => label(absent).is_none(),
        (None, Some((key, value))) => label(key) == Some(value),
        (None, None) => label(text).is_some(),
    }
}
