//! What `docs/RUNBOOK.md` says about each reason, so that the page can say it beside the count.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const PAGE: &str = include_str!("../../docs/RUNBOOK.md");

/// What a reason of a rejected datagram or handshake means, and what to do.
pub(super) fn of_reject(label: &str) -> Option<&'static str> {
    static TABLE: LazyLock<Table> = LazyLock::new(|| table("Why a datagram was rejected"));
    TABLE.get(label).map(String::as_str)
}

/// What a reason of a session's end means, and what to do.
pub(super) fn of_close(label: &str) -> Option<&'static str> {
    static TABLE: LazyLock<Table> = LazyLock::new(|| table("Why a session ended"));
    TABLE.get(label).map(String::as_str)
}

type Table = BTreeMap<&'static str, String>;

/// The rows `| label | meaning | what to do |` of a section.
fn table(section: &str) -> Table {
    let text = PAGE.split("\n## ").find(|text| text.starts_with(section));
    let rows = text.unwrap_or_default().lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let label = cells.next()?.strip_suffix('`')?;
        let (meaning, remedy) = (cells.next()?, cells.next()?.trim_end_matches(" |"));
        // To be told to do nothing helps on a page of instructions, not beside a figure.
        let remedy = if remedy.starts_with("Nothing") {
            ""
        } else {
            remedy
        };
        Some((label, plain(format!("{meaning} {remedy}").trim_end())))
    });
    rows.collect()
}

/// Without the marks of code and links.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("](") {
        plain.push_str(before);
        rest = link.split_once(')').map_or(link, |(_, after)| after);
    }
    (plain + rest).replace(['[', '`'], "")
}

#[cfg(test)]
mod tests {
    use tidegate_proto::{CloseReason, Reject};

    use super::*;

    #[test]
    fn every_reason_is_explained_in_plain_words() {
        let rejects = Reject::ALL.map(|reject| of_reject(reject.label()));
        let closes = CloseReason::ALL.map(|reason| of_close(reason.label()));
        for text in rejects.into_iter().chain(closes) {
            let text = text.expect("docs/RUNBOOK.md has a row for each");
            assert!(
                text.ends_with('.') && !text.contains(['[', '`', '#', '|']),
                "{text}"
            );
        }
        assert_eq!(
            of_close("backend_refused"),
            Some("The backend refused the connection. See TidegateNoBackend.")
        );
    }
}
