//! A type of the program as the values of a row.

use super::de::place_of;
use super::misfit::Misfit;
use crate::database::schema::{Row, TableDefinition};
use crate::sqlite::Value;
use serde::Serialize;
use serde::ser::{
    Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, SerializeTupleStruct,
    Serializer,
};

/// The values of a row of a table, or of a key, which has no names.
pub(super) fn row<T: Serialize + ?Sized>(
    definition: Option<&TableDefinition>,
    row: &T,
) -> Result<Row, Misfit> {
    row.serialize(RowWriter { definition })
}

struct RowWriter<'d> {
    definition: Option<&'d TableDefinition>,
}

/// Values by position.
struct Positional(Row);

/// Values by the names of columns.
struct Named<'d> {
    definition: &'d TableDefinition,
    values: Vec<Option<Value>>,
    /// The column after the last one, most often the next one.
    next_column: usize,
    /// The key of a map whose value comes next.
    key: Option<String>,
}

/// What a value is, and whether it was one byte of a blob.
enum Given {
    Value(Value),
    Byte(u8),
}

struct ValueWriter;

/// Bytes that come one by one.
struct Bytes(Vec<u8>);

impl Given {
    fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value,
            Self::Byte(byte) => Value::Integer(byte.into()),
        }
    }
}

fn value_of<T: Serialize + ?Sized>(value: &T, column: usize) -> Result<Value, Misfit> {
    let given = value.serialize(ValueWriter).map_err(|misfit| misfit.at(column))?;
    Ok(given.into_value())
}

fn no_value<T>(what: &str) -> Result<T, Misfit> {
    Err(Misfit::value(what, "value of a column"))
}

fn no_row<T>(what: &str) -> Result<T, Misfit> {
    Err(Misfit::value(what, "row"))
}

impl<'d> RowWriter<'d> {
    fn named(&self, what: &str) -> Result<Named<'d>, Misfit> {
        let Some(definition) = self.definition else {
            return Err(Misfit::value(what, "key; take a tuple or a single value"));
        };
        let values = vec![None; definition.columns.len()];
        Ok(Named { definition, values, next_column: 0, key: None })
    }
}

/// Methods of a row that is a single value.
macro_rules! single {
    ($($method:ident: $type:ty),+ $(,)?) => {
        $(fn $method(self, value: $type) -> Result<Row, Misfit> {
            Ok(vec![ValueWriter.$method(value)?.into_value()])
        })+
    };
}

impl<'d> Serializer for RowWriter<'d> {
    type Ok = Row;
    type Error = Misfit;
    type SerializeSeq = Positional;
    type SerializeTuple = Positional;
    type SerializeTupleStruct = Positional;
    type SerializeTupleVariant = Impossible<Row, Misfit>;
    type SerializeMap = Named<'d>;
    type SerializeStruct = Named<'d>;
    type SerializeStructVariant = Impossible<Row, Misfit>;

