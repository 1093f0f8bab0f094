//! The five transactions in SQL (clauses 2.4 to 2.8), statement by statement: the same text for every
//! engine that has `RETURNING`.
//!
//! 1. What is looked for in a text, and what a customer's data begin with, is worked out here, so that no
//!    function that engines name differently is needed.

use super::sql::Parameter::{self, Integer, Text};
use super::sql::{Statements, Stop, wrong};
use nandu_bench::tpcc::{
    CustomerChoice, DeliveryInput, DeliveryOutput, Input, LineInput, LineOutput, NewOrderInput,
    NewOrderOutput, OrderStatusInput, OrderStatusOutput, OrderedLine, Output, PaymentInput,
    PaymentOutput, Person, StockLevelInput, StockLevelOutput,
};
use nandu_load::tpcc::{DISTRICT_COUNT, last_name};

/// What some items and stocks have in their data.
const ORIGINAL: &str = "ORIGINAL";
/// Signs of a customer's data that are shown.
const SHOWN_LENGTH: usize = 200;

/// Does what a terminal asks for; a new order that says that it is rolled back has to be.
///
/// # Errors
/// If the engine fails, others are in the way, or its tables are not those of TPC-C.
pub(super) fn transact(sql: &mut dyn Statements, input: &Input) -> Result<Output, Stop> {
    Ok(match input {
        Input::NewOrder(input) => Output::NewOrder(new_order(sql, input)?),
        Input::Payment(input) => Output::Payment(Box::new(payment(sql, input)?)),
        Input::OrderStatus(input) => Output::OrderStatus(order_status(sql, input)?),
        Input::Delivery(input) => Output::Delivery(delivery(sql, input)?),
        Input::StockLevel(input) => Output::StockLevel(stock_level(sql, input)?),
    })
}

const WAREHOUSE_TAX: &str = "SELECT w_tax FROM warehouse WHERE w_id = $1";
const NEXT_ORDER: &str =
    "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2
     RETURNING d_tax, d_next_o_id - 1";
const ORDERING_CUSTOMER: &str = "SELECT c_discount, c_last, c_credit FROM customer
     WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const INSERT_ORDER: &str = "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)";
const INSERT_NEW_ORDER: &str = "INSERT INTO new_order VALUES ($1, $2, $3)";
const ITEM: &str = "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1";
const INSERT_LINE: &str =
    "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)";

/// What takes items out of a stock and gives the text of a district.
macro_rules! take_from_stock {
    ($($district:literal)*) => {
        [$(concat!(
            "UPDATE stock SET
               s_quantity = CASE WHEN s_quantity >= $1 + 10 THEN s_quantity - $1
                            ELSE s_quantity - $1 + 91 END,
               s_ytd = s_ytd + $1, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $2
             WHERE s_w_id = $3 AND s_i_id = $4
             RETURNING s_quantity, s_data, s_dist_", $district
        )),*]
    };
}
const TAKE_FROM_STOCK: [&str; DISTRICT_COUNT as usize] =
    take_from_stock!("01" "02" "03" "04" "05" "06" "07" "08" "09" "10");

fn new_order(sql: &mut dyn Statements, input: &NewOrderInput) -> Result<NewOrderOutput, Stop> {
    let NewOrderInput { warehouse, district, customer, moment_us, lines } = input;
    let (w, d) = (Integer(*warehouse), Integer(*district));
    let warehouse_tax = sql.row(WAREHOUSE_TAX, &[w])?.integer()?;
    let mut row = sql.row(NEXT_ORDER, &[w, d])?;
    let (district_tax, order) = (row.integer()?, row.integer()?);
    let mut row = sql.row(ORDERING_CUSTOMER, &[w, d, Integer(*customer)])?;
    let (discount, customer_last, customer_credit) = (row.integer()?, row.text()?, row.text()?);
    let is_local = lines.iter().all(|line| line.supply_warehouse == *warehouse);
    let o = Integer(order);
    let line_count = Integer(lines.len() as i64);
    let local = Integer(is_local.into());
    sql.rows(INSERT_ORDER, &[w, d, o, Integer(*customer), Integer(*moment_us), line_count, local])?;
    sql.rows(INSERT_NEW_ORDER, &[w, d, o])?;
    let mut outputs = Vec::with_capacity(lines.len());
    for (line, number) in lines.iter().zip(1..) {
        outputs.extend(order_line(sql, (input, line), order, number)?);
    }
    let sum: i64 = outputs.iter().map(|line| line.amount_cents).sum();
    Ok(NewOrderOutput {
        order,
        customer_last,
        customer_credit,
        discount,
        warehouse_tax,
        district_tax,
        is_rolled_back: outputs.len() < lines.len(),
        lines: outputs,
        total_cents: total_cents(sum, discount, warehouse_tax + district_tax),
    })
}

