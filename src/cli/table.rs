//! Tables for people: a head, then a line for each row. Words stand left and figures right.

use serde_json::Value;

/// A column: its head, the member of a row that it shows, and how.
pub(super) struct Column {
    head: &'static str,
    key: &'static str,
    cell: Cell,
}

enum Cell {
    Text,
    /// A number, written so.
    Figure(fn(f64) -> String),
    /// What is said of true, and of false.
    Either(&'static str, &'static str),
}

impl Column {
    pub(super) const fn text(head: &'static str, key: &'static str) -> Self {
        Self {
            head,
            key,
            cell: Cell::Text,
        }
    }

    pub(super) const fn figure(
        head: &'static str,
        key: &'static str,
        show: fn(f64) -> String,
    ) -> Self {
        Self {
            head,
            key,
            cell: Cell::Figure(show),
        }
    }

    pub(super) const fn either(
        head: &'static str,
        key: &'static str,
        [yes, no]: [&'static str; 2],
    ) -> Self {
        Self {
            head,
            key,
            cell: Cell::Either(yes, no),
        }
    }

    fn show(&self, row: &Value) -> String {
        let value = &row[self.key];
        match (&self.cell, value) {
            (Cell::Either(yes, _), Value::Bool(true)) => (*yes).to_owned(),
            (Cell::Either(_, no), Value::Bool(false)) => (*no).to_owned(),
            (Cell::Figure(show), Value::Number(number)) => show(number.as_f64().unwrap_or(0.0)),
            _ => plain(value),
        }
    }
}

/// The head and the rows, without ends of lines.
pub(super) fn lines<'a>(
    columns: impl IntoIterator<Item = &'a Column>,
    rows: &[Value],
) -> Vec<String> {
    let columns: Vec<&Column> = columns.into_iter().collect();
    let head = columns.iter().map(|column| column.head.to_owned());
    let body = rows.iter().map(|row| {
        let cells = columns.iter().map(|column| column.show(row));
        cells.collect()
    });
    let cells: Vec<Vec<String>> = std::iter::once(head.collect()).chain(body).collect();
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| {
            let widths = cells.iter().map(|line| line[column].chars().count());
            widths.max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &Vec<String>| {
        let padded = cells.iter().zip(&columns).zip(&widths);
        let padded = padded.map(|((cell, column), width)| match column.cell {
            Cell::Figure(_) => format!("{cell:>width$}"),
            Cell::Text | Cell::Either(..) => format!("{cell:<width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

/// Without quotes; a dash for what is not there. A terminal would obey control characters, and a text may quote a file that
/// somebody else wrote.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.replace(char::is_control, "\u{fffd}"),
        Value::Number(number) if number.is_f64() => {
            format!("{:.3}", number.as_f64().unwrap_or(0.0))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_stand_right_and_what_is_not_there_is_a_dash() {
        let columns = [
            Column::text("who", "name"),
            Column::figure("much", "n", |n| format!("{n:.1}")),
            Column::either("here", "here", ["yes", "no"]),
        ];
        let rows = [
            json!({"name": "Jürgen", "n": 7, "here": true}),
            json!({"name": "x", "n": 12345.67, "here": false}),
            json!({"name": null, "n": null}),
        ];
        assert_eq!(
            lines(&columns, &rows),
            [
                "who        much  here",
                "Jürgen      7.0  yes",
                "x       12345.7  no",
                "-             -  -",
            ]
        );
    }

    /// Such as the path of a target, or why a file was refused.
    #[test]
    fn no_text_moves_the_cursor() {
        let columns = [Column::text("target", "target"), Column::text("up", "up")];
        let rows = [json!({"target": "unix:/\u{1b}[2J\n\u{9b}31mx", "up": "no"})];
        assert_eq!(
            lines(&columns, &rows),
            [
                "target            up",
                "unix:/\u{fffd}[2J\u{fffd}\u{fffd}31mx  no"
            ]
        );
    }
}
