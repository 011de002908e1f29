//! The schema that editors get, held against the files that the program reads.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

fn schema() -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("schema")
        .output()
        .unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A file's content as a schema sees it.
fn instance(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Value>(text).unwrap()).unwrap()
}

/// What is wrong with a value. Knows the words that the schema uses, and no others: a new one
/// fails here rather than being taken for fulfilled.
fn problems(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let Value::Object(words) = schema else {
        return match schema {
            Value::Bool(false) => vec![format!("{at}: nothing fits")],
            _ => found,
        };
    };
    for (word, rule) in words {
        match word.as_str() {
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                found.extend(problems(root, root.pointer(pointer).unwrap(), value, at));
            }
            "type" if rule.as_str() != Some(kind(value)) => {
                found.push(format!("{at}: {value} is no {rule}"));
            }
            "const" if value != rule => found.push(format!("{at}: {value} is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                found.push(format!("{at}: {value} is none of {rule}"));
            }
            "pattern" if !has_unit(rule.as_str().unwrap(), value) => {
                found.push(format!("{at}: {value} is not like {rule}"));
            }
            "minItems" if value.as_array().unwrap().len() < rule.as_u64().unwrap() as usize => {
                found.push(format!("{at}: too few"));
            }
            "maxItems" if value.as_array().unwrap().len() > rule.as_u64().unwrap() as usize => {
                found.push(format!("{at}: too many"));
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(problems(root, rule, item, &format!("{at}[{index}]")));
                }
            }
            "oneOf" => {
                let fits = |choice: &&Value| problems(root, choice, value, at).is_empty();
                if rule.as_array().unwrap().iter().filter(fits).count() != 1 {
                    found.push(format!("{at}: {value} is none of {rule}"));
                }
            }
            "required" => {
                let missing = rule.as_array().unwrap().iter();
                let missing = missing.filter(|key| value.get(key.as_str().unwrap()).is_none());
                found.extend(missing.map(|key| format!("{at}: {key} is missing")));
            }
            "properties" => found.extend(members(root, rule, value, at)),
            "additionalProperties" => {
                let empty = Map::new();
                let known = words.get("properties").and_then(Value::as_object);
                let known = known.unwrap_or(&empty);
                for (key, inner) in value.as_object().into_iter().flatten() {
                    if !known.contains_key(key) {
                        found.extend(problems(root, rule, inner, &format!("{at}.{key}")));
                    }
                }
            }
            "type" | "const" | "enum" | "pattern" | "minItems" | "maxItems" => {}
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => {}
            other => panic!("{at}: the schema says {other}, which this test does not know"),
        }
    }
    found
}

fn members(root: &Value, rules: &Value, value: &Value, at: &str) -> Vec<String> {
    let rules = rules.as_object().unwrap().iter();
    let present = rules.filter_map(|(key, rule)| Some((key, rule, value.get(key)?)));
    present
        .flat_map(|(key, rule, inner)| problems(root, rule, inner, &format!("{at}.{key}")))
        .collect()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The only patterns are `^[0-9]+(unit|unit)$`.
fn has_unit(pattern: &str, value: &Value) -> bool {
    let units = pattern.strip_prefix("^[0-9]+(").unwrap();
    let units = units.strip_suffix(")$").unwrap();
    let text = value.as_str().unwrap_or_default();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && units.split('|').any(|unit| unit == &text[digits..])
}

fn config_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut open = vec![root];
    let mut files = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "toml") {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn every_file_of_ours_fits() {
    let schema = schema();
    let files = config_files();
    assert!(files.len() >= 6, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let wrong = problems(&schema, &schema, &instance(&text), "");
        assert_eq!(wrong, Vec::<String>::new(), "{}", path.display());
    }
}

#[test]
fn what_the_program_refuses_to_read_does_not_fit() {
    let schema = schema();
    let good = include_str!("../config/tidegate.toml");
    for (from, to, place) in [
        ("version = 1 ", "version = 2 ", ".version"),
        (
            "table_size       = 65536",
            "table_size       = \"65536\"",
            ".limits.table_size",
        ),
        (
            "max_peers       = 4096",
            "max_players     = 4096",
            ".runtime.max_players",
        ),
        ("\"256MiB\"", "\"256M\"", ".runtime.queue_memory"),
        (
            "grace           = \"25s\"",
            "grace           = 25",
            ".drain.grace",
        ),
        (
            "\"yojimbo\"           #",
            "\"enet\"              #",
            ".listener.game.protocol",
        ),
        (
            "ack              = \"queued\"",
            "ack              = \"strict\"",
            "",
        ),
        (
            "backend          = \"game\"",
            "backend          = [\"game\"]",
            ".listener.game.backend",
        ),
        (
            "[\"100ms\", \"2s\"]",
            "[\"100ms\"]",
            ".backend.game.retry_backoff",
        ),
        (
            "length = [0, 7000]",
            "length = [0, 7000]\ntext = 1",
            ".message[0].text",
        ),
        (
            "redundancy       = true                #",
            "redundancy       = 1 #",
            ".redundancy",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let text = good.replacen(from, to, 1);
        let wrong = problems(&schema, &schema, &instance(&text), "");
        assert_eq!(wrong.is_empty(), place.is_empty(), "{to}: {wrong:?}");
        assert!(
            wrong.iter().all(|what| what.contains(place)),
            "{to}: {wrong:?}"
        );
    }
    let without = good.replacen("version = 1", "", 1);
    let wrong = problems(&schema, &schema, &instance(&without), "");
    assert_eq!(wrong, [": \"version\" is missing"]);
}

/// Editors show what the annotated file says.
#[test]
fn the_words_of_the_reference_are_in_it() {
    let schema = schema();
    let defs = &schema["$defs"];
    let said = |pointer: &str| {
        let node = defs.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
        node["description"].as_str().unwrap_or_default().to_owned()
    };
    assert!(
        said("/Runtime/properties/queue_memory").starts_with("limit of all queues of all peers")
    );
    assert!(said("/Limits/properties/allow").ends_with("private networks (10/8, 172.16/12, ...)"));
    assert!(said("/Rate/properties/good_rate").contains("60 Hz game"));
    assert!(said("/YojimboChannel/properties/receive_queue").contains("client's"));
    assert_eq!(
        defs["Runtime"]["properties"]["max_peers"]["default"],
        json!(4096)
    );
}
