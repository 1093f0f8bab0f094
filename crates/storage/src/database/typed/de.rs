//! A row as a type of the program.
//!
//! 1. A struct's columns come in the order of the table, whatever that of its fields.

use super::misfit::Misfit;
use crate::database::schema::TableDefinition;
use crate::sqlite::{RecordColumns, RecordView, ValueRef, exact_real};
use nandu_base::words::counted;
use serde::de::value::{SeqDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

/// A row of a table as a `T`.
pub(super) fn row<T: DeserializeOwned>(
    definition: &TableDefinition,
    record: RecordView<'_>,
) -> Result<T, Misfit> {
    T::deserialize(RowReader { definition, values: record.columns(), column: 0 })
}

/// A row, or what is left of it.
struct RowReader<'r> {
    definition: &'r TableDefinition,
    values: RecordColumns<'r>,
    /// The next column.
    column: usize,
}

/// A row by names.
struct NamedReader<'r> {
    row: RowReader<'r>,
    /// The names that are wanted; all without it.
    fields: Option<&'static [&'static str]>,
    /// The field after the last one that was found, most often the next one.
    next_field: usize,
    value: ValueRef<'r>,
}

/// A value of a row.
struct ValueReader<'r>(ValueRef<'r>);

impl<'r> RowReader<'r> {
    /// The next column and its value; null where the record is shorter than the table.
    fn next(&mut self) -> Option<(usize, ValueRef<'r>)> {
        let column = self.column;
        if column == self.definition.columns.len() {
            return None;
        }
        self.column += 1;
        Some((column, self.values.next().unwrap_or_default()))
    }

    /// The value of a table of one column.
    fn single(mut self, wanted: &str) -> Result<ValueReader<'r>, Misfit> {
        self.check_width(1, wanted)?;
        Ok(ValueReader(self.next().expect("there is one").1))
    }

    fn check_width(&self, width: usize, wanted: &str) -> Result<(), Misfit> {
        let found = self.definition.columns.len();
        if found == width {
            return Ok(());
        }
        Err(Misfit::value(counted(found as u64, "column"), wanted))
    }
}

/// Methods of a row that is a single value.
macro_rules! single {
    ($($method:ident: $wanted:literal),+ $(,)?) => {
        $(fn $method<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
            self.single($wanted)?.$method(visitor).map_err(|misfit| misfit.at(0))
        })+
    };
}

impl<'r> Deserializer<'r> for RowReader<'r> {
    type Error = Misfit;

    single! {
        deserialize_bool: "bool", deserialize_i8: "i8", deserialize_i16: "i16",
        deserialize_i32: "i32", deserialize_i64: "i64", deserialize_i128: "i128",
        deserialize_u8: "u8", deserialize_u16: "u16", deserialize_u32: "u32",
        deserialize_u64: "u64", deserialize_u128: "u128", deserialize_f32: "f32",
        deserialize_f64: "f64", deserialize_char: "char", deserialize_str: "string",
        deserialize_string: "string", deserialize_bytes: "bytes",
        deserialize_byte_buf: "bytes", deserialize_identifier: "identifier",
    }

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_map(visitor)
    }

    fn deserialize_option<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if self.definition.columns.len() == 1 {
            return self.single("option")?.deserialize_option(visitor);
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_seq(self)
    }

    fn deserialize_tuple<V: Visitor<'r>>(
        self,
        width: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.check_width(width, &format!("tuple of {width}"))?;
        visitor.visit_seq(self)
    }

    fn deserialize_tuple_struct<V: Visitor<'r>>(
        self,
        name: &'static str,
        width: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.check_width(width, &format!("{name} of {width}"))?;
        visitor.visit_seq(self)
    }

    fn deserialize_map<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let value = ValueRef::Null;
        visitor.visit_map(NamedReader { row: self, fields: None, next_field: 0, value })
    }

    fn deserialize_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let (fields, value) = (Some(fields), ValueRef::Null);
        visitor.visit_map(NamedReader { row: self, fields, next_field: 0, value })
    }

    fn deserialize_enum<V: Visitor<'r>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let value = self.single(name)?;
        value.deserialize_enum(name, variants, visitor).map_err(|misfit| misfit.at(0))
    }

    fn deserialize_ignored_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }
}

impl<'r> SeqAccess<'r> for RowReader<'r> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'r>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Misfit> {
        let Some((column, value)) = self.next() else { return Ok(None) };
        seed.deserialize(ValueReader(value)).map(Some).map_err(|misfit| misfit.at(column))
    }
}

