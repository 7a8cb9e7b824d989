//! One blob of a catalog: what it says of which package, and what is wrong with it that it shows by itself. Blobs of other schemas
//! than the four that are known are kept as they are.

use super::channel::{self, Entry};
use super::fault::{Reason, short};
use super::fields::{FieldError, Fields};
use super::properties::{self, Identity, Property};
use super::pull_spec::is_pull_spec;
use crate::olm::names::schema::{BUNDLE, CHANNEL, DEPRECATIONS, PACKAGE};
use crate::olm::names::{is_label, is_release, property};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;

/// A blob.
#[derive(Debug)]
pub(super) struct Record<'a> {
    /// The blob itself.
    pub json: &'a str,
    pub schema: Cow<'a, str>,
    /// Of an `olm.package` its name. Empty if there is none.
    pub package: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub content: Content<'a>,
    /// What is large, and stays in the data file.
    pub stored: Vec<Stored<'a>>,
    /// Why its package cannot be served.
    pub reasons: Vec<Reason>,
}

/// What a blob says.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Package {
        default_channel: Cow<'a, str>,
        properties: Vec<Property<'a>>,
    },
    Channel {
        entries: Vec<Entry<'a>>,
        head: usize,
        properties: Vec<Property<'a>>,
    },
    Bundle {
        image: Cow<'a, str>,
        identity: Identity<'a>,
        properties: Vec<Property<'a>>,
    },
    Deprecations(Vec<Deprecation<'a>>),
    /// A schema that is not known.
    Custom,
    /// Not known, for the reasons of the record.
    None,
}

/// What is deprecated, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Deprecation<'a> {
    pub target: Target,
    /// Empty for the package.
    pub name: Cow<'a, str>,
    pub message: Cow<'a, str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Target {
    Package,
    Channel,
    Bundle,
}

/// A part of a blob that is not kept in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub kind: StoredKind,
    /// JSON.
    pub json: &'a str,
}

/// What a part of a blob is. The numbers are those of an index on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A value of the property `olm.csv.metadata`.
    Metadata = 1,
    /// A value of the property `olm.bundle.object`.
    Object = 2,
    RelatedImages = 3,
    /// The description of a package: a text.
    Description = 4,
    /// The icon of a package.
    Icon = 5,
}

impl<'a> Record<'a> {
    /// Reads a blob that is an object. An error says that it is not JSON.
    pub(super) fn parse(json: &'a str) -> Result<Self, serde_json::Error> {
        let fields = Fields::parse(json)?;
        let mut record = Record {
            json,
            schema: Cow::Borrowed(""),
            package: Cow::Borrowed(""),
            name: Cow::Borrowed(""),
            content: Content::None,
            stored: Vec::new(),
            reasons: Vec::new(),
        };
        record
            .keys(&fields)
            .and_then(|()| record.content(&fields))
            .unwrap_or_else(|reason| record.reasons.push(reason));
        Ok(record)
    }

    /// Schema and name, such as `olm.bundle a.v1.0.0`.
    pub(super) fn label(&self) -> String {
        let name = if self.schema == DEPRECATIONS { &self.package } else { &self.name };
        format!("{} {}", short(&self.schema), short(name)).trim().to_owned()
    }

    fn keys(&mut self, fields: &Fields<'a>) -> Result<(), Reason> {
        // The package first, so that a fault of the others is known to be one of this package.
        self.package = fields.text("package")?;
        self.schema = fields.text("schema")?;
        self.name = fields.text("name")?;
        if self.schema == PACKAGE {
            self.package = self.name.clone();
        }
        if let Some((one, other)) = fields.spellings() {
            return Err(Reason::Spellings { one: short(one), other: short(other) });
        }
        if self.schema.is_empty() { Err(Reason::NoSchema) } else { Ok(()) }
    }

