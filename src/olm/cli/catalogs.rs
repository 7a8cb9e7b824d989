//! `cvo olm catalogs`: the CatalogSources of a cluster, and since when and why one of them fails.

use super::cluster_output::{ClusterOutput, word, written};
use crate::cli::exit::Exit;
use crate::cli::layout::{self, Colour, Page, ago, clean};
use crate::cli::output::print;
use crate::cli::reach;
use crate::cluster::{Clients, Kind, Objects};
use crate::olm::api::GROUP;
use crate::olm::api::catalog_source::{CatalogSource, Connection, SourceType, condition};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

/// List the catalogs of a cluster
///
/// Shows for each CatalogSource whether it can be asked, which content is served, and when its image was looked for last. Of one that
/// fails it shows since when and why. What was good before is served until the new content can be read.
#[derive(Args, Debug)]
pub(crate) struct CatalogsArgs {
    /// Only those in this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ClusterOutput::Text)]
    pub output: ClusterOutput,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

pub(super) async fn run(args: &CatalogsArgs) -> anyhow::Result<Exit> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let kind = Kind::known(GROUP, "v1alpha1", "CatalogSource", "catalogsources", true);
    let all = Objects::reader(clients.call.clone()).all(&kind).await;
    let all = all.map_err(|error| match error.is_not_found() {
        true => anyhow::anyhow!("this cluster has no CatalogSources: the component olm is not installed"),
        false => reach::explain(&clients.server(), error),
    })?;
    let mut catalogs = rows(all);
    catalogs.retain(|row| args.namespace.as_deref().is_none_or(|namespace| row.namespace == namespace));
    match args.output {
        ClusterOutput::Text => print(&text(&catalogs, &layout::page()))?,
        other => print(&written(other, &serde_json::json!({"schema": 1, "catalogs": catalogs}))?)?,
    }
    Ok(if catalogs.iter().any(|row| row.fails) { Exit::Found } else { Exit::Success })
}

/// By namespace and name.
pub(super) fn rows(objects: Vec<Value>) -> Vec<Row> {
    let mut rows: Vec<Row> = objects.into_iter().map(row).collect();
    rows.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    rows
}

/// One that another program has written in another shape is shown as well.
fn row(object: Value) -> Row {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    match serde_json::from_value(object) {
        Ok(catalog) => Row::of(&catalog),
        Err(error) => {
            let message = format!("the CatalogSource cannot be read: {error}; correct the field");
            Row { namespace, name, fails: true, message, ..Row::default() }
        }
    }
}

/// A catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    namespace: String,
    name: String,
    #[serde(rename = "type")]
    type_: SourceType,
    /// Empty before it was looked at for the first time.
    state: String,
    /// What is served: an image with its digest, a ConfigMap or an address; before that what is wanted.
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_poll: Option<Timestamp>,
    /// The content that is wanted cannot be read, or the catalog cannot be asked.
    fails: bool,
    /// Only where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl Row {
    fn of(catalog: &CatalogSource) -> Row {
        let (metadata, spec) = (&catalog.metadata, &catalog.spec);
        let status = catalog.status.clone().unwrap_or_default();
        let find = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
        let loaded = find(condition::CONTENT_LOADED);
        let is_loaded = loaded.is_some_and(|loaded| loaded.status == "True");
        let failed = loaded.filter(|loaded| loaded.reason == condition::FAILED);
        let resolved = find(condition::RESOLVED_IMAGE).filter(|resolved| resolved.status == "True");
        let connection = status.connection_state.as_ref();
        let away = connection.filter(|it| it.last_observed_state == Connection::TransientFailure);
        let content = match loaded.filter(|_| is_loaded).or(resolved) {
            Some(condition) => condition.message.clone(),
            None if !spec.image.is_empty() => spec.image.clone(),
            None if !spec.config_map.is_empty() => format!("ConfigMap {}", spec.config_map),
            None => spec.address.clone(),
        };
        let since = away.and_then(|it| it.last_connect.as_ref()).map(|it| it.0);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Row {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            type_: spec.source_type.clone(),
            state: connection.map(|it| word(&it.last_observed_state)).unwrap_or_default(),
            content,
            last_poll: status.latest_image_registry_poll.map(|it| it.0),
            fails: away.is_some() || failed.is_some() || !status.reason.is_empty(),
            since: since.or(failed.map(|it| it.last_transition_time.0)),
            message: match status.message.as_str() {
                "" => failed.map(|it| it.message.clone()).unwrap_or_default(),
                message => message.to_owned(),
            },
            reason: status.reason,
        }
    }
}

