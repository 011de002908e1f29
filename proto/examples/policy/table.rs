//! How a table is printed.

use std::fmt::Display;

/// A row for each of `rows`, and in it a cell for each of `columns`. `note` says what is in a cell.
pub(crate) fn table<R, C>(
    (title, note): (&str, &str),
    (corner, rows): (&str, &[(impl Display, R)]),
    columns: &[(impl Display, C)],
    cell: impl Fn(&R, &C) -> String,
) {
    println!("\n**{title}** ({note})\n");
    print!("| {corner} |");
    for (heading, _) in columns {
        print!(" {heading} |");
    }
    println!("\n|---{}|", "|---".repeat(columns.len()));
    for (label, row) in rows {
        print!("| {label} |");
        for (_, column) in columns {
            print!(" {} |", cell(row, column));
        }
        println!();
    }
}
