//! Columns beside plain values, and scans by column beside scans by row.

use super::*;
use crate::execution::Execution;
use crate::key::KeyColumn;
use crate::relation::{Relation, Rows, Span};
use crate::testing::{execution, limits};
use nandu_storage::sqlite::{Value, ValueRef};
use proptest::prelude::*;

const TYPES: [ColumnType; 4] =
    [ColumnType::Integer, ColumnType::Real, ColumnType::Text, ColumnType::Blob];

/// A value of a column of this type, or NULL.
fn value(column_type: ColumnType) -> BoxedStrategy<Value> {
    let some = match column_type {
        ColumnType::Integer => {
            prop_oneof![any::<i64>(), -3_i64..3].prop_map(Value::Integer).boxed()
        }
        ColumnType::Real => (-9_i32..9).prop_map(|it| Value::Real(f64::from(it) / 2.0)).boxed(),
        ColumnType::Text => "[abc]{0,9}".prop_map(Value::Text).boxed(),
        ColumnType::Blob => proptest::collection::vec(0_u8..3, 0..9).prop_map(Value::Blob).boxed(),
    };
    prop_oneof![5 => some, 1 => Just(Value::Null)].boxed()
}

fn rows(count: usize) -> impl Strategy<Value = Vec<Vec<Value>>> {
    let row = TYPES.map(value).to_vec();
    proptest::collection::vec(row, 0..count)
}

fn batch_of(rows: &[Vec<Value>]) -> ColumnBatch {
    let mut batch = ColumnBatch::new(&TYPES);
    for row in rows {
        let push = |columns: &mut [Column]| -> Result<usize, ()> {
            let pushed = columns.iter_mut().zip(row).all(|(it, value)| it.push(value.as_ref()));
            if pushed { Ok(1) } else { Err(()) }
        };
        batch.add(push).unwrap();
    }
    batch.audit();
    batch
}

fn values_of(batch: &ColumnBatch) -> Vec<Vec<Value>> {
    let row = |row: usize| batch.columns().iter().map(|it| it.value(row).to_value()).collect();
    (0..batch.row_count()).map(row).collect()
}