/// What an order comes to, in doubles, which are exact enough for a cent.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "some thousand dollars in cents"
)]
pub(super) fn total_cents(sum: i64, discount: i64, taxes: i64) -> i64 {
    let [sum, discount, taxes] = [sum, discount, taxes].map(|number| number as f64);
    (sum * (1.0 - discount / 1e4) * (1.0 + taxes / 1e4) + 1e-7).round() as i64
}

/// One item of an order; `None` if there is no such item.
fn order_line(
    sql: &mut dyn Statements,
    (input, line): (&NewOrderInput, &LineInput),
    order: i64,
    number: i64,
) -> Result<Option<LineOutput>, Stop> {
    let (item, supply) = (Integer(line.item), Integer(line.supply_warehouse));
    let Some(mut row) = sql.row_if_any(ITEM, &[item])? else { return Ok(None) };
    let (price_cents, item_name, item_data) = (row.integer()?, row.text()?, row.text()?);
    let is_remote = Integer((line.supply_warehouse != input.warehouse).into());
    let quantity = Integer(line.quantity);
    let place = usize::try_from(input.district - 1).unwrap_or_default();
    let mut row = sql.row(TAKE_FROM_STOCK[place], &[quantity, is_remote, supply, item])?;
    let (stock_quantity, stock_data, info) = (row.integer()?, row.text()?, row.text()?);
    let amount_cents = line.quantity * price_cents;
    let key = [input.warehouse, input.district, order, number].map(Integer);
    let [w, d, o, n] = key;
    let amount = Integer(amount_cents);
    sql.rows(INSERT_LINE, &[w, d, o, n, item, supply, quantity, amount, Text(&info)])?;
    let is_brand = item_data.contains(ORIGINAL) && stock_data.contains(ORIGINAL);
    Ok(Some(LineOutput { item_name, stock_quantity, is_brand, price_cents, amount_cents }))
}

const CUSTOMERS_BY_NAME: &str =
    "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3
     ORDER BY c_first, c_id";

