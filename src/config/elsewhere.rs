//! Where a key belongs that stands in another table. All that follows the header of a table is in it, up to the next header:
//! a key of the listener that is written below `[listener.game.netcode]` is not the listener's.

/// What to write behind the keys that there are, where this one is a key of other tables.
pub(super) fn elsewhere(key: &str) -> String {
    let tables = tables_with(key);
    match &tables[..] {
        [] => String::new(),
        [table] if table.is_empty() => format!("; `{key}` belongs at the top of the file"),
        tables => format!("; `{key}` belongs in [{}]", tables.join("] or [")),
    }
}

/// The tables that have this key, or this table, as the annotated reference shows them.
fn tables_with(key: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut table = String::new();
    for line in include_str!("../../config/tidegate.toml").lines() {
        // No string of the reference has a number sign in it.
        let code = line.split('#').next().unwrap_or_default().trim();
        if code.starts_with('[') {
            table = without_name(code.trim_matches(['[', ']']));
            if let Some((around, own)) = table.rsplit_once('.')
                && own == key
            {
                found.push(around.to_owned());
            }
        } else if let Some((own, _)) = code.split_once('=')
            && own.trim() == key
        {
            found.push(table.clone());
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The names in the reference are its own.
fn without_name(table: &str) -> String {
    let mut parts: Vec<&str> = table.split('.').collect();
    if let Some(name) = parts.get_mut(1) {
        *name = "NAME";
    }
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_wrong_table_is_sent_home() {
        for (key, expected) in [
            (
                "public_addresses",
                "; `public_addresses` belongs in [listener.NAME]",
            ),
            (
                "netcode",
                "; `netcode` belongs in [listener.NAME] or [tunnel.NAME]",
            ),
            ("targets", "; `targets` belongs in [backend.NAME]"),
            ("workers", "; `workers` belongs in [runtime]"),
            ("version", "; `version` belongs at the top of the file"),
            ("bnd", ""),
        ] {
            assert_eq!(elsewhere(key), expected, "{key}");
        }
    }
}
