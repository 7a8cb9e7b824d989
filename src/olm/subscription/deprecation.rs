//! What catalogs say of packages, channels and bundles that should not be used any more.

use crate::olm::api::subscription::{SubscriptionSpec, condition};
use crate::olm::catalog::index::Index;

/// Types of conditions with their messages: one for each that is deprecated, and one for all of them before these. `bundles`: what is
/// installed or will be.
pub(crate) fn deprecations(index: &Index, spec: &SubscriptionSpec, bundles: &[&str]) -> Vec<(&'static str, String)> {
    let Some(package) = index.package(&spec.name) else { return Vec::new() };
    let channel = package.channel(&spec.channel);
    let of_package = package.deprecation().map(|text| format!("olm.package/{}: {text}", spec.name));
    let of_channel = channel.and_then(|channel| channel.deprecation());
    let of_channel = of_channel.map(|text| format!("olm.channel/{}: {text}", spec.channel));
    let of_bundle = |name: &&str| {
        let text = package.bundle(name)?.deprecation()?;
        Some(format!("olm.bundle/{name}: {text}"))
    };
    let of_bundles: Vec<String> = bundles.iter().filter_map(of_bundle).collect();
    let of_bundles = (!of_bundles.is_empty()).then(|| of_bundles.join("; "));
    let each = [
        (condition::PACKAGE_DEPRECATED, of_package),
        (condition::CHANNEL_DEPRECATED, of_channel),
        (condition::BUNDLE_DEPRECATED, of_bundles),
    ];
    let each: Vec<(&'static str, String)> = each.into_iter().filter_map(|(type_, text)| Some((type_, text?))).collect();
    if each.is_empty() {
        return each;
    }
    let all = each.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("; ");
    [(condition::DEPRECATED, all)].into_iter().chain(each).collect()
}
