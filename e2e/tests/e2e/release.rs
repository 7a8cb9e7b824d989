//! The payload of a release: its image, which of its manifests are included, and the rights that it needs.

mod filters;
mod images;
mod least_privilege;
