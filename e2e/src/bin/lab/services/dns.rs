//! The names of Services by DNS: addresses of version 4, by UDP. There are no other names.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Service;
use tokio::net::UdpSocket;
use tokio::sync::watch;

/// Addresses by names.
pub(super) type Names = BTreeMap<String, BTreeSet<Ipv4Addr>>;

const HEADER: usize = 12;
/// Largest message by UDP.
const MESSAGE: usize = 512;
/// An address of version 4.
const A: [u8; 2] = [0, 1];
const IN: [u8; 2] = [0, 1];
/// Seconds for which an answer is good.
const LIFETIME: [u8; 4] = [0, 0, 0, 1];
/// The name of the question, which stands behind the header.
const SAME_NAME: [u8; 2] = [0xc0, 0x0c];
const NO_SUCH_NAME: u8 = 3;

/// The whole name of a Service.
pub(super) fn name_of(service: &Service) -> String {
    let metadata = &service.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}.{}.svc.cluster.local", text(&metadata.name), text(&metadata.namespace))
}

/// Answers until the socket fails.
pub(super) async fn serve(socket: UdpSocket, names: watch::Receiver<Names>) -> io::Result<()> {
    let mut buffer = [0; MESSAGE];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await?;
        let answer = buffer.get(..length).and_then(|query| answer(query, &names.borrow()));
        if let Some(answer) = answer {
            // Whoever asked may have gone.
            let _sent = socket.send_to(&answer, from).await;
        }
    }
}

/// `None` for what is no query with one question.
fn answer(query: &[u8], names: &Names) -> Option<Vec<u8>> {
    let (header, rest) = query.split_at_checked(HEADER)?;
    let [id, more_of_id, flags, _, 0, 1, ..] = *header else { return None };
    let (is_answer, operation) = (flags & 0x80, flags & 0x78);
    if is_answer != 0 || operation != 0 {
        return None;
    }
    let (name, length) = name(rest)?;
    let question = rest.get(..length + 4)?;
    let found = names.get(&name);
    let addresses: Vec<&Ipv4Addr> = match question.get(length..length + 2)? {
        kind if kind == A => found.into_iter().flatten().collect(),
        _ => Vec::new(),
    };
    let code = if found.is_some() { 0 } else { NO_SUCH_NAME };
    let (answers, wants_recursion) = (u8::try_from(addresses.len()).ok()?, flags & 1);
    // An answer of who knows all names himself, and asks others for whoever wants it.
    let mut message = vec![id, more_of_id, 0x84 | wants_recursion, 0x80 | code, 0, 1, 0, answers, 0, 0, 0, 0];
    message.extend(question);
    for address in addresses {
        message.extend([SAME_NAME, A, IN].concat());
        message.extend(LIFETIME);
        message.extend([0, 4]);
        message.extend(address.octets());
    }
    Some(message)
}

/// The name at the beginning, and its length.
fn name(bytes: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), 0);
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        match length {
            0 => return Some((labels.join("."), at)),
            // Longer ones stand for a name elsewhere in the message, of which there is none yet.
            64.. => return None,
            _ => labels.push(std::str::from_utf8(bytes.get(at..at + length)?).ok()?.to_ascii_lowercase()),
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u8) -> Vec<u8> {
        let mut message = vec![7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            message.push(u8::try_from(label.len()).unwrap());
            message.extend(label.as_bytes());
        }
        message.extend([0, 0, kind, 0, 1]);
        message
    }

    #[test]
    fn names_of_services_have_addresses_and_no_others_do() {
        let names =
            Names::from([("a.shop.svc.cluster.local".to_owned(), BTreeSet::from([Ipv4Addr::new(10, 0, 0, 1)]))]);
        let asked = query("A.shop.svc.cluster.local", 1);
        let mut expected = vec![7, 8, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        expected.extend(&asked[HEADER..]);
        expected.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 10, 0, 0, 1]);
        assert_eq!(answer(&asked, &names).unwrap(), expected);
        let (of_version_6, unknown) = (query("a.shop.svc.cluster.local", 28), query("b.shop.svc.cluster.local", 1));
        let codes = |query: &[u8]| answer(query, &names).map(|answer| (answer[3] & 15, answer[7]));
        assert_eq!(codes(&of_version_6), Some((0, 0)));
        assert_eq!(codes(&unknown), Some((3, 0)));
        for length in 0..asked.len() {
            assert_eq!(answer(&asked[..length], &names), None, "{length}");
        }
        let mut is_answer = asked;
        is_answer[2] |= 0x80;
        assert_eq!(answer(&is_answer, &names), None);
    }
}
