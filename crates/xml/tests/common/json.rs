//! Values of JSON as another library reads them, with keys in their order and numbers as written: what a
//! document that comes out is compared with.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

use proptest::prelude::*;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// A value of JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Boolean(bool),
    /// As it is written.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Members in their order.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'de: 't, 't> Deserialize<'de> for Members<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Json {
    /// What serde_json reads.
    pub(crate) fn read(text: &str) -> serde_json::Result<Self> {
        let raw: &RawValue = serde_json::from_str(text)?;
        Self::of(raw)
    }

    fn of(raw: &RawValue) -> serde_json::Result<Self> {
        let text = raw.get();
        Ok(match text.as_bytes()[0] {
            b'{' => {
                let Members(members) = serde_json::from_str(text)?;
                let members = members.into_iter().map(|(key, raw)| Ok((key, Self::of(raw)?)));
                Self::Object(members.collect::<serde_json::Result<_>>()?)
            }
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                Self::Array(items.into_iter().map(Self::of).collect::<serde_json::Result<_>>()?)
            }
            b'"' => Self::Text(serde_json::from_str(text)?),
            b'n' => Self::Null,
            b't' | b'f' => Self::Boolean(text == "true"),
            _ => Self::Number(text.to_owned()),
        })
    }

    /// As text, in one of several ways to write it: with more or less space and escapes.
    pub(crate) fn written(&self, style: u8) -> String {
        let mut text = String::new();
        self.write(style, &mut text);
        text
    }

    fn write(&self, style: u8, text: &mut String) {
        let space = ["", " ", "\n\t", "\r\n  "][usize::from(style % 4)];
        text.push_str(space);
        match self {
            Self::Null => text.push_str("null"),
            Self::Boolean(value) => text.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => text.push_str(number),
            Self::Text(string) => write_string(string, style, text),
            Self::Array(items) => {
                text.push('[');
                for (place, item) in items.iter().enumerate() {
                    text.push_str(if place == 0 { "" } else { "," });
                    item.write(style, text);
                }
                text.push_str(space);
                text.push(']');
            }
            Self::Object(members) => {
                text.push('{');
                for (place, (key, value)) in members.iter().enumerate() {
                    text.push_str(if place == 0 { "" } else { "," });
                    text.push_str(space);
                    write_string(key, style, text);
                    text.push_str(space);
                    text.push(':');
                    value.write(style, text);
                }
                text.push_str(space);
                text.push('}');
            }
        }
        text.push_str(space);
    }
}

fn write_string(string: &str, style: u8, text: &mut String) {
    if style < 128 {
        text.push_str(&serde_json::to_string(string).expect("a string is JSON"));
        return;
    }
    text.push('"');
    for unit in string.encode_utf16() {
        text.push_str(&format!("\\u{unit:04X}"));
    }
    text.push('"');
}

/// Values of all kinds, keys of all kinds, none twice.
pub(crate) fn any_json() -> impl Strategy<Value = Json> {
    let number = prop_oneof![
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
        Just("1e400".to_owned()),
        Just("0.10".to_owned()),
        Just("-0".to_owned()),
    ];
    let string = prop_oneof![
        ".{0,12}",
        "[\u{0}-\u{1f}\"\\\\/]{0,6}",
        Just("long ü😀 ".repeat(300)),
        Just(String::new()),
    ];
    let key = prop_oneof!["[a-e]", ".{0,4}", "[\u{0}-\u{3}: @_]{0,2}"];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Boolean),
        number.prop_map(Json::Number),
        string.prop_map(Json::Text),
    ];
    leaf.prop_recursive(5, 60, 8, move |inner| {
        let members = prop::collection::vec((key.clone(), inner.clone()), 0..8);
        prop_oneof![
            prop::collection::vec(inner, 0..8).prop_map(Json::Array),
            members.prop_map(|members| {
                let mut distinct: Vec<(String, Json)> = Vec::new();
                for (key, value) in members {
                    if distinct.iter().all(|(other, _)| *other != key) {
                        distinct.push((key, value));
                    }
                }
                Json::Object(distinct)
            }),
        ]
    })
}
