//! The JSON Schema of the file, for editors: from the types that read it, with the words of the
//! annotated reference.
//!
//! It says which keys there are and what shape their values have. Ranges, and what goes together,
//! are said by `tidegate check`.

use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value, json};

use super::file::File;

/// The schema, draft 2020-12.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(File);
    RecursiveTransform(forget_null).transform(&mut schema);
    let mut schema = schema.to_value();
    schema["title"] = json!("tidegate.toml");
    schema["required"] = json!(["version"]);
    schema["properties"]["version"] = json!({"const": 1});
    for comment in comments(include_str!("../../config/tidegate.toml")) {
        let defs = schema["$defs"].clone();
        if let Some(property) = find(&mut schema, &defs, &comment.path) {
            let description = property.entry("description");
            description.or_insert(Value::String(comment.text));
        }
    }
    schema
}

/// TOML has no null: an optional key is one that may be left out.
fn forget_null(schema: &mut schemars::Schema) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            object["type"] = only.clone();
        }
    }
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else {
        return;
    };
    choices.retain(|choice| *choice != json!({"type": "null"}));
    if let [Value::Object(only)] = &choices[..] {
        let only = only.clone();
        object.remove("anyOf");
        object.extend(only);
    }
}

/// What the reference says about a key or table.
struct Comment {
    path: Vec<String>,
    text: String,
}

fn comments(reference: &str) -> Vec<Comment> {
    let mut found: Vec<Comment> = Vec::new();
    let mut table: Vec<String> = Vec::new();
    // Whether the line before had a comment that this one may go on with.
    let mut continues = false;
    for line in reference.lines() {
        let (code, text) = split_comment(line);
        let path = if code.starts_with('[') {
            let name = code.trim_matches(['[', ']']);
            table = name.split('.').map(str::to_owned).collect();
            Some(table.clone())
        } else {
            code.split_once('=').map(|(key, _)| {
                let key = std::iter::once(key.trim().to_owned());
                table.iter().cloned().chain(key).collect()
            })
        };
        match (path, text) {
            (Some(path), Some(text)) => {
                let text = text.to_owned();
                found.push(Comment { path, text });
                continues = true;
            }
            (None, Some(text)) if continues && line.starts_with("    ") => {
                if let Some(last) = found.last_mut() {
                    last.text = format!("{} {text}", last.text);
                }
            }
            _ => continues = false,
        }
    }
    found
}

/// A line's code, and its comment. No string of the reference has a number sign in it.
fn split_comment(line: &str) -> (&str, Option<&str>) {
    match line.split_once('#') {
        Some((code, text)) => (code.trim(), Some(text.trim())),
        None => (line.trim(), None),
    }
}

/// The property at `path`; names of listeners and the like are any.
fn find<'a>(
    root: &'a mut Value,
    defs: &Value,
    path: &[String],
) -> Option<&'a mut Map<String, Value>> {
    let mut pointer = String::new();
    for (index, key) in path.iter().enumerate() {
        let mut node = root.pointer(&pointer)?;
        if node["items"].is_object() {
            pointer += "/items";
            node = root.pointer(&pointer)?;
        }
        if let Some(name) = node["$ref"].as_str() {
            let name = name.strip_prefix("#/$defs/")?;
            defs.get(name)?;
            pointer = format!("/$defs/{name}");
            node = root.pointer(&pointer)?;
        }
        pointer += match index {
            1 if node["additionalProperties"].is_object() => "/additionalProperties".to_owned(),
            _ => format!("/properties/{key}"),
        }
        .as_str();
    }
    root.pointer_mut(&pointer)?.as_object_mut()
}