impl<'r> MapAccess<'r> for NamedReader<'r> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'r>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Misfit> {
        while let Some((column, value)) = self.row.next() {
            let name = self.row.definition.columns[column].name.as_str();
            let name = match self.fields {
                None => name,
                Some(fields) => match place_of(name, fields, self.next_field) {
                    Some(place) => {
                        self.next_field = place + 1;
                        fields[place]
                    }
                    None => continue,
                },
            };
            self.value = value;
            let key: StrDeserializer<'_, Misfit> = name.into_deserializer();
            return seed.deserialize(key).map(Some).map_err(|misfit| misfit.at(column));
        }
        Ok(None)
    }

    fn next_value_seed<T: DeserializeSeed<'r>>(&mut self, seed: T) -> Result<T::Value, Misfit> {
        let column = self.row.column - 1;
        seed.deserialize(ValueReader(self.value)).map_err(|misfit| misfit.at(column))
    }
}

/// Where a name is in a list, whatever its case, looking at `guess` first.
pub(super) fn place_of<N: AsRef<str>>(name: &str, names: &[N], guess: usize) -> Option<usize> {
    let is_it = |other: &N| other.as_ref().eq_ignore_ascii_case(name);
    match names.get(guess) {
        Some(other) if is_it(other) => Some(guess),
        _ => names.iter().position(is_it),
    }
}

impl<'r> ValueReader<'r> {
    /// The double that it is exactly.
    fn real(&self) -> Option<f64> {
        match self.0 {
            ValueRef::Real(number) => Some(number),
            ValueRef::Integer(number) => exact_real(number),
            _ => None,
        }
    }
}

impl<'r> Deserializer<'r> for ValueReader<'r> {
    type Error = Misfit;

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 char str string unit unit_struct map struct
        identifier tuple_struct
    }

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            ValueRef::Null => visitor.visit_unit(),
            ValueRef::Integer(number) => visitor.visit_i64(number),
            ValueRef::Real(number) => visitor.visit_f64(number),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => visitor.visit_borrowed_str(text),
                Err(_) => Err(Misfit::value("a text", "UTF-8")),
            },
            ValueRef::Blob(bytes) => visitor.visit_borrowed_bytes(bytes),
        }
    }

    fn deserialize_bool<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            ValueRef::Integer(number @ (0 | 1)) => visitor.visit_bool(number == 1),
            ValueRef::Integer(number) => {
                Err(Misfit::invalid_value(Unexpected::Signed(number), &"bool, which is 0 or 1"))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f64<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match (self.real(), self.0) {
            (Some(number), _) => visitor.visit_f64(number),
            (None, ValueRef::Integer(number)) => {
                Err(Misfit::invalid_value(Unexpected::Signed(number), &"f64 exactly"))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f32<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let Some(number) = self.real() else { return self.deserialize_any(visitor) };
        #[allow(clippy::cast_possible_truncation, reason = "what was lost is looked for")]
        let short = number as f32;
        if f64::from(short).to_bits() != number.to_bits() {
            return Err(Misfit::invalid_value(Unexpected::Float(number), &"f32 exactly"));
        }
        visitor.visit_f32(short)
    }

    fn deserialize_option<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            ValueRef::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'r>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_bytes<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            // A visitor of bytes takes texts, too, as if they were some.
            ValueRef::Text(text) => {
                let found = format!("a text of {}", counted(text.len() as u64, "byte"));
                Err(Misfit::value(found, "blob"))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_seq<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            ValueRef::Blob(bytes) => visitor.visit_seq(SeqDeserializer::new(bytes.iter().copied())),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'r>>(
        self,
        width: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.0 {
            ValueRef::Blob(bytes) if bytes.len() != width => {
                let wanted = format!("blob of {}", counted(width as u64, "byte"));
                Err(Misfit::invalid_value(Unexpected::Bytes(bytes), &wanted.as_str()))
            }
            _ => self.deserialize_seq(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'r>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let ValueRef::Text(bytes) = self.0 else { return self.deserialize_any(visitor) };
        let text = std::str::from_utf8(bytes).map_err(|_| Misfit::value("a text", "UTF-8"))?;
        let variant: StrDeserializer<'_, Misfit> = text.into_deserializer();
        visitor.visit_enum(variant)
    }

    fn deserialize_ignored_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }
}
