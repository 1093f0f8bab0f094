//! The same rows and inputs over SQLite: each transaction gives the same, and so do the tables in the end.

use super::{SMALL, small};
use nandu_bench::tpcc::{
    CustomerChoice, DeliveryInput, DeliveryOutput, Input, LineOutput, NewOrderInput,
    NewOrderOutput, OrderStatusInput, OrderStatusOutput, OrderedLine, Output, PaymentInput,
    PaymentOutput, Person, StockLevelInput, StockLevelOutput, Terminal, TpccCounts, execute,
};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_load::tpcc::{check, last_name};
use nandu_load::{LoadOptions, Tpcc, TpccTable};
use nandu_storage::database::{Flow, Isolation};
use nandu_storage::engine::Settings;
use nandu_storage::sqlite::{Value, ValueRef};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Volumes};
use rusqlite::types::{Value as Stored, ValueRef as StoredRef};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

const WAREHOUSES: u32 = 2;
const TERMINALS: u32 = 5;
const TRANSACTIONS: u32 = 1000;

fn ours(tpcc: &Tpcc) -> Database {
    let geometry = Geometry { sector_bytes: 512, sector_count: 128 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
    let (log_bytes, checkpoint_bytes) = (8 << 20, 2 << 20);
    let settings = Settings { log_bytes, checkpoint_bytes, ..Settings::default() };
    let database = Database::create(Volumes::new(data, None), &settings, 1).unwrap();
    tpcc.store(&database, &LoadOptions::default(), &mut ()).unwrap();
    database
}

/// The nine tables, with indexes of SQLite's own in the place of the other two.
fn theirs(tpcc: &Tpcc) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    let transaction = connection.transaction().unwrap();
    for table in &TpccTable::ALL[..9] {
        let columns: Vec<String> = table.columns().into_iter().map(|it| it.name).collect();
        let key = match table.key_column_count() {
            0 => String::new(),
            count => format!(", PRIMARY KEY ({})", columns[..count].join(", ")),
        };
        let columns = columns.join(", ");
        let sql = format!("CREATE TABLE {} ({columns}{key})", table.name());
        transaction.execute(&sql, []).unwrap();
    }
    transaction
        .execute_batch(
            "CREATE INDEX by_name ON customer (c_w_id, c_d_id, c_last, c_first);
             CREATE INDEX by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);",
        )
        .unwrap();
    tpcc.rows(&mut |table, row| {
        if !TpccTable::ALL[..9].contains(&table) {
            return Ok(());
        }
        let marks = vec!["?"; row.len()].join(", ");
        let sql = format!("INSERT INTO {} VALUES ({marks})", table.name());
        let values = row.iter().map(|value| stored(&value.to_value()));
        let mut statement = transaction.prepare_cached(&sql).unwrap();
        statement.execute(rusqlite::params_from_iter(values)).unwrap();
        Ok(())
    })
    .unwrap();
    transaction.commit().unwrap();
    connection
}

fn stored(value: &Value) -> Stored {
    match value {
        Value::Null => Stored::Null,
        Value::Integer(number) => Stored::Integer(*number),
        Value::Text(text) => Stored::Text(text.clone()),
        other => panic!("no column of TPC-C: {other:?}"),
    }
}

fn do_theirs(connection: &mut Connection, input: &Input) -> Output {
    let transaction = connection.transaction().unwrap();
    let output = match input {
        Input::NewOrder(input) => Output::NewOrder(new_order(&transaction, input)),
        Input::Payment(input) => Output::Payment(Box::new(payment(&transaction, input))),
        Input::OrderStatus(input) => Output::OrderStatus(order_status(&transaction, input)),
        Input::Delivery(input) => Output::Delivery(delivery(&transaction, input)),
        Input::StockLevel(input) => Output::StockLevel(stock_level(&transaction, input)),
    };
    match &output {
        Output::NewOrder(order) if order.is_rolled_back => transaction.rollback().unwrap(),
        _ => transaction.commit().unwrap(),
    }
    output
}

