//! Keyrings and signatures that real gpg has made, judged by this program and compared with what gpg says of them.
//!
//! `../vectors/make` makes them, and says what is needed for that. Each row of `../vectors/table.tsv` is a signature, the keyrings
//! that must have signed, and a time; then what three generations of gpg say, what is said here, and why that is stricter.

use crate::verify::{Checked, Config, Digest, Verifier};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DIGEST: &str = "sha256:a4d451ec766eaa70e3c7ba1b6c3ef8bb6d3b17a5b0a3d0b0e0d3c0f6b0c1d2e3";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verify/vectors")
}

fn read(path: &str) -> Vec<u8> {
    std::fs::read(folder().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// One line of the table.
struct Row {
    signature: String,
    keyrings: Vec<String>,
    /// As gpg takes it: `20260301T000000`, in UTC.
    time: String,
    /// For gpg 1.4, 2.2 and 2.4: for each keyring its keywords, joined by `+`, and its exit code.
    gpg: [Vec<String>; 3],
    /// `accepted`, or a part of what this program says.
    ours: String,
    reason: String,
}

impl Row {
    fn name(&self) -> String {
        format!("{} by {} at {}", self.signature, self.keyrings.join(","), self.time)
    }

    fn accepted(&self) -> bool {
        self.ours == "accepted"
    }

    /// What this program says now.
    fn judge(&self) -> Checked {
        let mut config = Config::default();
        for name in &self.keyrings {
            config.add_keyring(name, &read(&format!("keyrings/{name}.asc"))).unwrap();
        }
        let now: Timestamp = format!("{}Z", self.time).parse().unwrap();
        let signature = read(&format!("signatures/{}", self.signature));
        Verifier::new(config).check(&Digest::parse(DIGEST).unwrap(), &signature, now)
    }
}

fn table() -> Vec<Row> {
    let text = String::from_utf8(read("table.tsv")).unwrap();
    let list = |field: &str| field.split(',').map(str::to_owned).collect::<Vec<_>>();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [signature, keyrings, time, old, middle, new, ours, reason] = fields[..] else { panic!("{line}") };
        Row {
            signature: signature.to_owned(),
            keyrings: list(keyrings),
            time: time.to_owned(),
            gpg: [list(old), list(middle), list(new)],
            ours: ours.to_owned(),
            reason: reason.to_owned(),
        }
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn signatures_by_gpg_are_judged_as_the_table_says() {
    let table = table();
    let mut wrong = Vec::new();
    for row in &table {
        let Checked { satisfied, refused } = row.judge();
        let all = satisfied.len() == row.keyrings.len();
        let said = if all { "accepted".to_owned() } else { refused.join("; ") };
        if all != row.accepted() || !said.contains(&row.ours) {
            wrong.push(format!("{}\n    is: {said}\n    table: {}", row.name(), row.ours));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in [names("signatures"), names("keyrings")].concat() {
        let used = |row: &Row| row.signature == name || row.keyrings.iter().any(|k| format!("{k}.asc") == name);
        assert!(table.iter().any(used), "no row of the table uses {name}");
    }
}

fn names(below: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder().join(below)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn nothing_is_accepted_that_gpg_refuses_and_what_is_stricter_has_a_reason() {
    for row in table() {
        let [.., newest] = &row.gpg;
        assert_eq!(newest.len(), row.keyrings.len(), "{}", row.name());
        let good = newest.iter().all(|verdict| verdict == "GOODSIG:0");
        // A good signature by a key that has expired since, or beside one by a key that is not in the keyring.
        let remark = |verdict: &String| ["GOODSIG:0", "EXPKEYSIG:0", "ERRSIG+GOODSIG:2"].contains(&verdict.as_str());
        assert!(!row.accepted() || newest.iter().all(remark), "{} is accepted, gpg: {newest:?}", row.name());
        assert!(
            good == row.accepted() || !good && !row.accepted() || row.reason != "-",
            "{} needs a reason",
            row.name()
        );
    }
}

/// A gpg home directory that is removed with everything in it.
struct Home(tempfile::TempDir);

impl Home {
    fn gpg(&self, time: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(self.0.path()).args(["--batch", "--no-tty", "--no-autostart"]);
        command.args(["--trust-model", "always", "--faked-system-time", time]).args(arguments);
        command.output().unwrap()
    }

    /// The keywords and the exit code, as in the table.
    fn verdict(&self, row: &Row) -> String {
        let file = folder().join("signatures").join(&row.signature);
        let output = self.gpg(&row.time, &["--status-fd", "1", "--verify", file.to_str().unwrap()]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let keyword = |line: &str| line.strip_prefix("[GNUPG:] ")?.split(' ').next().map(str::to_owned);
        let known = ["GOODSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "BADSIG", "ERRSIG", "NODATA"];
        let said: BTreeSet<String> = text.lines().filter_map(keyword).filter(|k| known.contains(&k.as_str())).collect();
        let said = if said.is_empty() { "nothing".to_owned() } else { said.into_iter().collect::<Vec<_>>().join("+") };
        format!("{said}:{}", output.status.code().unwrap())
    }
}

/// Where in the table the gpg of this machine is. `None`, with a note, where there is none of these generations.
fn installed() -> Option<usize> {
    let Ok(output) = Command::new("gpg").arg("--version").output() else {
        println!("skipped: gpg is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
    let found = [None, Some("2.2."), Some("2.4.")].iter().position(|g| g.is_some_and(|g| version.starts_with(g)));
    if found.is_none() {
        println!("skipped: gpg is {version}, and the table has 2.2 and 2.4");
    }
    found
}

#[test]
fn gpg_of_this_machine_says_what_the_table_says() {
    let Some(generation) = installed() else { return };
    let mut homes: BTreeMap<(String, String), Home> = BTreeMap::new();
    for row in table() {
        for (name, expected) in row.keyrings.iter().zip(&row.gpg[generation]) {
            let home = homes.entry((name.clone(), row.time.clone())).or_insert_with(|| {
                let home = Home(tempfile::tempdir().unwrap());
                let file = folder().join("keyrings").join(format!("{name}.asc"));
                // It fails for keys that gpg does not take, which then are not there.
                home.gpg(&row.time, &["--import", file.to_str().unwrap()]);
                home
            });
            assert_eq!(&home.verdict(&row), expected, "{} with {name}", row.name());
        }
    }
}

/// The signature of an image as Red Hat has published it in 2019, and the key that it was made with, by which releases of
/// OpenShift 4 were signed, too: a signature packet of version 3, which OpenPGP has given up since.
#[test]
fn a_published_signature_of_the_old_kind_is_accepted_for_its_own_digest_alone() {
    const RELEASE: &str = "sha256:e3f12513a4b22a2d7c0e7c9207f52128113758d9d68c7d06b11a0ac7672966f7";
    let mut config = Config::default();
    config.add_keyring("release", &read("real/keyring.asc")).unwrap();
    let now: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    let signature = read("real/signature");
    let verifier = Verifier::new(config);
    let judge = |digest: &str, signature: &[u8]| verifier.check(&Digest::parse(digest).unwrap(), signature, now);
    let Checked { satisfied, refused } = judge(RELEASE, &signature);
    assert_eq!((satisfied.len(), refused.len()), (1, 0), "{refused:?}");
    assert!(judge(DIGEST, &signature).satisfied.is_empty(), "another release");
    for at in [200, signature.len() / 2, signature.len() - 40] {
        let mut changed = signature.clone();
        changed[at] ^= 1;
        let Checked { satisfied, .. } = judge(RELEASE, &changed);
        assert!(satisfied.is_empty(), "accepted although byte {at} was changed");
    }
}
