//! `set = { … }` of the kinds that drive the engine: any of its settings, as `--set` has them.
//!
//! ```text
//!   set = { durability = "none", version_bytes = "1MiB", log_structured = { victim = "fifo" } }
//! ```
//!
//! 1. What the kind varies or sizes by a key of its own cannot be set: the x axis would not be what was
//!    measured.
//! 2. Settings that were checked can be applied.

use nandu::named_settings::{has_parts, with_value};
use nandu_storage::Settings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of the engine by their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngineSet(toml::Table);

/// A setting, and the key of a kind that has it.
pub(crate) type Own = (&'static str, &'static str);

impl EngineSet {
    /// Whether it says nothing: then an experiment is the one that it was before there was such a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it says something of what has the name `key`, or of a part of it.
    pub(crate) fn says(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Checks that `settings` with these in place make sense for a database on one volume, and that none
    /// is the kind's `own`.
    ///
    /// # Errors
    /// With the setting that cannot be.
    pub(crate) fn check(&self, settings: &Settings, own: &[Own]) -> Result<(), String> {
        self.check_with_media(settings, own)?;
        let kind = self.applied(settings.clone())?.propagation.kind;
        let checked = kind.check_needs_data_alone("an experiment of this kind");
        checked.map_err(|error| format!("`propagation` in `set`: {error}"))
    }

    /// The same for a database that has all media that its propagation needs.
    ///
    /// # Errors
    /// With the setting that cannot be.
    pub(crate) fn check_with_media(&self, settings: &Settings, own: &[Own]) -> Result<(), String> {
        let keys: Vec<String> = self.all().into_iter().map(|(key, _)| key).collect();
        if let Some((key, own)) = own.iter().find(|(key, _)| keys.iter().any(|set| set == key)) {
            return Err(format!("`set` cannot have `{key}` here; say `{own}` of the measurement"));
        }
        let applied = self.applied(settings.clone())?;
        applied.check().map_err(|error| {
            let error = error.to_string();
            match keys.iter().find(|key| error.contains(key.as_str())) {
                Some(key) => format!("`{key}` in `set`: {error}"),
                None => error,
            }
        })
    }

    /// The same where nothing but a propagation can be set, which `settings` have.
    ///
    /// # Errors
    /// With the setting that cannot be.
    pub(crate) fn check_of_propagation(&self, settings: &Settings) -> Result<(), String> {
        self.check_with_media(settings, &[("propagation", "propagation")])?;
        let propagation = settings.propagation.clone();
        let others = Settings { propagation, ..self.apply(settings.clone()) };
        match others == *settings {
            true => Ok(()),
            false => Err("`set` has settings here that are of no propagation".into()),
        }
    }

    /// `settings` with these in place of theirs.
    ///
    /// # Panics
    /// If they were not checked.
    pub(crate) fn apply(&self, settings: Settings) -> Settings {
        self.applied(settings).expect("the experiment was checked")
    }

    fn applied(&self, settings: Settings) -> Result<Settings, String> {
        self.all().into_iter().try_fold(settings, |settings, (key, value)| {
            let wrong = |what| format!("`{key}` in `set`: {what}");
            with_value(&settings, &key, json_of(value).map_err(wrong)?).map_err(wrong)
        })
    }

    /// Each setting with its whole name.
    fn all(&self) -> Vec<(String, &toml::Value)> {
        fn add<'t>(
            before: &str,
            table: &'t toml::Table,
            found: &mut Vec<(String, &'t toml::Value)>,
        ) {
            for (key, value) in table {
                let key = format!("{before}{key}");
                match value {
                    toml::Value::Table(parts) if has_parts(&key) => {
                        add(&format!("{key}."), parts, found);
                    }
                    value => found.push((key, value)),
                }
            }
        }
        let mut found = Vec::new();
        add("", &self.0, &mut found);
        found
    }
}

/// The same value in JSON, which has neither dates nor numbers that are none.
fn json_of(value: &toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) if number.is_finite() => Value::from(*number),
        toml::Value::Boolean(is_so) => Value::from(*is_so),
        toml::Value::Array(list) => list.iter().map(json_of).collect::<Result<_, _>>()?,
        toml::Value::Table(table) => {
            let entry = |(key, value): (&String, &toml::Value)| Ok((key.clone(), json_of(value)?));
            Value::Object(table.iter().map(entry).collect::<Result<_, String>>()?)
        }
        toml::Value::Float(_) | toml::Value::Datetime(_) => {
            return Err(format!("{value} is the value of no setting"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu::named_settings::{names, with_another_value};
    use nandu_storage::log::Durability;

    fn set(text: &str) -> EngineSet {
        EngineSet(text.parse().expect("it is TOML"))
    }

    #[test]
    fn values_and_parts_come_to_where_they_belong() {
        let set = set("durability = { grouped = { commit_count = 3 } }\nversion_bytes = '1MiB'\n\
                       log_structured = { victim = 'fifo', segment_bytes = '2MiB' }\n");
        let before = Settings { durability: Durability::None, ..Settings::default() };
        set.check(&before, &[("page_bytes", "page_bytes")]).unwrap();
        let after = set.apply(before);
        assert_eq!(after.durability, Durability::Grouped { commit_count: 3 });
        assert_eq!(after.version_bytes, 1 << 20);
        assert_eq!(after.propagation.log_structured.segment_bytes, 2 << 20);
        assert_eq!(serde_json::to_value(after.propagation.log_structured.victim).unwrap(), "fifo");
    }

    #[test]
    fn experiments_reach_every_setting_of_the_engine() {
        for name in names() {
            let (wanted, value) = with_another_value(&name).expect(&name);
            let set = set(&format!("{name} = {value}"));
            set.check(&Settings::default(), &[]).expect(&name);
            assert_eq!(set.apply(Settings::default()), wanted, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_is_told_with_its_setting() {
        for (text, told) in [
            ("durabilty = 'none'", "there is no setting `durabilty`; did you mean `durability`?"),
            ("durability = 'nome'", "`durability` in `set`: unknown variant `nome`"),
            ("log_structured = { victm = 1 }", "there is no setting `victm`"),
            ("double_write_bytes = nan", "nan is the value of no setting"),
            ("double_write_bytes = 1979-05-27", "is the value of no setting"),
            ("log_bytes = '1MiB'", "`log_bytes` in `set`: log_bytes 1048576 is below four times"),
            ("pool_bytes = '1MiB'", "say `memory` of the measurement"),
            (
                "propagation = 'page_differential_chips'",
                "`propagation` in `set`: an experiment of this kind has nothing but one volume",
            ),
            ("log_structured = 5", "invalid type"),
        ] {
            let error = set(text).check(&Settings::default(), &[("pool_bytes", "memory")]);
            let error = error.unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        let on_chips = set("propagation = 'page_differential_chips'");
        on_chips.check_with_media(&Settings::default(), &[]).unwrap();
    }
}