fn new_order(sql: &Transaction<'_>, input: &NewOrderInput) -> NewOrderOutput {
    let NewOrderInput { warehouse, district, customer, moment_us, lines } = input;
    let warehouse_tax: i64 = sql
        .query_row("SELECT w_tax FROM warehouse WHERE w_id = ?", [warehouse], |row| row.get(0))
        .unwrap();
    let (district_tax, order): (i64, i64) = sql
        .query_row(
            "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?
             RETURNING d_tax, d_next_o_id - 1",
            params![warehouse, district],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let (discount, customer_last, customer_credit): (i64, String, String) = sql
        .query_row(
            "SELECT c_discount, c_last, c_credit FROM customer
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            params![warehouse, district, customer],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    let is_local = lines.iter().all(|line| line.supply_warehouse == *warehouse);
    sql.execute(
        "INSERT INTO orders VALUES (?, ?, ?, ?, ?, NULL, ?, ?)",
        params![warehouse, district, order, customer, moment_us, lines.len() as i64, is_local],
    )
    .unwrap();
    sql.execute("INSERT INTO new_order VALUES (?, ?, ?)", params![warehouse, district, order])
        .unwrap();
    let outputs: Vec<LineOutput> =
        (1..=lines.len()).filter_map(|number| order_line(sql, input, order, number)).collect();
    let sum: i64 = outputs.iter().map(|line| line.amount_cents).sum();
    // In doubles, which are exact enough for a cent.
    let total_cents = sql
        .query_row(
            "SELECT CAST(round(?1 * (1.0 - ?2 / 1e4) * (1.0 + ?3 / 1e4) + 1e-7) AS INTEGER)",
            [sum, discount, warehouse_tax + district_tax],
            |row| row.get(0),
        )
        .unwrap();
    NewOrderOutput {
        order,
        customer_last,
        customer_credit,
        discount,
        warehouse_tax,
        district_tax,
        is_rolled_back: outputs.len() < lines.len(),
        lines: outputs,
        total_cents,
    }
}

/// One item of an order; `None` if there is no such item.
fn order_line(
    sql: &Transaction<'_>,
    input: &NewOrderInput,
    order: i64,
    number: usize,
) -> Option<LineOutput> {
    let line = &input.lines[number - 1];
    let item = sql
        .query_row(
            "SELECT i_price, i_name, instr(i_data, 'ORIGINAL') > 0 FROM item WHERE i_id = ?",
            [line.item],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?)),
        )
        .optional()
        .unwrap();
    let (price_cents, item_name, is_original) = item?;
    let update = format!(
        "UPDATE stock SET
           s_quantity = CASE WHEN s_quantity >= ?1 + 10 THEN s_quantity - ?1
                        ELSE s_quantity - ?1 + 91 END,
           s_ytd = s_ytd + ?1, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ?2
         WHERE s_w_id = ?3 AND s_i_id = ?4
         RETURNING s_quantity, instr(s_data, 'ORIGINAL') > 0, s_dist_{:02}",
        input.district
    );
    let is_remote = line.supply_warehouse != input.warehouse;
    let (stock_quantity, is_original_too, info): (i64, bool, String) = sql
        .query_row(
            &update,
            params![line.quantity, is_remote, line.supply_warehouse, line.item],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    let amount_cents = line.quantity * price_cents;
    let key = (input.warehouse, input.district, order, number as i64);
    sql.execute(
        "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)",
        params![
            key.0,
            key.1,
            key.2,
            key.3,
            line.item,
            line.supply_warehouse,
            line.quantity,
            amount_cents,
            info
        ],
    )
    .unwrap();
    let is_brand = is_original && is_original_too;
    Some(LineOutput { item_name, stock_quantity, is_brand, price_cents, amount_cents })
}

fn customer_number(sql: &Transaction<'_>, place: (i64, i64), choice: CustomerChoice) -> i64 {
    let name = match choice {
        CustomerChoice::Number(number) => return number,
        CustomerChoice::LastName(number) => last_name(number),
    };
    let mut statement = sql
        .prepare_cached(
            "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ?
             ORDER BY c_first, c_id",
        )
        .unwrap();
    let numbers = statement.query_map(params![place.0, place.1, name], |row| row.get(0)).unwrap();
    let numbers: Vec<i64> = numbers.map(Result::unwrap).collect();
    numbers[numbers.len().div_ceil(2) - 1]
}

fn texts<const N: usize>(row: &Row<'_>, first: usize) -> [String; N] {
    std::array::from_fn(|place| row.get(first + place).unwrap())
}

fn payment(sql: &Transaction<'_>, input: &PaymentInput) -> PaymentOutput {
    let PaymentInput { warehouse, district, amount_cents, moment_us, .. } = input;
    let place = (input.customer_warehouse, input.customer_district);
    let number = customer_number(sql, place, input.customer);
    let warehouse_texts: [String; 6] = sql
        .query_row(
            "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?
             RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
            params![amount_cents, warehouse],
            |row| Ok(texts(row, 0)),
        )
        .unwrap();
    let district_texts: [String; 6] = sql
        .query_row(
            "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?
             RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
            params![amount_cents, warehouse, district],
            |row| Ok(texts(row, 0)),
        )
        .unwrap();
    let update = "UPDATE customer SET c_balance = c_balance - ?1,
           c_ytd_payment = c_ytd_payment + ?1, c_payment_cnt = c_payment_cnt + 1,
           c_data = CASE c_credit WHEN 'BC' THEN substr(printf('%d %d %d %d %d %d.%02d ',
             c_id, c_d_id, c_w_id, ?2, ?3, ?1 / 100, ?1 % 100) || c_data, 1, 500) ELSE c_data END
         WHERE c_w_id = ?4 AND c_d_id = ?5 AND c_id = ?6
         RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip,
           c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, substr(c_data, 1, 200)";
    let (customer, data) = sql
        .query_row(
            update,
            params![amount_cents, district, warehouse, place.0, place.1, number],
            |row| Ok((person(row, number), row.get::<_, String>(14)?)),
        )
        .unwrap();
    let noted = format!("{}    {}", warehouse_texts[0], district_texts[0]);
    sql.execute(
        "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![place.0, place.1, number, warehouse, district, moment_us, amount_cents, noted],
    )
    .unwrap();
    PaymentOutput {
        warehouse: warehouse_texts,
        district: district_texts,
        data: (customer.credit == "BC").then_some(data),
        customer,
    }
}

fn person(row: &Row<'_>, number: i64) -> Person {
    Person {
        number,
        names: texts(row, 0),
        address: texts(row, 3),
        phone: row.get(8).unwrap(),
        since_us: row.get(9).unwrap(),
        credit: row.get(10).unwrap(),
        credit_limit_cents: row.get(11).unwrap(),
        discount: row.get(12).unwrap(),
        balance_cents: row.get(13).unwrap(),
    }
}

fn order_status(sql: &Transaction<'_>, input: &OrderStatusInput) -> OrderStatusOutput {
    let OrderStatusInput { warehouse, district, .. } = *input;
    let customer = customer_number(sql, (warehouse, district), input.customer);
    let (names, balance_cents) = sql
        .query_row(
            "SELECT c_first, c_middle, c_last, c_balance FROM customer
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            [warehouse, district, customer],
            |row| Ok((texts(row, 0), row.get(3)?)),
        )
        .unwrap();
    let (order, moment_us, carrier) = sql
        .query_row(
            "SELECT o_id, o_entry_d, o_carrier_id FROM orders
             WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1",
            [warehouse, district, customer],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    let mut statement = sql
        .prepare_cached(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
             FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ? ORDER BY ol_number",
        )
        .unwrap();
    let line = |row: &Row<'_>| {
        Ok(OrderedLine {
            item: row.get(0)?,
            supply_warehouse: row.get(1)?,
            quantity: row.get(2)?,
            amount_cents: row.get(3)?,
            delivered_us: row.get(4)?,
        })
    };
    let lines = statement.query_map([warehouse, district, order], line).unwrap();
    let lines = lines.map(Result::unwrap).collect();
    OrderStatusOutput { customer, names, balance_cents, order, moment_us, carrier, lines }
}

fn delivery(sql: &Transaction<'_>, input: &DeliveryInput) -> DeliveryOutput {
    let DeliveryInput { warehouse, carrier, moment_us } = *input;
    let deliver = |district: i64| -> Option<i64> {
        let place = [warehouse, district];
        let order: i64 = sql
            .query_row(
                "SELECT min(no_o_id) FROM new_order WHERE no_w_id = ? AND no_d_id = ?",
                place,
                |row| row.get::<_, Option<i64>>(0),
            )
            .unwrap()?;
        let key = [warehouse, district, order];
        sql.execute("DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?", key)
            .unwrap();
        let customer: i64 = sql
            .query_row(
                "UPDATE orders SET o_carrier_id = ?4
                 WHERE o_w_id = ?1 AND o_d_id = ?2 AND o_id = ?3 RETURNING o_c_id",
                [warehouse, district, order, carrier],
                |row| row.get(0),
            )
            .unwrap();
        sql.execute(
            "UPDATE order_line SET ol_delivery_d = ?4
             WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id = ?3",
            [warehouse, district, order, moment_us],
        )
        .unwrap();
        sql.execute(
            "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1, c_balance = c_balance +
               (SELECT sum(ol_amount) FROM order_line
                WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id = ?3)
             WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?4",
            [warehouse, district, order, customer],
        )
        .unwrap();
        Some(order)
    };
    DeliveryOutput { orders: (1..=10).map(deliver).collect() }
}

fn stock_level(sql: &Transaction<'_>, input: &StockLevelInput) -> StockLevelOutput {
    let StockLevelInput { warehouse, district, threshold } = *input;
    let low_count: i64 = sql
        .query_row(
            "SELECT count(DISTINCT s_i_id) FROM district
             JOIN order_line ON ol_w_id = d_w_id AND ol_d_id = d_id
               AND ol_o_id < d_next_o_id AND ol_o_id >= d_next_o_id - 20
             JOIN stock ON s_w_id = d_w_id AND s_i_id = ol_i_id
             WHERE d_w_id = ? AND d_id = ? AND s_quantity < ?",
            [warehouse, district, threshold],
            |row| row.get(0),
        )
        .unwrap();
    StockLevelOutput { low_count: low_count.unsigned_abs() }
}

fn rows_of_ours(database: &Database, table: TpccTable) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    database
        .read()
        .scan(table.name(), |_, row| {
            rows.push(row.columns().map(ValueRef::to_value).collect());
            Flow::Continue(())
        })
        .unwrap();
    rows
}

