//! Whether definitions may become what bundles want, by the functions that carry plans out.

use super::{DefinitionVerdict, Forecast, Unfit};
use crate::olm::plan::definition::{self, Risk};
use crate::olm::plan::schema::Schema;
use crate::olm::plan::step::Item;
use crate::olm::plan::together::Together;
use serde_json::Value;

/// The versions of a definition whose objects have to be compared with their new schema, each with that.
pub(crate) fn stricter(live: &Value, item: &Item) -> Vec<(String, Schema)> {
    match definition::is_converted(&item.object) || definition::is_converted(live) {
        true => Vec::new(),
        false => definition::stricter(live, &item.object),
    }
}

pub(super) fn created(item: &Item, forecast: &mut Forecast) {
    let findings = vec!["it is new".to_owned()];
    forecast.definitions.push(DefinitionVerdict { name: item.name.clone(), findings, ..DefinitionVerdict::default() });
}

pub(super) fn changed(
    item: &Item,
    (live, new): (&Value, &Value),
    (together, namespace): (&Together, &str),
    unfit: &Unfit,
    forecast: &mut Forecast,
) {
    let mut verdict = DefinitionVerdict { name: item.name.clone(), ..DefinitionVerdict::default() };
    verdict.findings.extend(together.shared(item, (live, new), namespace));
    let mut risks = definition::risks(live, new);
    let stored = live.pointer("/status/storedVersions").and_then(Value::as_array).into_iter().flatten();
    let stored: Vec<&str> = stored.filter_map(Value::as_str).collect();
    if risks.is_empty() && !stored.is_empty() {
        verdict.findings.push(format!("it keeps its stored versions {}", stored.join(", ")));
    }
    let converts = definition::is_converted(&item.object) || definition::is_converted(new);
    if converts && !definition::stricter(live, new).is_empty() {
        let text = "its objects are not compared with its new schema: a webhook converts them";
        verdict.findings.push(text.to_owned());
    } else if !converts {
        for (version, _) in definition::stricter(live, new) {
            match unfit.get(&(item.name.clone(), version.clone())) {
                Some(Ok((invalid, is_all))) if !invalid.is_empty() => {
                    let text = definition::too_restrictive(&item.name, &version, invalid, *is_all);
                    risks.push(Risk { text, may_be_taken: true });
                }
                Some(Ok(_)) => {
                    let text = format!("all objects that exist fit the new schema of version {version}");
                    verdict.findings.push(text);
                }
                Some(Err(cause)) => {
                    let text = format!("Whether all {} fit the new schema of version {version}: {cause}", item.name);
                    forecast.unknown.push(text);
                }
                None => {
                    let text = format!("Whether all {} fit the new schema of version {version}.", item.name);
                    forecast.unknown.push(text);
                }
            }
        }
    }
    let (taken, refused) = together.judged(&item.name, live, risks);
    let texts = |risks: Vec<Risk>| risks.into_iter().map(|risk| risk.text).collect::<Vec<String>>();
    (verdict.taken, verdict.refused) = (texts(taken), texts(refused));
    forecast.held.extend(verdict.refused.iter().map(|text| format!("CustomResourceDefinition {}: {text}", item.name)));
    forecast.definitions.push(verdict);
}
