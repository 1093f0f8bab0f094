//! That the ledger finds what is not as terminals left it, each by a row that is changed behind its back.

use super::*;
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_load::TpccTable;
use nandu_load::tpcc::schema::{customer, history, order_line, orders, stock};
use nandu_storage::database::{RowRange, WriteTransaction};
use nandu_storage::sqlite::{Value, ValueRef};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Settings, Volumes};

/// A database, its ledger, and what terminals did after it was begun.
fn worked() -> (Database, Ledger, Vec<Deed>) {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
    let settings =
        Settings { log_bytes: 8 << 20, checkpoint_bytes: 2 << 20, ..Settings::default() };
    let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
    let tpcc = Tpcc::with_scale(2, SCALE, 1).unwrap();
    tpcc.store(&database, &LoadOptions::default(), &mut ()).unwrap();
    let ledger = Ledger::begin(&database.read()).unwrap();
    let scene = Arc::new(Scene { moment: AtomicU64::new(0), dies_at: u64::MAX });
    let mut deeds = Vec::new();
    let mut terminal = Terminal::new(&tpcc, 0, 1);
    let isolation = Isolation::Serializable;
    let client = Client { terminal: terminal.clone(), rng: Rng::new(1), scene, isolation };
    for moment in 1..=100 {
        let moment_us = LOAD_MOMENT_US + moment;
        let input = terminal.next_input(moment_us);
        let came = client.change(&database, (&input, moment_us), &mut deeds);
        assert!(matches!(came, Came::Done));
    }
    (database, ledger, deeds)
}

/// What the ledger says after `forge` changed something.
fn found_after(forge: impl FnOnce(&mut WriteTransaction<'_>, &[Deed])) -> Option<String> {
    let (database, mut ledger, deeds) = worked();
    let mut write = database.write().unwrap();
    forge(&mut write, &deeds);
    write.commit().unwrap();
    ledger.compare(&database.read(), deeds).unwrap()
}

fn order_of(deeds: &[Deed]) -> [i64; 3] {
    let key = |deed: &Deed| match &deed.left {
        Left::Order { input, order, .. } => Some([input.warehouse, input.district, *order]),
        _ => None,
    };
    deeds.iter().find_map(key).unwrap()
}

/// Adds to a number of the row with a key.
fn add<const N: usize>(
    write: &mut WriteTransaction<'_>,
    table: TpccTable,
    key: [i64; N],
    column: usize,
) {
    let key = key.map(ValueRef::Integer);
    let row = write.get_by_key(table.name(), &key, |row| {
        row.columns().map(|value| value.to_value()).collect::<Vec<Value>>()
    });
    let mut row = row.unwrap().unwrap();
    let Value::Integer(number) = row[column] else { panic!("{:?}", row[column]) };
    row[column] = Value::Integer(number + 1);
    let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    write.put(table.name(), &row).unwrap();
}

#[test]
fn what_was_left_as_it_was_meant_is_right_and_what_was_not_begun_is_not_missed() {
    assert_eq!(found_after(|_, _| {}), None);
    let (database, mut ledger, mut deeds) = worked();
    let unknown = Deed { moment_us: LOAD_MOMENT_US + 1000, ..deeds[0].clone() };
    deeds.push(Deed { ending: Ending::Unknown, ..unknown.clone() });
    assert_eq!(ledger.compare(&database.read(), deeds).unwrap(), None);
    let told = ledger.compare(&database.read(), vec![unknown]).unwrap();
    assert!(told.is_some_and(|told| told.contains("is gone")));
}

#[test]
fn rows_that_nobody_made_or_that_are_gone_are_told() {
    let (database, mut ledger, mut deeds) = worked();
    let payment = deeds.iter().position(|deed| matches!(deed.left, Left::Payment { .. }));
    deeds.remove(payment.unwrap());
    let told = ledger.compare(&database.read(), deeds).unwrap().unwrap();
    assert!(told.contains("were made"), "{told}");
    let told = found_after(|write, deeds| {
        let [warehouse, district, order] = order_of(deeds);
        let key = [warehouse, district, order, 1].map(ValueRef::Integer);
        assert!(write.delete_by_key(TpccTable::OrderLine.name(), &key).unwrap());
    });
    assert!(told.unwrap().contains("is not as it was asked for"));
    let told = found_after(|write, _| {
        let mut last = None;
        let mut rows = write.rows(RowRange::of(TpccTable::History.name())).unwrap();
        while let Some((number, row)) = rows.next_row().unwrap() {
            if row.get(history::H_DATE) != ValueRef::Integer(LOAD_MOMENT_US) {
                last = Some(number);
            }
        }
        drop(rows);
        write.delete(TpccTable::History.name(), last.unwrap()).unwrap();
    });
    assert!(told.unwrap().contains("is gone"));
}

#[test]
fn changed_rows_are_told() {
    for (column, word) in [(orders::O_C_ID, "asked for"), (orders::O_OL_CNT, "asked for")] {
        let told =
            found_after(|write, deeds| add(write, TpccTable::Orders, order_of(deeds), column));
        assert!(told.unwrap().contains(word));
    }
    let told = found_after(|write, deeds| {
        let [warehouse, district, order] = order_of(deeds);
        let key = [warehouse, district, order, 1];
        add(write, TpccTable::OrderLine, key, order_line::OL_QUANTITY);
    });
    assert!(told.unwrap().contains("asked for"));
    for column in [stock::S_QUANTITY, stock::S_YTD, stock::S_ORDER_CNT, stock::S_REMOTE_CNT] {
        let told = found_after(|write, _| add(write, TpccTable::Stock, [1, 1], column));
        assert!(told.unwrap().contains("stock [1, 1]"));
    }
    let told = found_after(|write, _| {
        add(write, TpccTable::Customer, [1, 1, 1], customer::C_PAYMENT_CNT);
    });
    assert!(told.unwrap().contains("payments"));
    let told =
        found_after(|write, _| add(write, TpccTable::Customer, [1, 1, 1], customer::C_BALANCE));
    assert!(told.unwrap().contains("condition 10"));
}

#[test]
fn half_a_delivery_is_told() {
    let told = found_after(|write, deeds| {
        let delivered = deeds.iter().find_map(|deed| match &deed.left {
            Left::Delivery { input, orders } => Some((input.warehouse, orders[0].unwrap())),
            _ => None,
        });
        let (warehouse, order) = delivered.unwrap();
        let key = [warehouse, 1, order, 1];
        add(write, TpccTable::OrderLine, key, order_line::OL_DELIVERY_D);
    });
    assert!(told.unwrap().contains("lines are dated by"));
}
