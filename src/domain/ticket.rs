//! Stream tickets: `tst_` and a secret in hexadecimal digits.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use super::api_key::SecretHash;

const PREFIX: &str = "tst_";
/// Length of a secret in bytes.
const SECRET: usize = 32;

/// A complete ticket with its secret.
pub struct Ticket {
    text: String,
}

/// A text that is not a ticket. The error does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a ticket of the form tst_…")]
pub struct BadTicket;

impl Ticket {
    /// Generates a ticket from the operating system's random numbers.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut secret = [0; SECRET];
        getrandom::fill(&mut secret)?;
        let mut text = PREFIX.to_owned();
        for byte in secret {
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self { text })
    }

    /// Returns the hash of the ticket, which is stored.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(&self.text).into())
    }

    /// Returns the complete ticket. An explicit method, so that no format string prints it by
    /// accident.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

impl FromStr for Ticket {
    type Err = BadTicket;

    fn from_str(text: &str) -> Result<Self, BadTicket> {
        let digits = text.strip_prefix(PREFIX).ok_or(BadTicket)?;
        let is_plain = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_plain || digits.len() != 2 * SECRET {
            return Err(BadTicket);
        }
        Ok(Self { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_survives_the_wire_and_is_not_printed() {
        let ticket = Ticket::generate().unwrap();
        let again: Ticket = ticket.reveal().parse().unwrap();
        assert_eq!(again.hash(), ticket.hash());
        assert_eq!(format!("{again:?}"), "Ticket");
        assert_ne!(Ticket::generate().unwrap().hash(), ticket.hash());
    }

    #[test]
    fn a_malformed_ticket_is_refused_without_a_lookup() {
        let digits = "0".repeat(64);
        for text in [
            String::new(),
            digits.clone(),
            format!("tsk_{digits}"),
            format!("tst_{digits}0"),
            format!("tst_{}", &digits[1..]),
            format!("tst_{}A", &digits[1..]),
        ] {
            assert_eq!(text.parse::<Ticket>().unwrap_err(), BadTicket, "{text}");
        }
    }
}
