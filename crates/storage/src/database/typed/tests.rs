//! Types of the program against rows: what fits comes back as it was, the rest is told.

use super::*;
use crate::database::{Column, ColumnType, Database, TableKind};
use crate::volume::DeviceVolume;
use crate::{Settings, Volumes};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use proptest::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Segment {
    Machinery,
    Building,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Id(i64);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct Customer {
    // Not in the order of the columns, nor in their case.
    name: Option<String>,
    id: Id,
    is_new: bool,
    balance: f64,
    photo: Vec<u8>,
    segment: Segment,
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("id", ColumnType::Integer).not_null(),
        Column::new("name", ColumnType::Text),
        Column::new("balance", ColumnType::Real),
        Column::new("photo", ColumnType::Blob),
        Column::new("is_new", ColumnType::Integer),
        Column::new("segment", ColumnType::Text),
    ]
}

fn database() -> Database {
    let geometry = Geometry { sector_bytes: 512, sector_count: 16 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
    let settings =
        Settings { log_bytes: 1 << 20, checkpoint_bytes: 128 << 10, ..Settings::default() };
    let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
    let mut write = database.write().unwrap();
    let clustered = TableKind::Clustered { key: vec![0] };
    write.create_table("customers", columns(), clustered).unwrap();
    write.create_table("heap", columns(), TableKind::Heap).unwrap();
    let number = vec![Column::new("number", ColumnType::Integer)];
    write.create_table("numbers", number, TableKind::Heap).unwrap();
    write.commit().unwrap();
    database
}

fn ida() -> Customer {
    Customer {
        name: Some("Ida".to_owned()),
        id: Id(7),
        is_new: true,
        balance: -0.5,
        photo: vec![0, 255, 7],
        segment: Segment::Building,
    }
}

#[test]
fn structs_and_tuples_come_back_as_they_were() {
    let database = database();
    let mut write = database.write().unwrap();
    let nobody = Customer { name: None, id: Id(8), photo: Vec::new(), ..ida() };
    assert_eq!(write.insert_as("customers", &ida()).unwrap(), 0);
    assert!(!write.put_as("customers", &nobody).unwrap());
    let tuple = (9, None::<&str>, 2, [1_u8, 2], 0, "Machinery");
    assert!(!write.put_as("customers", &tuple).unwrap());
    let number = write.insert_as("heap", &ida()).unwrap();
    write.update_as("heap", number, &nobody).unwrap();
    write.claim_by_key_as("customers", &7).unwrap();
    assert_eq!(write.get_as::<Customer>("heap", number).unwrap(), Some(nobody.clone()));
    assert_eq!(write.get_as::<Customer>("heap", 99).unwrap(), None);
    assert_eq!(write.get_by_key_as("customers", &(7,)).unwrap(), Some(ida()));

    type Wide = (i32, Option<String>, f32, [u8; 2], bool, Segment);
    let wide: Wide = write.get_by_key_as("customers", &9).unwrap().unwrap();
    assert_eq!(wide, (9, None, 2.0, [1, 2], false, Segment::Machinery));

    let rows: Result<Vec<Customer>, _> = write.rows("customers").unwrap().typed().collect();
    let names: Vec<Option<String>> = rows.unwrap().into_iter().map(|row| row.name).collect();
    assert_eq!(names, [Some("Ida".to_owned()), None, None]);
    let mut rows = write.rows("heap").unwrap().typed::<Customer>();
    assert_eq!((rows.next(), rows.row_number(), rows.next()), (Some(Ok(nobody)), number, None));
    drop(rows);

    assert!(write.delete_by_key_as("customers", &7).unwrap());
    assert!(!write.delete_by_key_as("customers", &7).unwrap());
    write.commit().unwrap();
}

#[test]
fn a_table_of_one_column_may_be_a_single_value() {
    let database = database();
    let mut write = database.write().unwrap();
    write.insert_as("numbers", &5_u16).unwrap();
    write.insert_as("numbers", &None::<i64>).unwrap();
    write.insert_as("numbers", &Id(-3)).unwrap();
    let rows: Result<Vec<Option<i8>>, _> = write.rows("numbers").unwrap().typed().collect();
    assert_eq!(rows.unwrap(), [Some(5), None, Some(-3)]);
    let rows: Result<Vec<(Option<Id>,)>, _> = write.rows("numbers").unwrap().typed().collect();
    assert_eq!(rows.unwrap()[2], (Some(Id(-3)),));
}

#[test]
fn a_struct_may_want_some_columns_and_a_map_all() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Part {
        balance: f64,
        #[serde(default)]
        colour: String,
        size: Option<i64>,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Flat {
        id: i64,
        #[serde(flatten)]
        rest: BTreeMap<String, Option<String>>,
    }
    let database = database();
    let mut write = database.write().unwrap();
    write.insert_as("customers", &ida()).unwrap();
    let part: Part = write.get_by_key_as("customers", &7).unwrap().unwrap();
    assert_eq!(part, Part { balance: -0.5, colour: String::new(), size: None });
    let named = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
    let rest = [("name", Some("Bo")), ("segment", None), ("photo", None)];
    let mut rest: BTreeMap<_, _> = rest.iter().map(|(name, value)| named(name, *value)).collect();
    rest.extend([named("balance", None), named("is_new", None)]);
    let flat = Flat { id: 1, rest };
    write.put_as("customers", &flat).unwrap();
    assert_eq!(write.get_by_key_as("customers", &1).unwrap(), Some(flat));
}

/// What is told if a row is read as another type.
fn told<T: DeserializeOwned + std::fmt::Debug>(write: &WriteTransaction<'_>, key: i64) -> String {
    let told = write.get_by_key_as::<T>("customers", &key).unwrap_err().to_string();
    let mut rows = write.rows("customers").unwrap().typed::<T>();
    assert_eq!(rows.find_map(Result::err).unwrap().to_string(), told);
    assert!(rows.next().is_none(), "an error is the end");
    told
}

#[test]
fn what_does_not_fit_is_told_with_table_column_found_and_wanted() {
    #[derive(Debug, Deserialize)]
    struct Strange {
        #[serde(rename = "balnce")]
        _balance: f64,
    }
    #[derive(Debug, Deserialize)]
    struct Wrong {
        #[serde(rename = "name")]
        _name: i64,
    }
    let database = database();
    let mut write = database.write().unwrap();
    let row = (300, "Ida", 0.1, [1_u8], 2, "Unknown");
    write.put_as("customers", &row).unwrap();
    type Row1<A, B, C, D, E, F> = (A, B, C, D, E, F);
    type Text = String;
    type Blob = Vec<u8>;
    for (told, wanted) in [
        (
            told::<Wrong>(&write, 300),
            "column name (TEXT) of customers: a text of 3 bytes is no i64",
        ),
        (told::<Strange>(&write, 300), "column balnce in table customers; did you mean `balance`?"),
        (told::<(i64, i64)>(&write, 300), "a row of customers: 6 columns is no tuple of 2"),
        (told::<i64>(&write, 300), "a row of customers: 6 columns is no i64"),
        (
            told::<Row1<u8, Text, f64, Blob, i64, Text>>(&write, 300),
            "column id (INT NOT NULL) of customers: the integer 300 is no u8",
        ),
        (
            told::<Row1<i64, Text, f32, Blob, i64, Text>>(&write, 300),
            "column balance (REAL) of customers: the real 0.1 is no f32 exactly",
        ),
        (
            told::<Row1<i64, Text, f64, [u8; 2], i64, Text>>(&write, 300),
            "column photo (BLOB) of customers: a blob of 1 byte is no blob of 2 bytes",
        ),
        (
            told::<Row1<i64, Text, f64, Blob, bool, Text>>(&write, 300),
            "column is_new (INT) of customers: the integer 2 is no bool, which is 0 or 1",
        ),
        (
            told::<Row1<i64, Text, f64, Blob, i64, Segment>>(&write, 300),
            "column segment (TEXT) of customers: unknown variant `Unknown`, expected",
        ),
        (
            told::<Row1<i64, Blob, f64, Blob, i64, Text>>(&write, 300),
            "column name (TEXT) of customers: a text of 3 bytes is no sequence",
        ),
        (
            told::<Row1<i64, Text, Text, Blob, i64, Text>>(&write, 300),
            "column balance (REAL) of customers: the real 0.1 is no string",
        ),
    ] {
        assert!(told.contains(wanted), "{told}");
    }
    write.put_as("customers", &(300, None::<&str>, 0.1, [1_u8], 1, "Building")).unwrap();
    let null = told::<Wrong>(&write, 300);
    assert!(null.contains("null (wrap the type into an Option) is no i64"), "{null}");
}

#[test]
fn what_cannot_be_stored_is_told_and_nothing_is_stored() {
    #[derive(Serialize)]
    struct Short {
        id: i64,
    }
    #[derive(Serialize)]
    struct Long {
        id: i64,
        nme: String,
    }
    let database = database();
    let mut write = database.write().unwrap();
    let long = Long { id: 1, nme: "Ida".to_owned() };
    for (answer, told) in [
        (write.put_as("customers", &Short { id: 1 }), "has no field for its column name"),
        (write.put_as("customers", &long), "column nme in table customers; did you mean `name`?"),
        (write.put_as("customers", &(1, 2)), "table customers has 6 columns, the row 2"),
        (
            write.put_as("customers", &(1, 2, 3, 4, 5, 6)),
            "2 does not fit column name of customers, which is TEXT",
        ),
        (
            write.put_as("customers", &(u64::MAX, "", 0.0, [0_u8], 0, "")),
            "column id (INT NOT NULL) of customers: the integer 18446744073709551615 is no integer of",
        ),
        (
            write.put_as("customers", &(1, "", 0.0, [0_i64], 0, "")),
            "column photo (BLOB) of customers: a sequence of something else than bytes is no value",
        ),
        (write.put_as("customers", &(1, "", f64::NAN, [0_u8], 0, "")), "NaN, which is no value"),
        (write.delete_by_key_as("customers", &Short { id: 1 }), "a struct is no key"),
        (write.delete_by_key_as("customers", "x"), "a text of 1 byte does not fit column id"),
    ] {
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
    assert!(write.rows("customers").unwrap().next().is_none());
}

proptest! {
    #[test]
    fn tuples_of_eight_come_back(
        row: (i64, Option<f64>, String, bool, Vec<u8>, Option<u32>, char, i8),
    ) {
        let types = [
            ColumnType::Integer, ColumnType::Real, ColumnType::Text, ColumnType::Integer,
            ColumnType::Blob, ColumnType::Integer, ColumnType::Text, ColumnType::Integer,
        ];
        let columns = types.iter().enumerate();
        let columns = columns.map(|(at, &kind)| Column::new(&format!("c{at}"), kind)).collect();
        let definition = TableDefinition {
            name: "t".to_owned(),
            columns,
            kind: TableKind::Heap,
            file: crate::FileId(1),
            indexes: Vec::new(),
        };
        let values = definition.write_row(&row).unwrap();
        let mut record = Vec::new();
        crate::sqlite::encode_record(values.iter().map(Value::as_ref), &mut record);
        let record = RecordView::new(&record).unwrap();
        prop_assert_eq!(definition.read_row(record), Ok(row));
    }
}