    single! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32,
        serialize_i64: i64, serialize_i128: i128, serialize_u8: u8, serialize_u16: u16,
        serialize_u32: u32, serialize_u64: u64, serialize_u128: u128, serialize_f32: f32,
        serialize_f64: f64, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    }

    fn serialize_none(self) -> Result<Row, Misfit> {
        Ok(vec![Value::Null])
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Row, Misfit> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Row, Misfit> {
        Ok(Vec::new())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Row, Misfit> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Row, Misfit> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Row, Misfit> {
        no_row("an enum with contents")
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Positional, Misfit> {
        let most = self.definition.map_or(0, |definition| definition.columns.len());
        Ok(Positional(Vec::with_capacity(length.unwrap_or(0).min(most))))
    }

    fn serialize_tuple(self, length: usize) -> Result<Positional, Misfit> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Positional, Misfit> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Misfit> {
        no_row("an enum with contents")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Named<'d>, Misfit> {
        self.named("a map")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Named<'d>, Misfit> {
        self.named("a struct")
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Misfit> {
        no_row("an enum with contents")
    }
}

impl Positional {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misfit> {
        self.0.push(value_of(value, self.0.len())?);
        Ok(())
    }
}

impl SerializeSeq for Positional {
    type Ok = Row;
    type Error = Misfit;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misfit> {
        self.push(value)
    }

    fn end(self) -> Result<Row, Misfit> {
        Ok(self.0)
    }
}

impl SerializeTuple for Positional {
    type Ok = Row;
    type Error = Misfit;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misfit> {
        self.push(value)
    }

    fn end(self) -> Result<Row, Misfit> {
        Ok(self.0)
    }
}

impl SerializeTupleStruct for Positional {
    type Ok = Row;
    type Error = Misfit;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misfit> {
        self.push(value)
    }

    fn end(self) -> Result<Row, Misfit> {
        Ok(self.0)
    }
}

impl Named<'_> {
    fn set(
        &mut self,
        name: &str,
        value: impl FnOnce(usize) -> Result<Value, Misfit>,
    ) -> Result<(), Misfit> {
        let columns = &self.definition.columns;
        let place = place_of(name, columns, self.next_column);
        let place = place.ok_or_else(|| Misfit::unknown(name))?;
        self.next_column = place + 1;
        self.values[place] = Some(value(place)?);
        Ok(())
    }

    fn finish(self) -> Result<Row, Misfit> {
        let values = self.values.into_iter().enumerate();
        values.map(|(column, value)| value.ok_or_else(|| Misfit::missing(column))).collect()
    }
}

impl SerializeStruct for Named<'_> {
    type Ok = Row;
    type Error = Misfit;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Misfit> {
        self.set(name, |column| value_of(value, column))
    }

    fn skip_field(&mut self, name: &'static str) -> Result<(), Misfit> {
        self.set(name, |_| Ok(Value::Null))
    }

    fn end(self) -> Result<Row, Misfit> {
        self.finish()
    }
}

impl SerializeMap for Named<'_> {
    type Ok = Row;
    type Error = Misfit;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Misfit> {
        match key.serialize(ValueWriter)? {
            Given::Value(Value::Text(name)) => self.key = Some(name),
            _ => return no_row("a map whose keys are no texts"),
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misfit> {
        let name = self.key.take().expect("serde gives the key first");
        self.set(&name, |column| value_of(value, column))
    }

    fn end(self) -> Result<Row, Misfit> {
        self.finish()
    }
}

fn integer(number: impl TryInto<i64> + std::fmt::Display + Copy) -> Result<Given, Misfit> {
    match number.try_into() {
        Ok(number) => Ok(Given::Value(Value::Integer(number))),
        Err(_) => {
            Err(Misfit::value(format!("the integer {number}"), "integer of 64 bits with a sign"))
        }
    }
}

impl Serializer for ValueWriter {
    type Ok = Given;
    type Error = Misfit;
    type SerializeSeq = Bytes;
    type SerializeTuple = Bytes;
    type SerializeTupleStruct = Impossible<Given, Misfit>;
    type SerializeTupleVariant = Impossible<Given, Misfit>;
    type SerializeMap = Impossible<Given, Misfit>;
    type SerializeStruct = Impossible<Given, Misfit>;
    type SerializeStructVariant = Impossible<Given, Misfit>;

    fn serialize_bool(self, value: bool) -> Result<Given, Misfit> {
        integer(i64::from(value))
    }

    fn serialize_i8(self, value: i8) -> Result<Given, Misfit> {
        integer(value)
    }

    fn serialize_i16(self, value: i16) -> Result<Given, Misfit> {
        integer(value)
    }

    fn serialize_i32(self, value: i32) -> Result<Given, Misfit> {
        integer(value)
    }

    fn serialize_i64(self, value: i64) -> Result<Given, Misfit> {
        integer(value)
    }

    fn serialize_i128(self, value: i128) -> Result<Given, Misfit> {
        integer(value)
    }

    fn serialize_u8(self, value: u8) -> Result<Given, Misfit> {
        Ok(Given::Byte(value))
    }

    fn serialize_u16(self, value: u16) -> Result<Given, Misfit> {
        integer(value)
    }

    fn serialize_u32(self, value: u32) -> Result<Given, Misfit> {
        integer(value)
    }

    fn serialize_u64(self, value: u64) -> Result<Given, Misfit> {
        integer(value)
    }

    fn serialize_u128(self, value: u128) -> Result<Given, Misfit> {
        integer(value)
    }

    fn serialize_f32(self, value: f32) -> Result<Given, Misfit> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<Given, Misfit> {
        Ok(Given::Value(Value::Real(value)))
    }

    fn serialize_char(self, value: char) -> Result<Given, Misfit> {
        Ok(Given::Value(Value::Text(value.to_string())))
    }

    fn serialize_str(self, value: &str) -> Result<Given, Misfit> {
        Ok(Given::Value(Value::from(value)))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Given, Misfit> {
        Ok(Given::Value(Value::from(value)))
    }

    fn serialize_none(self) -> Result<Given, Misfit> {
        Ok(Given::Value(Value::Null))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Given, Misfit> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Given, Misfit> {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Given, Misfit> {
        self.serialize_none()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Given, Misfit> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Given, Misfit> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Given, Misfit> {
        no_value("an enum with contents")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Bytes, Misfit> {
        Ok(Bytes(Vec::new()))
    }

    fn serialize_tuple(self, _: usize) -> Result<Bytes, Misfit> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Misfit> {
        no_value("a struct")
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Misfit> {
        no_value("an enum with contents")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Misfit> {
        no_value("a map")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Misfit> {
        no_value("a struct")
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Misfit> {
        no_value("an enum with contents")
    }
}

impl Bytes {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misfit> {
        match value.serialize(ValueWriter)? {
            Given::Byte(byte) => self.0.push(byte),
            Given::Value(_) => return no_value("a sequence of something else than bytes"),
        }
        Ok(())
    }
}

impl SerializeSeq for Bytes {
    type Ok = Given;
    type Error = Misfit;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misfit> {
        self.push(value)
    }

    fn end(self) -> Result<Given, Misfit> {
        Ok(Given::Value(Value::Blob(self.0)))
    }
}

impl SerializeTuple for Bytes {
    type Ok = Given;
    type Error = Misfit;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Misfit> {
        self.push(value)
    }

    fn end(self) -> Result<Given, Misfit> {
        SerializeSeq::end(self)
    }
}
