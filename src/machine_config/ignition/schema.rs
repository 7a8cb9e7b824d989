//! All fields of the Ignition specification 3.5: type, the version that brought them, and how lists are merged.

use serde_json::Value;

pub(super) enum Shape {
    Text,
    Integer,
    Flag,
    Object(&'static Object),
    List(Key, &'static Shape),
}

pub(super) struct Object {
    pub fields: &'static [Field],
    pub merging: Merging,
}

pub(super) struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
    /// The minor of the first version 3 that has it.
    pub since: u64,
}

/// By what entries of a list are the same, in one configuration, where this is an error, and in two that are merged.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// By nothing: lists are appended to each other.
    None,
    /// By their text. One that is there twice does no harm.
    Text,
    Field(&'static str),
    /// By `number`, or without one by `label`.
    Partition,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Merging {
    /// Each field by itself.
    Fields,
    /// An entry of one of these lists replaces those of the others that have the same key.
    SharedKeys(&'static [&'static str]),
    /// How the source is compressed, and which hash it has, belongs to the source: one without the other would describe
    /// the contents of another configuration.
    Resource,
}

/// What each source of a [`Merging::Resource`] brings itself.
pub(super) const OF_SOURCE: [&str; 2] = ["compression", "verification"];

impl Key {
    /// The key of an entry; `None` if entries have none.
    pub(super) fn of(self, entry: &Value) -> Option<String> {
        let text = |name| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        match self {
            Key::None => None,
            Key::Text => entry.as_str().map(str::to_owned),
            Key::Field(name) => text(name),
            Key::Partition => match entry.get("number").and_then(Value::as_i64) {
                Some(number) if number != 0 => Some(format!("number {number}")),
                _ => text("label").map(|label| format!("label {label}")),
            },
        }
    }
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: false, since: 0 }
}
const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, required: true, since: 0 }
}
const fn since(since: u64, field: Field) -> Field {
    Field { name: field.name, shape: field.shape, required: field.required, since }
}
const fn texts(name: &'static str) -> Field {
    field(name, Shape::List(Key::Text, &Shape::Text))
}
/// Options of commands: their order matters, and one may be there twice.
const fn options(name: &'static str) -> Field {
    field(name, Shape::List(Key::None, &Shape::Text))
}
const fn entries(name: &'static str, key: Key, shape: &'static Shape) -> Field {
    field(name, Shape::List(key, shape))
}
const fn object(fields: &'static [Field]) -> Object {
    Object { fields, merging: Merging::Fields }
}

use Shape::{Flag, Integer, Text};

const NAME: Key = Key::Field("name");
const PATH: Key = Key::Field("path");
const DEVICE: Key = Key::Field("device");

pub(super) const CONFIG: Object = object(&[
    required("ignition", Shape::Object(&IGNITION)),
    since(3, field("kernelArguments", Shape::Object(&KERNEL_ARGUMENTS))),
    field("passwd", Shape::Object(&PASSWD)),
    field("storage", Shape::Object(&STORAGE)),
    field("systemd", Shape::Object(&SYSTEMD)),
]);

const IGNITION: Object = object(&[
    field("config", Shape::Object(&CONFIGS)),
    since(1, field("proxy", Shape::Object(&PROXY))),
    field("security", Shape::Object(&SECURITY)),
    field("timeouts", Shape::Object(&TIMEOUTS)),
    required("version", Text),
]);
const CONFIGS: Object =
    object(&[entries("merge", Key::None, &RESOURCE_SHAPE), field("replace", Shape::Object(&RESOURCE))]);
const PROXY: Object = object(&[field("httpProxy", Text), field("httpsProxy", Text), texts("noProxy")]);
const SECURITY: Object = object(&[field("tls", Shape::Object(&TLS))]);
const TLS: Object = object(&[entries("certificateAuthorities", Key::Field("source"), &RESOURCE_SHAPE)]);
const TIMEOUTS: Object = object(&[field("httpResponseHeaders", Integer), field("httpTotal", Integer)]);

const RESOURCE_SHAPE: Shape = Shape::Object(&RESOURCE);
const RESOURCE: Object = Object {
    merging: Merging::Resource,
    fields: &[
        field("compression", Text),
        since(1, entries("httpHeaders", NAME, &HEADER_SHAPE)),
        field("source", Text),
        field("verification", Shape::Object(&VERIFICATION)),
    ],
};
const HEADER_SHAPE: Shape = Shape::Object(&HEADER);
const HEADER: Object = object(&[required("name", Text), field("value", Text)]);
const VERIFICATION: Object = object(&[field("hash", Text)]);

const KERNEL_ARGUMENTS: Object = Object {
    merging: Merging::SharedKeys(&["shouldExist", "shouldNotExist"]),
    fields: &[texts("shouldExist"), texts("shouldNotExist")],
};

