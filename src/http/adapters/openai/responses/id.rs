//! Ids of responses.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::domain::ids::RunId;

const PREFIX: &str = "resp_";
/// The number of digits of the run.
const RUN_DIGITS: usize = 32;

/// The id of a response: its run, and the number of the event before its first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResponseId {
    pub(super) run_id: RunId,
    pub(super) after: i64,
}

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}{:016x}", self.run_id.as_uuid().simple(), self.after)
    }
}

impl FromStr for ResponseId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.strip_prefix(PREFIX).ok_or(())?;
        let (run, after) = digits.split_at_checked(RUN_DIGITS).ok_or(())?;
        let run_id = Uuid::try_parse(run).map_err(|_| ())?.into();
        let after = i64::from_str_radix(after, 16).map_err(|_| ())?;
        let id = Self { run_id, after };
        (id.to_string() == text).then_some(id).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_the_wire() {
        let id = ResponseId { run_id: RunId::new(), after: 4711 };
        let text = id.to_string();
        assert_eq!(text.len(), "resp_".len() + 48);
        assert_eq!(text.parse(), Ok(id));
        for other in [&text[1..], &text[..text.len() - 1], &text.to_uppercase(), "resp_", "resp_é"]
        {
            assert_eq!(other.parse::<ResponseId>(), Err(()), "{other}");
        }
    }
}