fn text(catalogs: &[Row], page: &Page) -> String {
    let mut out = String::new();
    if catalogs.is_empty() {
        return "there are no CatalogSources\n".to_owned();
    }
    let cell = |text: &str| (clean(text).into_owned(), Colour::Plain);
    let mut rows = vec![["NAMESPACE", "NAME", "STATE", "LAST POLL", "CONTENT"].map(cell).to_vec()];
    for row in catalogs {
        let poll = row.last_poll.map_or_else(|| "-".to_owned(), |at| format!("{} ago", ago(at, page.now)));
        let (state, colour) = match row.state.as_str() {
            "" => ("-", Colour::Busy),
            "READY" => ("READY", Colour::Good),
            other => (other, if row.fails { Colour::Bad } else { Colour::Busy }),
        };
        let state = (clean(state).into_owned(), colour);
        rows.push(vec![cell(&row.namespace), cell(&row.name), state, cell(&poll), cell(&row.content)]);
    }
    layout::table(page, &mut out, &rows);
    for row in catalogs.iter().filter(|row| row.fails || !row.message.is_empty()) {
        let since = row.since.map(|since| format!(" since {}", ago(since, page.now))).unwrap_or_default();
        let (what, colour) =
            if row.fails { (format!("fails{since}"), Colour::Bad) } else { ("says".into(), Colour::Busy) };
        let reason = if row.reason.is_empty() { String::new() } else { format!(" ({})", row.reason) };
        layout::line(
            page,
            &mut out,
            &format!("\n{}", clean(&format!("{}/{} {what}{reason}", row.namespace, row.name))),
            colour,
        );
        layout::paragraph(page, &mut out, "  ", &row.message, Colour::Plain);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(spec: Value, status: Value) -> Row {
        Row::of(
            &serde_json::from_value(
                json!({"metadata": {"namespace": "m", "name": "c"}, "spec": spec, "status": status}),
            )
            .unwrap(),
        )
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn content_is_what_is_served_and_before_that_what_is_wanted() {
        let image = json!({"sourceType": "grpc", "image": "r.io/c:1"});
        let ready = json!({"lastObservedState": "READY", "lastConnect": "2026-01-01T00:00:00Z"});
        let loaded = condition("ContentLoaded", "True", "Loaded", "r.io/c@sha256:1");
        let resolved = condition("ResolvedImage", "True", "AllTemplatesResolved", "r.io/c:v5");
        for (spec, status, content, state) in [
            (
                image.clone(),
                json!({"connectionState": ready, "conditions": [resolved, loaded]}),
                "r.io/c@sha256:1",
                "READY",
            ),
            (image.clone(), json!({"conditions": [resolved]}), "r.io/c:v5", ""),
            (image, Value::Null, "r.io/c:1", ""),
            (json!({"sourceType": "configmap", "configMap": "x"}), Value::Null, "ConfigMap x", ""),
            (json!({"sourceType": "grpc", "address": "a:50051"}), Value::Null, "a:50051", ""),
        ] {
            let row = row(spec, status);
            assert_eq!((row.content.as_str(), row.state.as_str(), row.fails), (content, state, false));
        }
    }

    #[test]
    fn catalog_that_fails_says_since_when_and_why() {
        let away = json!({"lastObservedState": "TRANSIENT_FAILURE", "lastConnect": "2026-01-01T00:00:00Z"});
        let failed = condition("ContentLoaded", "False", "Failed", "r.io/c:1: not found");
        let status = json!({"reason": "RegistryServerError", "message": "not found", "connectionState": away, "conditions": [failed],
            "latestImageRegistryPoll": "2026-01-01T00:04:00Z"});
        let away = row(json!({"sourceType": "grpc", "image": "r.io/c:1"}), status);
        let ready = Row {
            namespace: "m".into(),
            name: "d".into(),
            state: "READY".into(),
            content: "x".into(),
            ..Row::default()
        };
        let page = Page { width: usize::MAX, colours: false, now: "2026-01-01T00:05:00Z".parse().unwrap() };
        let expected = "NAMESPACE  NAME  STATE              LAST POLL  CONTENT\n\
            m          c     TRANSIENT_FAILURE  1m 0s ago  r.io/c:1\nm          d     READY              -          x\n\n\
            m/c fails since 5m 0s (RegistryServerError)\n  not found\n";
        assert_eq!(text(&[away, ready], &page), expected);
        // The old content is served while the new one cannot be read.
        let old = condition("ContentLoaded", "True", "Loaded", "r.io/c@sha256:1");
        let old = row(
            json!({"sourceType": "grpc"}),
            json!({"reason": "RegistryServerError", "message": "m", "conditions": [old]}),
        );
        assert!(old.fails && old.since.is_none() && old.content == "r.io/c@sha256:1");
        assert_eq!(text(&[], &page), "there are no CatalogSources\n");
    }
}
