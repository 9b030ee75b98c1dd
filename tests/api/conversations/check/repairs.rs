//! Repairs of histories that a conversation explains.

/// The repairs of a process that the conversations do not explain, by kind.
///
/// Explained are searches without a result when the next user message was posted, and messages that
/// are empty without such a search.
pub(in crate::conversations) fn unexplained(repairs: &[(String, u64)]) -> Vec<String> {
    let times = |kind: &str| -> u64 {
        repairs.iter().filter(|(other, _)| other == kind).map(|(_, times)| times).sum()
    };
    let open = times("open_server_call");
    let is_explained = |kind: &str, times: u64| match kind {
        "open_server_call" => true,
        "empty_message" => times <= open,
        _ => false,
    };
    let unexplained = repairs.iter().filter(|(kind, times)| !is_explained(kind, *times));
    unexplained.map(|(kind, times)| format!("unexpected repair: {kind}, {times} times")).collect()
}
