//! What may be mended of a history before it is sent.

/// What a process has mended, by kind, without what the conversations bring about: a search that
/// was still open when the user went on, and what that leaves of its message.
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
    unexplained.map(|(kind, times)| format!("mended: {kind}, {times} times")).collect()
}