proptest! {
    #[test]
    fn columns_hold_what_was_put_into_them(
        rows in rows(40), others in rows(40), places in proptest::collection::vec(0_u32..40, 0..60),
    ) {
        let (mut batch, other) = (batch_of(&rows), batch_of(&others));
        prop_assert_eq!(values_of(&batch), rows.clone());
        batch.append_all(&other);
        batch.audit();
        prop_assert_eq!(values_of(&batch), [rows.clone(), others.clone()].concat());
        let count = others.len();
        let places: Vec<u32> = places.into_iter().filter(|&it| (it as usize) < count).collect();
        let mut picked = batch_of(&rows);
        picked.append(ColumnRows { batch: &other, places: &places });
        picked.audit();
        let chosen: Vec<_> = places.iter().map(|&place| others[place as usize].clone()).collect();
        prop_assert_eq!(values_of(&picked), [rows, chosen].concat());
        batch.clear();
        batch.audit();
        prop_assert_eq!(batch.row_count(), 0);
    }

    #[test]
    fn comparisons_keep_what_sql_keeps(
        rows in rows(60), column in 0_usize..4, wanted in value(ColumnType::Integer),
        real in value(ColumnType::Real), text in value(ColumnType::Text), number in 0_usize..6,
    ) {
        use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let operator = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual][number];
        let batch = batch_of(&rows);
        for value in [wanted, real, text] {
            let comparison = Comparison { column, operator, value: value.clone() };
            let mut places: Vec<u32> = (0..nandu_base::to_u32(rows.len() as u64)).collect();
            comparison.retain(&batch, &mut places);
            let holds = |row: &Vec<Value>| {
                let (one, other) = (row[column].as_ref(), value.as_ref());
                !one.is_null() && !other.is_null() && operator.holds(one.compare(&other))
            };
            let kept = (0_u32..).zip(&rows).filter(|(_, row)| holds(row)).map(|(place, _)| place);
            prop_assert_eq!(places, kept.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_scan_by_column_gives_what_a_scan_by_row_gives(
        rows in rows(3000), least in -3_i64..3, order in Just([3, 0, 2, 1]).prop_shuffle(),
    ) {
        let mut relation = Rows::new("rows", 512).with_types(TYPES.to_vec());
        rows.iter().for_each(|row| relation.push(row));
        let execution = execution(limits(512, 8));
        let mut wanted: Vec<_> = order.iter().map(|&it| KeyColumn::Stored(it)).collect();
        wanted.push(KeyColumn::RowNumber);
        let mut stream = scan(&execution, &relation, &wanted);
        let row_of = |row: &Vec<Value>, number: i64| {
            let stored = order.iter().map(|&it| row[it].clone());
            stored.chain([Value::Integer(number)]).collect::<Vec<_>>()
        };
        let all: Vec<_> = rows.iter().zip(1..).map(|(row, number)| row_of(row, number)).collect();
        prop_assert_eq!(&collect(stream.as_mut()), &all);
        let column = order.iter().position(|&it| it == 0).unwrap();
        let value = Value::Integer(least);
        let comparison = Comparison { column, operator: Operator::GreaterOrEqual, value };
        let stream = scan(&execution, &relation, &wanted);
        let mut kept = FilteredColumns::new(stream, vec![comparison]);
        let is_kept = |row: &&Vec<Value>| matches!(row[column], Value::Integer(it) if it >= least);
        let wanted_rows: Vec<_> = all.iter().filter(is_kept).cloned().collect();
        prop_assert_eq!(collect(&mut kept), wanted_rows);
    }

    #[test]
    fn a_projection_of_a_filter_gives_the_columns_that_rows_that_are_kept_have(
        rows in rows(3000), least in -3_i64..3, order in Just([3, 0, 2, 1]).prop_shuffle(), count in 0_usize..=4,
    ) {
        let mut relation = Rows::new("rows", 512).with_types(TYPES.to_vec());
        rows.iter().for_each(|row| relation.push(row));
        let execution = execution(limits(512, 8));
        let all = [0, 1, 2, 3].map(KeyColumn::Stored);
        let value = Value::Integer(least);
        let comparison = Comparison { column: 0, operator: Operator::Less, value };
        let kept = FilteredColumns::new(scan(&execution, &relation, &all), vec![comparison]);
        // The column that was compared is among those that are left or not.
        let wanted = &order[..count];
        let mut projected = ProjectedColumns::new(Box::new(kept), wanted);
        let is_kept = |row: &&Vec<Value>| matches!(row[0], Value::Integer(it) if it < least);
        let expected = rows.iter().filter(is_kept).map(|row| wanted.iter().map(|&it| row[it].clone()));
        let expected: Vec<Vec<Value>> = expected.map(Iterator::collect).collect();
        prop_assert_eq!(collect(&mut projected), expected);
        prop_assert_eq!(projected.batch().row_count(), 0);
    }
}

fn scan<'x>(
    execution: &'x Execution,
    relation: &'x Rows,
    wanted: &[KeyColumn],
) -> Box<dyn ColumnStream + 'x> {
    let memory = execution.take("a test", 2).unwrap();
    relation.scan_columns(execution, memory, Span::ALL, wanted).unwrap()
}

fn collect(stream: &mut dyn ColumnStream) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    while stream.advance().unwrap() {
        stream.batch().audit();
        rows.extend(values_of(stream.batch()));
    }
    rows
}

#[test]
fn what_is_not_of_its_type_or_not_there_is_an_error() {
    let execution = execution(limits(512, 8));
    let mut relation = Rows::new("rows", 512).with_types(vec![ColumnType::Integer]);
    relation.push(&[Value::Integer(1)]);
    relation.push(&[Value::Text("one".to_owned())]);
    let mut stream = scan(&execution, &relation, &[KeyColumn::Stored(0)]);
    let told = stream.advance().unwrap_err().to_string();
    assert!(told.contains("not of its column's type") && told.contains('2'), "{told}");
    let scan_of = |relation: &Rows, column: usize| {
        let memory = execution.take("a test", 2).unwrap();
        let wanted = [KeyColumn::Stored(column)];
        let scan = relation.scan_columns(&execution, memory, Span::ALL, &wanted);
        scan.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(scan_of(&relation, 1), "column 1 is wanted of a table of 1");
    assert!(scan_of(&Rows::new("plain", 512), 0).contains("plain does not know"));
    assert!(!Column::new(ColumnType::Blob).push(ValueRef::Text(b"a")));
}

#[test]
fn a_batch_of_long_rows_has_few_of_them() {
    let mut relation = Rows::new("rows", 512).with_types(vec![ColumnType::Text]);
    (0..100).for_each(|_| relation.push(&[Value::Text("x".repeat(100_000))]));
    let execution = execution(limits(512, 8));
    let mut stream = scan(&execution, &relation, &[KeyColumn::Stored(0)]);
    let mut row_count = 0;
    while stream.advance().unwrap() {
        let batch = stream.batch();
        row_count += batch.row_count();
        assert!(batch.value_bytes() < super::BATCH_BYTES + 200_000, "{}", batch.value_bytes());
    }
    assert_eq!(row_count, 100);
}
