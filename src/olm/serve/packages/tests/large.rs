//! How long a large catalog takes: that of `lab catalog write`, where CVO_CATALOG names its folder.

use super::*;
use crate::olm::catalog::served::{Content, Data};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

struct OnDisk(File);

impl Data for OnDisk {
    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

/// In KiB.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

#[tokio::test]
async fn lists_of_a_large_catalog_are_measured() {
    let Ok(folder) = std::env::var("CVO_CATALOG") else {
        println!("skipped: CVO_CATALOG names the folder of no catalog");
        return;
    };
    let file = tempfile::tempfile().unwrap();
    let read = crate::olm::net::folder::read(folder.as_ref(), io::BufWriter::new(file.try_clone().unwrap())).unwrap();
    let counts = read.index.counts();
    // What reading took is not what serving takes.
    let mut bytes = Vec::new();
    read.index.write(&mut bytes).unwrap();
    drop(read);
    let index = crate::olm::catalog::index::Index::read(bytes.as_slice()).unwrap();
    drop(bytes);
    crate::heap::give_back();
    let content = Arc::new(Content::new(index, Box::new(OnDisk(file))));
    let running = Running::start().await;
    println!("{counts:?}; resident before {} KiB", memory("VmRSS:"));
    let begun = Instant::now();
    running.becomes(Arc::new([served(GLOBAL, "community", &content)].into())).await;
    println!("labels: {:?}", begun.elapsed());
    let name = content.index.packages().next().unwrap().name().to_owned();
    let (all, one) = (format!("{V1}/packagemanifests"), format!("{V1}/namespaces/team/packagemanifests/{name}"));
    for (what, path, accept, encoding) in [
        ("one", &one, "", ""),
        ("table", &all, TABLE, ""),
        ("json", &all, "", ""),
        ("json, gzip", &all, "", "gzip"),
        ("icon", &format!("{one}/icon"), "", ""),
    ] {
        for _ in 0..3 {
            let begun = Instant::now();
            let request = running.request("alice", path).header("accept", accept).header("accept-encoding", encoding);
            let mut answer = request.send().await.unwrap();
            assert_eq!(answer.status().as_u16(), 200);
            let mut length = 0;
            while let Some(piece) = answer.chunk().await.unwrap() {
                length += piece.len();
            }
            println!("{what}: {:?}, {length} bytes, resident {} KiB", begun.elapsed(), memory("VmRSS:"));
        }
    }
    let lists = (0..8).map(|_| async {
        running.request("alice", &all).send().await.unwrap().chunk().await.unwrap().map(|it| it.len())
    });
    let begun = Instant::now();
    futures::future::join_all(lists).await;
    println!(
        "eight lists begun: {:?}, resident {} KiB, most {} KiB",
        begun.elapsed(),
        memory("VmRSS:"),
        memory("VmHWM:")
    );
}