/// The number of a customer; of those with a last name that of the one in the middle by first name.
fn customer_number(
    sql: &mut dyn Statements,
    [w, d]: [Parameter<'_>; 2],
    choice: CustomerChoice,
) -> Result<i64, Stop> {
    let name = match choice {
        CustomerChoice::Number(number) => return Ok(number),
        CustomerChoice::LastName(number) => last_name(number),
    };
    let mut rows = sql.rows(CUSTOMERS_BY_NAME, &[w, d, Text(&name)])?;
    let middle = rows.len().div_ceil(2).checked_sub(1);
    let row = middle.and_then(|middle| rows.get_mut(middle));
    row.ok_or_else(|| wrong(&format!("there is no customer {name}")))?.integer()
}

const PAY_WAREHOUSE: &str = "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2
     RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip";
const PAY_DISTRICT: &str = "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3
     RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip";
const PAY: &str = "UPDATE customer SET c_balance = c_balance - $1,
       c_ytd_payment = c_ytd_payment + $1, c_payment_cnt = c_payment_cnt + 1,
       c_data = CASE c_credit WHEN 'BC' THEN substr($2 || c_data, 1, 500) ELSE c_data END
     WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5
     RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone,
       c_since, c_credit, c_credit_lim, c_discount, c_balance, c_data";
const INSERT_HISTORY: &str = "INSERT INTO history VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

fn payment(sql: &mut dyn Statements, input: &PaymentInput) -> Result<PaymentOutput, Stop> {
    let place = [input.customer_warehouse, input.customer_district].map(Integer);
    let number = customer_number(sql, place, input.customer)?;
    let (w, d, amount) =
        (Integer(input.warehouse), Integer(input.district), Integer(input.amount_cents));
    let warehouse: [String; 6] = sql.row(PAY_WAREHOUSE, &[amount, w])?.texts()?;
    let district: [String; 6] = sql.row(PAY_DISTRICT, &[amount, w, d])?.texts()?;
    let noted = noted(input, number);
    let [customer_w, customer_d] = place;
    let c = Integer(number);
    let mut row = sql.row(PAY, &[amount, Text(&noted), customer_w, customer_d, c])?;
    let customer = Person {
        number,
        names: row.texts()?,
        address: row.texts()?,
        phone: row.text()?,
        since_us: row.integer()?,
        credit: row.text()?,
        credit_limit_cents: row.integer()?,
        discount: row.integer()?,
        balance_cents: row.integer()?,
    };
    let mut data = row.text()?;
    data.truncate(SHOWN_LENGTH);
    let names = format!("{}    {}", warehouse[0], district[0]);
    let moment = Integer(input.moment_us);
    sql.rows(INSERT_HISTORY, &[customer_w, customer_d, c, w, d, moment, amount, Text(&names)])?;
    let data = (customer.credit == "BC").then_some(data);
    Ok(PaymentOutput { warehouse, district, customer, data })
}

/// What is noted of a payment before what a customer of bad credit has as data.
fn noted(input: &PaymentInput, number: i64) -> String {
    let PaymentInput { warehouse, district, amount_cents, .. } = input;
    let (of_warehouse, of_district) = (input.customer_warehouse, input.customer_district);
    let (units, cents) = (amount_cents / 100, amount_cents % 100);
    format!("{number} {of_district} {of_warehouse} {district} {warehouse} {units}.{cents:02} ")
}

const ASKING_CUSTOMER: &str = "SELECT c_first, c_middle, c_last, c_balance FROM customer
     WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const LAST_ORDER: &str = "SELECT o_id, o_entry_d, o_carrier_id FROM orders
     WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1";
const LINES: &str = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
     FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 ORDER BY ol_number";

fn order_status(
    sql: &mut dyn Statements,
    input: &OrderStatusInput,
) -> Result<OrderStatusOutput, Stop> {
    let place = [input.warehouse, input.district].map(Integer);
    let customer = customer_number(sql, place, input.customer)?;
    let [w, d] = place;
    let mut row = sql.row(ASKING_CUSTOMER, &[w, d, Integer(customer)])?;
    let (names, balance_cents) = (row.texts()?, row.integer()?);
    let mut row = sql.row(LAST_ORDER, &[w, d, Integer(customer)])?;
    let (order, moment_us, carrier) = (row.integer()?, row.integer()?, row.integer_or_null()?);
    let mut lines = Vec::new();
    for mut row in sql.rows(LINES, &[w, d, Integer(order)])? {
        lines.push(OrderedLine {
            item: row.integer()?,
            supply_warehouse: row.integer()?,
            quantity: row.integer()?,
            amount_cents: row.integer()?,
            delivered_us: row.integer_or_null()?,
        });
    }
    Ok(OrderStatusOutput { customer, names, balance_cents, order, moment_us, carrier, lines })
}

const OLDEST: &str = "SELECT min(no_o_id) FROM new_order WHERE no_w_id = $1 AND no_d_id = $2";
const TAKE_NEW_ORDER: &str =
    "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3";
const CARRY: &str = "UPDATE orders SET o_carrier_id = $4
     WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id";
const DELIVER_LINES: &str = "UPDATE order_line SET ol_delivery_d = $4
     WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 RETURNING ol_amount";
const CHARGE: &str = "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1,
       c_balance = c_balance + $4 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";

fn delivery(sql: &mut dyn Statements, input: &DeliveryInput) -> Result<DeliveryOutput, Stop> {
    let districts = 1..=i64::from(DISTRICT_COUNT);
    let orders = districts.map(|district| deliver(sql, input, district)).collect::<Result<_, _>>();
    Ok(DeliveryOutput { orders: orders? })
}

/// The oldest new order of a district goes out, if there is one.
fn deliver(
    sql: &mut dyn Statements,
    input: &DeliveryInput,
    district: i64,
) -> Result<Option<i64>, Stop> {
    let [w, d] = [input.warehouse, district].map(Integer);
    let Some(order) = sql.row(OLDEST, &[w, d])?.integer_or_null()? else { return Ok(None) };
    let o = Integer(order);
    sql.rows(TAKE_NEW_ORDER, &[w, d, o])?;
    let customer = sql.row(CARRY, &[w, d, o, Integer(input.carrier)])?.integer()?;
    let mut sum = 0;
    for mut row in sql.rows(DELIVER_LINES, &[w, d, o, Integer(input.moment_us)])? {
        sum += row.integer()?;
    }
    sql.rows(CHARGE, &[w, d, Integer(customer), Integer(sum)])?;
    Ok(Some(order))
}

const NEXT_NUMBER: &str = "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2";
/// By itself, since planners do not know how few orders lie between two columns of another table.
const LOW_STOCK: &str = "SELECT count(DISTINCT s_i_id) FROM order_line
     JOIN stock ON s_w_id = $1 AND s_i_id = ol_i_id
     WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 AND s_quantity < $5";

fn stock_level(
    sql: &mut dyn Statements,
    input: &StockLevelInput,
) -> Result<StockLevelOutput, Stop> {
    let StockLevelInput { warehouse, district, threshold } = *input;
    let next = sql.row(NEXT_NUMBER, &[warehouse, district].map(Integer))?.integer()?;
    let parameters = [warehouse, district, next - 20, next, threshold].map(Integer);
    let mut row = sql.row(LOW_STOCK, &parameters)?;
    Ok(StockLevelOutput { low_count: row.integer()?.unsigned_abs() })
}
