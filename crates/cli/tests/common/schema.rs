//! JSON against the part of JSON Schema that `docs/nandu.schema.json` uses.
//!
//! 1. A keyword that is not known here is an error, so that nothing in the schema goes unchecked.
//! 2. Stricter than the standard in one way: an object whose `type` and `properties` are given and no
//!    `additionalProperties` has no other keys. So a key that is printed is one that is written down.

#![allow(clippy::unwrap_used, reason = "a schema that is none is a failed test")]

use serde_json::{Map, Value};

/// What does not fit, each with its place; empty where all does.
pub(crate) fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Checker { root: schema }.check(schema, value, "$", &mut found);
    found
}

struct Checker<'s> {
    root: &'s Value,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
        let keywords = schema.as_object().unwrap_or_else(|| panic!("{schema} is no schema"));
        for (keyword, argument) in keywords {
            match keyword.as_str() {
                "$schema"
                | "$defs"
                | "title"
                | "description"
                | "properties"
                | "additionalProperties" => {}
                "$ref" => self.check(self.definition(argument), value, place, found),
                "type" => {
                    let is_of = |name: &Value| is_of_type(value, name.as_str().unwrap());
                    let fits = match argument.as_array() {
                        Some(names) => names.iter().any(is_of),
                        None => is_of(argument),
                    };
                    if !fits {
                        found.push(format!("{place} is {value}, not {argument}"));
                    }
                }
                "const" => {
                    if value != argument {
                        found.push(format!("{place} is {value}, not {argument}"));
                    }
                }
                "enum" => {
                    if !argument.as_array().unwrap().contains(value) {
                        found.push(format!("{place} is {value}, not one of {argument}"));
                    }
                }
                "required" => {
                    for key in argument.as_array().unwrap() {
                        let key = key.as_str().unwrap();
                        if value.as_object().is_some_and(|object| !object.contains_key(key)) {
                            found.push(format!("{place} has no {key}"));
                        }
                    }
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(argument, item, &format!("{place}[{index}]"), found);
                    }
                }
                "allOf" => {
                    for part in argument.as_array().unwrap() {
                        self.check(part, value, place, found);
                    }
                }
                "anyOf" => self.check_any(argument.as_array().unwrap(), value, place, found),
                other => panic!("the schema uses `{other}`, which this check does not know"),
            }
        }
        if let Some(object) = value.as_object() {
            self.check_keys(keywords, object, place, found);
        }
    }

    /// The complaints of the alternative that fits best, unless one fits.
    fn check_any(&self, all: &[Value], value: &Value, place: &str, found: &mut Vec<String>) {
        let complaints = all.iter().map(|schema| {
            let mut complaints = Vec::new();
            self.check(schema, value, place, &mut complaints);
            // Another command's is no candidate, however few complaints it has.
            let is_other = complaints.iter().any(|it| it.starts_with("$.nandu.command"));
            (is_other, complaints.len(), complaints)
        });
        found.extend(complaints.min().map(|best| best.2).unwrap_or_default());
    }

    fn check_keys(
        &self,
        keywords: &Map<String, Value>,
        object: &Map<String, Value>,
        place: &str,
        found: &mut Vec<String>,
    ) {
        let named = keywords.get("properties").and_then(Value::as_object);
        for (key, value) in object {
            let place = format!("{place}.{key}");
            match (named.and_then(|named| named.get(key)), keywords.get("additionalProperties")) {
                (Some(schema), _) => self.check(schema, value, &place, found),
                (None, Some(schema @ Value::Object(_))) => {
                    self.check(schema, value, &place, found);
                }
                (None, None) if named.is_some() && keywords.contains_key("type") => {
                    found.push(format!("{place} is not written down"));
                }
                _ => {}
            }
        }
    }

    fn definition(&self, reference: &Value) -> &Value {
        let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
        self.root.pointer(pointer).unwrap_or_else(|| panic!("{reference} leads nowhere"))
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type of JSON"),
    }
}
