//! Objects of a kind that users write, decoded one by one: one that does not fit its type keeps none of the others from being
//! followed. Not for kinds on which it depends what is done to the whole cluster: there it is better to know nothing than a part.

use crate::error::{CAUSE, shortened};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object, or why it cannot be used.
#[derive(Clone, Debug)]
pub(crate) enum Each<T> {
    Object(T),
    Undecodable(Box<Undecodable>),
}

/// An object that does not fit its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Undecodable {
    /// Namespace, name, uid and resourceVersion alone.
    pub metadata: ObjectMeta,
    /// With the path of the field.
    pub cause: String,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Each<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        Ok(match serde_path_to_error::deserialize(&object) {
            Ok(decoded) => Each::Object(decoded),
            Err(error) => {
                let cause = shortened(&error.to_string(), CAUSE).into_owned();
                Each::Undecodable(Box::new(Undecodable { metadata: metadata(&object), cause }))
            }
        })
    }
}

fn metadata(object: &Value) -> ObjectMeta {
    let text = |key: &str| object.get("metadata")?.get(key)?.as_str().map(str::to_owned);
    ObjectMeta {
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

/// What has happened to an object that does not fit its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Odd {
    /// It exists.
    Is(Box<Undecodable>),
    /// It has been deleted.
    Gone(Box<Undecodable>),
}

/// The event of an object that fits, or what has happened to one that does not.
pub(crate) fn split<T>(event: Event<Each<T>>) -> Result<Event<T>, Odd> {
    let object = |each: Each<T>| match each {
        Each::Object(object) => Ok(object),
        Each::Undecodable(undecodable) => Err(undecodable),
    };
    match event {
        Event::Init => Ok(Event::Init),
        Event::InitDone => Ok(Event::InitDone),
        Event::InitApply(each) => object(each).map(Event::InitApply).map_err(Odd::Is),
        Event::Apply(each) => object(each).map(Event::Apply).map_err(Odd::Is),
        Event::Delete(each) => object(each).map(Event::Delete).map_err(Odd::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    #[test]
    fn object_that_does_not_fit_is_named_with_the_field_and_the_others_are_there() {
        let fine = json!({"metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}});
        let odd = json!({"metadata": {"name": "b", "namespace": "n", "uid": "7", "resourceVersion": "5", "labels": 3},
            "data": {"k": "v"}});
        let all: Vec<Each<ConfigMap>> = serde_json::from_value(json!([fine, odd, fine])).unwrap();
        let [Each::Object(one), Each::Undecodable(odd), Each::Object(_)] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(one.metadata.name.as_deref(), Some("a"));
        let metadata = &odd.metadata;
        let texts = [&metadata.namespace, &metadata.name, &metadata.uid, &metadata.resource_version];
        assert_eq!(texts.map(|text| text.as_deref().unwrap()), ["n", "b", "7", "5"]);
        assert!(odd.cause.contains("metadata"), "{}", odd.cause);
        // Whatever it is, it is no error of the list.
        let all: Vec<Each<ConfigMap>> = serde_json::from_value(json!([null, 1, {"metadata": []}])).unwrap();
        assert!(all.iter().all(|each| matches!(each, Each::Undecodable(_))), "{all:?}");
    }
}