    fn content(&mut self, fields: &Fields<'a>) -> Result<(), Reason> {
        let known = [PACKAGE, CHANNEL, BUNDLE, DEPRECATIONS].contains(&self.schema.as_ref());
        if known && self.name.is_empty() && self.schema != DEPRECATIONS {
            self.reasons.push(Reason::NoName);
        } else if known && self.package.is_empty() {
            self.reasons.push(Reason::NoPackage);
        }
        self.content = match self.schema.as_ref() {
            PACKAGE => self.package(fields)?,
            CHANNEL => {
                let properties = Property::all(fields, &mut self.reasons);
                let entries = entries(fields)?;
                let (head, reasons) = channel::check(&entries);
                self.reasons.extend(reasons);
                Content::Channel { entries, head, properties }
            }
            BUNDLE => self.bundle(fields)?,
            DEPRECATIONS => Content::Deprecations(deprecations(fields, &mut self.reasons)?),
            _ => Content::Custom,
        };
        Ok(())
    }

    fn package(&mut self, fields: &Fields<'a>) -> Result<Content<'a>, Reason> {
        if !self.name.is_empty() && !is_label(&self.name) {
            self.reasons.push(Reason::PackageName(short(&self.name)));
        }
        let properties = Property::all(fields, &mut self.reasons);
        if !fields.text("description")?.is_empty() {
            self.store(StoredKind::Description, fields.get("description"));
        }
        let icon = fields.get("icon");
        if icon.map_or(Ok(false), has_icon)? {
            self.store(StoredKind::Icon, icon);
        }
        Ok(Content::Package { default_channel: fields.text("defaultChannel")?, properties })
    }

    fn bundle(&mut self, fields: &Fields<'a>) -> Result<Content<'a>, Reason> {
        let faults = self.reasons.len();
        let mut properties = Property::all(fields, &mut self.reasons);
        if self.reasons.len() > faults {
            // What is missing may be in a property that nobody understands.
            return Ok(Content::None);
        }
        for (kind, stored) in [(property::METADATA, StoredKind::Metadata), (property::OBJECT, StoredKind::Object)] {
            for property in properties.iter().filter(|property| property.kind == kind) {
                self.store(stored, Some(property.value));
            }
        }
        let has_objects = self.stored.iter().any(|stored| stored.kind == StoredKind::Object);
        properties.retain(|property| ![property::METADATA, property::OBJECT].contains(&property.kind.as_ref()));
        self.related_images(fields)?;
        let image = fields.text("image")?;
        match image.as_ref() {
            "" if has_objects => {}
            "" => self.reasons.push(Reason::NoContent),
            image if is_pull_spec(image) => {}
            image => self.reasons.push(Reason::Image { image: short(image) }),
        }
        let mut identities = properties.iter().filter(|property| property.kind == property::PACKAGE);
        let identity = match (identities.next(), identities.count()) {
            (Some(only), 0) => only.identity(),
            (first, more) => return Err(Reason::PackageProperties { count: more + usize::from(first.is_some()) }),
        };
        self.check(&identity);
        Ok(Content::Bundle { image, identity, properties })
    }

    fn related_images(&mut self, fields: &Fields<'a>) -> Result<(), Reason> {
        let related = fields.list("relatedImages")?;
        for (index, value) in related.iter().enumerate() {
            let fields = Fields::of(value, &format!("relatedImages[{index}]"))?;
            let (_name, image) = (fields.text("name")?, fields.text("image")?);
            if !image.is_empty() && !is_pull_spec(&image) {
                self.reasons.push(Reason::RelatedImage { index, image: short(&image) });
            }
        }
        if !related.is_empty() {
            self.store(StoredKind::RelatedImages, fields.get("relatedImages"));
        }
        Ok(())
    }

    /// Whether the identity of a bundle is valid and belongs to its name and package.
    fn check(&mut self, identity: &Identity<'_>) {
        let Identity { package, version, release } = identity;
        if *package != self.package {
            self.reasons.push(Reason::OtherPackage { named: short(package), package: short(&self.package) });
        }
        let parsed = semver::Version::parse(version);
        if let Err(cause) = &parsed {
            self.reasons.push(Reason::Version { version: short(version), cause: cause.to_string() });
        }
        if release.is_empty() {
            return;
        }
        if !is_release(release) {
            self.reasons.push(Reason::Release { release: short(release) });
        } else if parsed.is_ok_and(|version| !version.build.is_empty()) {
            self.reasons.push(Reason::ReleaseBuild { version: short(version) });
        } else if self.name != format!("{package}-v{version}-{release}") {
            self.reasons.push(Reason::ReleaseName { expected: short(&format!("{package}-v{version}-{release}")) });
        }
    }

    fn store(&mut self, kind: StoredKind, value: Option<&'a RawValue>) {
        self.stored.extend(value.map(|value| Stored { kind, json: value.get() }));
    }
}

fn entries<'a>(fields: &Fields<'a>) -> Result<Vec<Entry<'a>>, FieldError> {
    let entry = |(index, value): (usize, &'a RawValue)| {
        let fields = Fields::of(value, &format!("entries[{index}]"))?;
        Ok(Entry {
            name: fields.text("name")?,
            replaces: fields.text("replaces")?,
            skips: fields.texts("skips")?,
            skip_range: fields.text("skipRange")?,
        })
    };
    fields.list("entries")?.into_iter().enumerate().map(entry).collect()
}