const PASSWD: Object = object(&[entries("groups", NAME, &GROUP_SHAPE), entries("users", NAME, &USER_SHAPE)]);
const GROUP_SHAPE: Shape = Shape::Object(&GROUP);
const GROUP: Object = object(&[
    field("gid", Integer),
    required("name", Text),
    field("passwordHash", Text),
    since(2, field("shouldExist", Flag)),
    field("system", Flag),
]);
const USER_SHAPE: Shape = Shape::Object(&USER);
const USER: Object = object(&[
    field("gecos", Text),
    texts("groups"),
    field("homeDir", Text),
    required("name", Text),
    field("noCreateHome", Flag),
    field("noLogInit", Flag),
    field("noUserGroup", Flag),
    field("passwordHash", Text),
    field("primaryGroup", Text),
    texts("sshAuthorizedKeys"),
    field("shell", Text),
    since(2, field("shouldExist", Flag)),
    field("system", Flag),
    field("uid", Integer),
]);

const STORAGE: Object = Object {
    merging: Merging::SharedKeys(&["directories", "files", "links"]),
    fields: &[
        entries("directories", PATH, &DIRECTORY_SHAPE),
        entries("disks", DEVICE, &DISK_SHAPE),
        entries("files", PATH, &FILE_SHAPE),
        entries("filesystems", DEVICE, &FILESYSTEM_SHAPE),
        entries("links", PATH, &LINK_SHAPE),
        since(2, entries("luks", NAME, &LUKS_SHAPE)),
        entries("raid", NAME, &RAID_SHAPE),
    ],
};
const OWNER: Object = object(&[field("id", Integer), field("name", Text)]);
const DIRECTORY_SHAPE: Shape = Shape::Object(&DIRECTORY);
const DIRECTORY: Object = object(&[
    field("group", Shape::Object(&OWNER)),
    field("mode", Integer),
    field("overwrite", Flag),
    required("path", Text),
    field("user", Shape::Object(&OWNER)),
]);
const FILE_SHAPE: Shape = Shape::Object(&FILE);
const FILE: Object = object(&[
    entries("append", Key::None, &RESOURCE_SHAPE),
    field("contents", Shape::Object(&RESOURCE)),
    field("group", Shape::Object(&OWNER)),
    field("mode", Integer),
    field("overwrite", Flag),
    required("path", Text),
    field("user", Shape::Object(&OWNER)),
]);
const LINK_SHAPE: Shape = Shape::Object(&LINK);
const LINK: Object = object(&[
    field("group", Shape::Object(&OWNER)),
    field("hard", Flag),
    field("overwrite", Flag),
    required("path", Text),
    field("target", Text),
    field("user", Shape::Object(&OWNER)),
]);
const DISK_SHAPE: Shape = Shape::Object(&DISK);
const DISK: Object = object(&[
    required("device", Text),
    entries("partitions", Key::Partition, &PARTITION_SHAPE),
    field("wipeTable", Flag),
]);
const PARTITION_SHAPE: Shape = Shape::Object(&PARTITION);
const PARTITION: Object = object(&[
    field("guid", Text),
    field("label", Text),
    field("number", Integer),
    since(2, field("resize", Flag)),
    field("shouldExist", Flag),
    field("sizeMiB", Integer),
    field("startMiB", Integer),
    field("typeGuid", Text),
    field("wipePartitionEntry", Flag),
]);
const FILESYSTEM_SHAPE: Shape = Shape::Object(&FILESYSTEM);
const FILESYSTEM: Object = object(&[
    required("device", Text),
    field("format", Text),
    field("label", Text),
    since(1, options("mountOptions")),
    options("options"),
    field("path", Text),
    field("uuid", Text),
    field("wipeFilesystem", Flag),
]);
const RAID_SHAPE: Shape = Shape::Object(&RAID);
const RAID: Object = object(&[
    texts("devices"),
    field("level", Text),
    required("name", Text),
    options("options"),
    field("spares", Integer),
]);
const LUKS_SHAPE: Shape = Shape::Object(&LUKS);
const LUKS: Object = object(&[
    since(5, field("cex", Shape::Object(&CEX))),
    field("clevis", Shape::Object(&CLEVIS)),
    field("device", Text),
    since(4, field("discard", Flag)),
    field("keyFile", Shape::Object(&RESOURCE)),
    field("label", Text),
    required("name", Text),
    since(4, texts("openOptions")),
    options("options"),
    field("uuid", Text),
    field("wipeVolume", Flag),
]);
const CEX: Object = object(&[field("enabled", Flag)]);
const CLEVIS: Object = object(&[
    field("custom", Shape::Object(&CUSTOM)),
    entries("tang", Key::Field("url"), &TANG_SHAPE),
    field("threshold", Integer),
    field("tpm2", Flag),
]);
const CUSTOM: Object = object(&[field("config", Text), field("needsNetwork", Flag), field("pin", Text)]);
const TANG_SHAPE: Shape = Shape::Object(&TANG);
const TANG: Object = object(&[since(4, field("advertisement", Text)), field("thumbprint", Text), field("url", Text)]);

const SYSTEMD: Object = object(&[entries("units", NAME, &UNIT_SHAPE)]);
const UNIT_SHAPE: Shape = Shape::Object(&UNIT);
const UNIT: Object = object(&[
    field("contents", Text),
    entries("dropins", NAME, &DROP_IN_SHAPE),
    field("enabled", Flag),
    field("mask", Flag),
    required("name", Text),
]);
const DROP_IN_SHAPE: Shape = Shape::Object(&DROP_IN);
const DROP_IN: Object = object(&[field("contents", Text), required("name", Text)]);