fn rows_of_theirs(connection: &Connection, select: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(select).unwrap();
    let count = statement.column_count();
    let value = |stored: StoredRef<'_>| match stored {
        StoredRef::Null => Value::Null,
        StoredRef::Integer(number) => Value::Integer(number),
        StoredRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).unwrap()),
        other => panic!("no column of TPC-C: {other:?}"),
    };
    let row = |row: &Row<'_>| Ok((0..count).map(|at| value(row.get_ref(at).unwrap())).collect());
    let rows = statement.query_map([], row).unwrap();
    rows.map(Result::unwrap).collect()
}

/// How SQLite gives the rows of one of our tables, in our order.
fn select_of(table: TpccTable) -> String {
    match table {
        TpccTable::CustomerByName => {
            "SELECT c_w_id, c_d_id, c_last, c_first, c_id FROM customer ORDER BY 1, 2, 3, 4, 5"
                .into()
        }
        TpccTable::OrdersByCustomer => {
            "SELECT o_w_id, o_d_id, o_c_id, o_id FROM orders ORDER BY 1, 2, 3, 4".into()
        }
        TpccTable::History => "SELECT * FROM history ORDER BY rowid".into(),
        _ => {
            let key = (1..=table.key_column_count()).map(|column| column.to_string());
            let key: Vec<String> = key.collect();
            format!("SELECT * FROM {} ORDER BY {}", table.name(), key.join(", "))
        }
    }
}

