//! Whether the objects that exist fit another schema of their kind.

use crate::cluster::{ApiError, Kind, Objects};
use crate::olm::plan::definition;
use crate::olm::plan::schema::Schema;
use serde_json::Value;

/// Objects of a version of a definition that do not fit, each with what is wrong, and whether these are all of them.
pub(crate) async fn invalid(
    objects: &Objects,
    definition: &Value,
    version: &str,
    schema: &Schema,
) -> Result<(Vec<String>, bool), ApiError> {
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, kind, plural) = (text("/spec/group"), text("/spec/names/kind"), text("/spec/names/plural"));
    let kind = Kind::known(group, version, kind, plural, text("/spec/scope") == "Namespaced");
    let (mut invalid, mut token) = (Vec::new(), None);
    loop {
        let page = objects.page(&kind, token).await?;
        if !definition::add_unfit(&mut invalid, schema, &page.items) {
            return Ok((invalid, false));
        }
        token = page.next();
        if token.is_none() {
            return Ok((invalid, true));
        }
    }
}
