//! Ids in the form of the API: a prefix and random letters.

use uuid::Uuid;

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The id of a reply.
pub(crate) fn message() -> String {
    fresh("msg_01")
}

/// The id of a call that the client runs.
pub(crate) fn tool_use() -> String {
    fresh("toolu_01")
}

/// The id of a call that the API runs.
pub(crate) fn server_tool_use() -> String {
    fresh("srvtoolu_01")
}

/// The id of a container in which the API runs code.
pub(crate) fn container() -> String {
    fresh("container_01")
}

/// The id of a request.
pub(crate) fn request() -> String {
    fresh("req_011")
}

/// The random half of a UUID comes first, so that two ids differ in their first letters.
fn fresh(prefix: &str) -> String {
    let mut left = Uuid::now_v7().as_u128().rotate_left(64);
    let mut id = String::with_capacity(prefix.len() + 22);
    id.push_str(prefix);
    for _ in 0..22 {
        let digit = usize::try_from(left % 58).unwrap_or_default();
        id.push(ALPHABET.get(digit).copied().map_or('1', char::from));
        left /= 58;
    }
    id
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_calls_have_the_same_id() {
        let ids: HashSet<String> = (0..10_000).map(|_| tool_use()).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| id.starts_with("toolu_") && id.len() == 30));
    }
}