#[test]
fn sqlite_gives_the_same_answers_and_ends_with_the_same_rows() {
    let tpcc = small(WAREHOUSES);
    assert_eq!(tpcc.scale(), SMALL);
    for isolation in Isolation::ALL {
        let (database, mut connection) = (ours(&tpcc), theirs(&tpcc));
        let mut terminals: Vec<Terminal> =
            (0..TERMINALS).map(|number| Terminal::new(&tpcc, number, 3)).collect();
        let mut counts = TpccCounts::default();
        for number in 0..TRANSACTIONS {
            let terminal = &mut terminals[nandu_base::to_index(u64::from(number % TERMINALS))];
            let input = terminal.next_input(i64::from(number) * 1_000_003);
            let output = execute(&database, isolation, &input, &mut counts).unwrap();
            assert_eq!(output, do_theirs(&mut connection, &input), "{number}: {input:?}");
        }
        assert!(counts.rolled_back_count > 0 && counts.remote_order_count > 0, "{counts:?}");
        assert!(counts.delivered_order_count > 200, "{counts:?}");
        assert_eq!(counts.retries.retry_count, 0);
        for table in TpccTable::ALL {
            let theirs = rows_of_theirs(&connection, &select_of(table));
            assert!(rows_of_ours(&database, table) == theirs, "{}", table.name());
        }
        assert!(check(&database.read()).unwrap().is_sound());
        database.close().unwrap();
    }
}
