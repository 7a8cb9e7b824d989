//! What the cluster says of images, kept current. A cluster need not have these kinds.

use crate::cluster::watcher::{Event, Selection, Selector, events};
use crate::cluster::{ApiError, Clients, Kind, task};
use crate::images::cluster::{Images, Source};
use futures::StreamExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The objects of a kind by their names.
#[derive(Default)]
struct Objects {
    all: BTreeMap<String, Value>,
    /// Those that are told of while everything is read anew.
    anew: Option<BTreeMap<String, Value>>,
    /// Everything that exists is known.
    known: bool,
    error: Option<String>,
    /// The server has said that it does not have the kind, although it had it before.
    lost: bool,
}

#[derive(Clone, Default)]
pub(super) struct ClusterImages(Arc<Mutex<BTreeMap<Source, Objects>>>);

impl ClusterImages {
    pub(super) fn start(clients: &Clients, changed: &Arc<Notify>, stop: &CancellationToken) -> ClusterImages {
        let images = ClusterImages::default();
        for source in Source::ALL {
            let (group, version, kind, plural) = source.kind();
            let kind = Kind::known(group, version, kind, plural, source.is_namespaced());
            let client = clients.for_watch().unwrap_or_else(|_| clients.call.clone());
            let mut events = events::<Value>(client, Selection::new(kind, "", Selector::All).optional()).boxed();
            let (told, changed) = (images.clone(), changed.clone());
            task::spawn("configuration of images", stop, async move {
                while let Some(event) = events.next().await {
                    if told.on_event(source, event) {
                        changed.notify_one();
                    }
                }
            });
        }
        images
    }

    /// Whether that is something new.
    fn on_event(&self, source: Source, event: Result<Event<Value>, ApiError>) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = all.entry(source).or_default();
        match event {
            Ok(Event::Init) => {
                objects.lost = false;
                objects.anew = Some(BTreeMap::new());
                false
            }
            Ok(Event::InitApply(object)) => {
                objects.anew.get_or_insert_default().insert(name(&object), spec(&object));
                false
            }
            Ok(Event::InitDone) => {
                let anew = objects.anew.take().unwrap_or_default();
                let differs = !objects.known || objects.all != anew;
                (objects.all, objects.known, objects.error) = (anew, true, None);
                differs
            }
            Ok(Event::Apply(object)) => {
                let spec = spec(&object);
                let before = objects.all.insert(name(&object), spec.clone());
                before != Some(spec)
            }
            Ok(Event::Delete(object)) => objects.all.remove(&name(&object)).is_some(),
            // A server that has just begun may not have loaded its definitions: what forbids images is not forgotten for that.
            Err(error) if error.is_not_found() && !objects.all.is_empty() && !objects.lost => {
                objects.lost = true;
                false
            }
            // The server does not have the kind.
            Err(error) if error.is_not_found() => {
                let differs = !objects.known || !objects.all.is_empty();
                (objects.all, objects.known, objects.error) = (BTreeMap::new(), true, None);
                differs
            }
            Err(error) => {
                let cause = Some(error.to_string());
                let differs = !objects.known && objects.error != cause;
                objects.error = cause;
                differs
            }
        }
    }

    /// What they say; `None` before all of them are known. An error says why one has never been read.
    pub(super) fn known(&self) -> Option<Result<Images, String>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut images = Images::default();
        for source in Source::ALL {
            match all.get(&source) {
                Some(objects) if objects.known => {
                    objects.all.values().for_each(|object| images.add(source, object));
                }
                Some(Objects { error: Some(cause), .. }) => {
                    return Some(Err(format!(
                        "nothing is read before it is known what the cluster says of images: {cause}"
                    )));
                }
                _ => return None,
            }
        }
        Some(Ok(images))
    }
}

fn name(object: &Value) -> String {
    let part = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", part("/metadata/namespace"), part("/metadata/name"))
}

/// What counts of the object.
fn spec(object: &Value) -> Value {
    let part = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
    let metadata = serde_json::json!({"name": part("/metadata/name"), "namespace": part("/metadata/namespace")});
    serde_json::json!({"metadata": metadata, "spec": part("/spec")})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::error::Cause;
    use crate::images::reference::Reference;
    use serde_json::json;

    fn image(allowed: &str) -> Value {
        let lists = json!({"allowedRegistries": [allowed]});
        json!({"metadata": {"name": "cluster", "resourceVersion": "7"}, "spec": {"registrySources": lists}})
    }

    fn failed(code: u16) -> Result<Event<Value>, ApiError> {
        let cause = Cause::Server { code, reason: String::new(), message: "no".to_owned() };
        Err(ApiError { attempt: "watch images".to_owned(), cause })
    }

    /// All kinds but Image are not served.
    fn others(images: &ClusterImages) {
        for source in Source::ALL.into_iter().filter(|source| *source != Source::Image) {
            images.on_event(source, failed(404));
        }
    }

    fn allows(images: &ClusterImages, registry: &str) -> bool {
        let image = Reference { registry: registry.to_owned(), repository: "a".to_owned(), tag: None, digest: None };
        images.known().unwrap().unwrap().policy.check_name(&image).is_ok()
    }

    #[test]
    fn nothing_is_known_before_each_kind_is_read_or_is_not_served() {
        let images = ClusterImages::default();
        others(&images);
        assert!(images.known().is_none());
        assert!(images.on_event(Source::Image, failed(403)));
        assert!(images.known().unwrap().unwrap_err().contains("cannot watch images: no"));
        assert!(images.on_event(Source::Image, failed(404)));
        assert!(allows(&images, "any.example"));
    }

    #[test]
    fn change_counts_and_what_cannot_be_read_any_more_stays() {
        let images = ClusterImages::default();
        others(&images);
        let tell = |event| images.on_event(Source::Image, event);
        tell(Ok(Event::Init));
        tell(Ok(Event::InitApply(image("a.example"))));
        assert!(tell(Ok(Event::InitDone)));
        assert!(allows(&images, "a.example") && !allows(&images, "b.example"));
        assert!(!tell(Ok(Event::Apply(image("a.example")))), "only its version is another one");
        assert!(tell(Ok(Event::Apply(image("b.example")))));
        assert!(!tell(failed(500)));
        assert!(allows(&images, "b.example") && !allows(&images, "a.example"));
        // A server that was replaced may not know the kind for a moment.
        assert!(!tell(failed(404)));
        assert!(allows(&images, "b.example") && !allows(&images, "a.example"));
        tell(Ok(Event::Init));
        tell(Ok(Event::InitApply(image("b.example"))));
        assert!(!tell(Ok(Event::InitDone)));
        assert!(!tell(failed(404)) && tell(failed(404)), "it stays so");
        assert!(allows(&images, "a.example"));
        tell(Ok(Event::Apply(image("b.example"))));
        assert!(tell(Ok(Event::Delete(image("b.example")))));
        assert!(allows(&images, "a.example"));
    }
}
