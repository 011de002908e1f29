//! The runbook as a dashboard, one panel a section, so that it is where the alarm is looked at.

use serde_json::{Value, json};

const PAGE: &str = include_str!("../../docs/RUNBOOK.md");

/// Sections of the page, and the panels that they become.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Section {
    Alerts = 1,
    Rejects = 2,
    Closes = 3,
    SendErrors = 4,
}

impl Section {
    const ALL: [Self; 4] = [Self::Alerts, Self::Rejects, Self::SendErrors, Self::Closes];

    const fn heading(self) -> &'static str {
        match self {
            Self::Alerts => "Alerts",
            Self::Rejects => "Why a datagram was rejected",
            Self::Closes => "Why a session ended",
            Self::SendErrors => "Why a datagram was not sent",
        }
    }

    /// A link to the panel, for a panel that shows what the section explains.
    pub(crate) fn link(self) -> Value {
        let url = format!(
            "/d/tidegate-runbook/tidegate-runbook?viewPanel={}",
            self as u8
        );
        json!({"title": self.heading(), "url": url, "targetBlank": true})
    }

    /// The text, without links to headings and to other pages: beside a text panel there are none.
    fn text(self) -> String {
        let (_, after) = PAGE
            .split_once(&format!("## {}\n", self.heading()))
            .unwrap_or_else(|| panic!("docs/RUNBOOK.md has no section {}", self.heading()));
        let text = after.split("\n## ").next().unwrap_or(after).trim();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, link)) = rest.split_once("](") {
            let (_, after) = link.split_once(')').unwrap_or(("", link));
            match before.rsplit_once('[') {
                Some((before, name)) => plain.extend([before, name]),
                None => plain.push_str(before),
            }
            rest = after;
        }
        plain + rest
    }
}

pub(crate) fn dashboard() -> Value {
    let panels: Vec<_> = Section::ALL
        .into_iter()
        .enumerate()
        .map(|(index, section)| {
            json!({
                "id": section as u8, "type": "text", "title": section.heading(),
                "gridPos": {"x": 0, "y": index * 24, "w": 24, "h": 24},
                "options": {"mode": "markdown", "content": section.text()},
            })
        })
        .collect();
    json!({
        "uid": "tidegate-runbook",
        "title": "tidegate runbook",
        "description": "What each alert and each reason means, and what to do. From docs/RUNBOOK.md.",
        "tags": ["tidegate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": false,
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": []},
        "annotations": {"list": []},
        "links": [{"type": "link", "title": "Dashboard", "icon": "dashboard", "url": "/d/tidegate-overview/tidegate", "keepTime": true}],
        "panels": panels,
    })
}
