//! A server of names that says what a test wants.

use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::thread;

/// Answers one question in a datagram.
const A: u16 = 1;
const AAAA: u16 = 28;

/// Names and their addresses: those of each question in turn, the last ones for all that follow.
pub(super) type Names = HashMap<&'static str, Vec<Vec<IpAddr>>>;

/// Answers questions for as long as the process lives.
pub(super) fn serve(socket: UdpSocket, names: Names) {
    thread::spawn(move || {
        let mut asked: HashMap<String, usize> = HashMap::new();
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let Some((name, kind, end)) = read(&question[..length]) else { continue };
            let addresses = names.get(name.as_str()).map(|turns| {
                let count = asked.entry(name).or_default();
                // Each look-up asks for addresses of both kinds.
                let turn = turns.get(*count / 2).or(turns.last()).unwrap();
                *count += 1;
                turn.as_slice()
            });
            let _ = socket.send_to(&answer(&question[..end], kind, addresses), from);
        }
    });
}

/// The name and the kind that a question is about, and where it ends.
fn read(question: &[u8]) -> Option<(String, u16, usize)> {
    let (mut name, mut at) = (String::new(), 12);
    loop {
        let length = usize::from(*question.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = question.get(at..at + length)?;
        name.push_str(if name.is_empty() { "" } else { "." });
        name.push_str(&String::from_utf8_lossy(label).to_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes(question.get(at..at + 2)?.try_into().ok()?);
    Some((name, kind, at + 4))
}

fn answer(question: &[u8], kind: u16, addresses: Option<&[IpAddr]>) -> Vec<u8> {
    let fits = |address: &&IpAddr| match address {
        IpAddr::V4(_) => kind == A,
        IpAddr::V6(_) => kind == AAAA,
    };
    let found: Vec<&IpAddr> = addresses.unwrap_or_default().iter().filter(fits).collect();
    let mut answer = question.to_vec();
    // An answer of the authority, with recursion; a name that does not exist is error 3.
    answer[2..4].copy_from_slice(&[0x85, if addresses.is_none() { 0x83 } else { 0x80 }]);
    answer[6..12].copy_from_slice(&[0, u8::try_from(found.len()).unwrap(), 0, 0, 0, 0]);
    for address in found {
        // The name of the question, the class of the internet, and a life of no seconds.
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 0]);
        match address {
            IpAddr::V4(address) => answer.extend([&[0, 4], &address.octets()[..]].concat()),
            IpAddr::V6(address) => answer.extend([&[0, 16], &address.octets()[..]].concat()),
        }
    }
    answer
}