fn deprecations<'a>(fields: &Fields<'a>, reasons: &mut Vec<Reason>) -> Result<Vec<Deprecation<'a>>, FieldError> {
    let (mut read, mut known) = (Vec::new(), HashSet::new());
    for (index, value) in fields.list("entries")?.into_iter().enumerate() {
        let fields = Fields::of(value, &format!("entries[{index}]"))?;
        match deprecation(&fields)? {
            Ok(entry) if known.insert((entry.target, entry.name.clone())) => read.push(entry),
            Ok(entry) => reasons.push(Reason::DeprecatedTwice { index, target: target(entry.target, &entry.name) }),
            Err(cause) => reasons.push(Reason::Deprecation { index, cause }),
        }
    }
    Ok(read)
}

/// The inner error says what is missing.
fn deprecation<'a>(fields: &Fields<'a>) -> Result<Result<Deprecation<'a>, String>, FieldError> {
    let reference = fields.get("reference").map_or(Ok(Fields::default()), |value| Fields::of(value, "reference"))?;
    let (schema, name, message) = (reference.text("schema")?, reference.text("name")?, fields.text("message")?);
    let target = match (schema.as_ref(), name.is_empty()) {
        (PACKAGE, true) => Target::Package,
        (PACKAGE, false) => return Ok(Err(format!("a reference to {PACKAGE} has no name; remove it"))),
        (CHANNEL, false) => Target::Channel,
        (BUNDLE, false) => Target::Bundle,
        (CHANNEL | BUNDLE, true) => return Ok(Err(format!("its reference to an {schema} has no name"))),
        (other, _) => {
            let other = short(other);
            return Ok(Err(format!(
                "its reference has the schema {other:?}, but must have {PACKAGE}, {CHANNEL} or {BUNDLE}"
            )));
        }
    };
    Ok(if message.is_empty() {
        Err("its message is empty".to_owned())
    } else {
        Ok(Deprecation { target, name, message })
    })
}

/// What is deprecated, for messages.
pub(super) fn target(target: Target, name: &str) -> String {
    match target {
        Target::Package => format!("the {PACKAGE}"),
        Target::Channel => format!("{CHANNEL} {}", short(name)),
        Target::Bundle => format!("{BUNDLE} {}", short(name)),
    }
}

/// Whether an icon is more than its empty form. It must be one that can be shown.
fn has_icon(icon: &RawValue) -> Result<bool, Reason> {
    let wrong = |error: FieldError| Reason::Icon { cause: error.to_string() };
    let fields = Fields::of(icon, "icon")?;
    fields.text("mediatype").map_err(wrong)?;
    let data = fields.text("base64data").map_err(wrong)?;
    if data.is_empty() {
        return Ok(false);
    }
    properties::base64(&data).map_err(|cause| Reason::Icon { cause: format!("base64data: {cause}") })?;
    Ok(true)
}

#[cfg(test)]
mod tests;
