//! A DNS server that returns the addresses of a test.

use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::thread;

/// Types of DNS records.
const A: u16 = 1;
const AAAA: u16 = 28;

/// The addresses of each name, one list per lookup. Further lookups get the last list.
pub(super) type Names = HashMap<&'static str, Vec<Vec<IpAddr>>>;

/// Answers queries until the process exits.
pub(super) fn serve(socket: UdpSocket, names: Names) {
    thread::spawn(move || {
        let mut queries: HashMap<String, usize> = HashMap::new();
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            let Some((name, record_type, end)) = read(&query[..length]) else { continue };
            let addresses = names.get(name.as_str()).map(|lookups| {
                let count = queries.entry(name).or_default();
                // Each lookup sends two queries: for A and for AAAA records.
                let lookup = lookups.get(*count / 2).or(lookups.last()).unwrap();
                *count += 1;
                lookup.as_slice()
            });
            let _ = socket.send_to(&answer(&query[..end], record_type, addresses), from);
        }
    });
}

/// The name and the record type of a query, and the position after them.
fn read(query: &[u8]) -> Option<(String, u16, usize)> {
    let (mut name, mut position) = (String::new(), 12);
    loop {
        let length = usize::from(*query.get(position)?);
        position += 1;
        if length == 0 {
            break;
        }
        let label = query.get(position..position + length)?;
        name.push_str(if name.is_empty() { "" } else { "." });
        name.push_str(&String::from_utf8_lossy(label).to_lowercase());
        position += length;
    }
    let record_type = u16::from_be_bytes(query.get(position..position + 2)?.try_into().ok()?);
    Some((name, record_type, position + 4))
}

fn answer(query: &[u8], record_type: u16, addresses: Option<&[IpAddr]>) -> Vec<u8> {
    let has_type = |address: &&IpAddr| match address {
        IpAddr::V4(_) => record_type == A,
        IpAddr::V6(_) => record_type == AAAA,
    };
    let found: Vec<&IpAddr> = addresses.unwrap_or_default().iter().filter(has_type).collect();
    let mut answer = query.to_vec();
    // An authoritative answer with recursion available; code 3 if the name does not exist.
    answer[2..4].copy_from_slice(&[0x85, if addresses.is_none() { 0x83 } else { 0x80 }]);
    answer[6..12].copy_from_slice(&[0, u8::try_from(found.len()).unwrap(), 0, 0, 0, 0]);
    for address in found {
        // A pointer to the name of the query, the class `IN`, and a time to live of 0 s.
        answer.extend([0xc0, 12]);
        answer.extend(record_type.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 0]);
        match address {
            IpAddr::V4(address) => answer.extend([&[0, 4], &address.octets()[..]].concat()),
            IpAddr::V6(address) => answer.extend([&[0, 16], &address.octets()[..]].concat()),
        }
    }
    answer
}
