//! The five transactions as functions in a server of PostgreSQL, `functions.sql`: each is one statement, which
//! is a transaction by itself.
//!
//! 1. An order that has to be rolled back is an error that the function raises; it says what a terminal shows
//!    of such an order.

use super::libpq::{Answer, Connection};
use super::sql::Parameter::{self, Integer, Text};
use super::sql::{Connection as Client, Stop, wrong};
use super::transactions::total_cents;
use nandu_bench::tpcc::{
    CustomerChoice, DeliveryOutput, Input, LineOutput, NewOrderInput, NewOrderOutput,
    OrderStatusOutput, OrderedLine, Output, PaymentInput, PaymentOutput, Person, StockLevelOutput,
};
use nandu_load::tpcc::last_name;

/// What makes the functions.
pub(super) const SCRIPT: &str = include_str!("functions.sql");

const NEW_ORDER: &str = "SELECT tpcc_new_order($1, $2, $3, $4, $5, $6, $7, $8)";
const PAYMENT: &str = "SELECT tpcc_payment($1, $2, $3, $4, $5, $6, $7, $8)";
const ORDER_STATUS: &str = "SELECT tpcc_order_status($1, $2, $3, $4)";
const DELIVERY: &str = "SELECT tpcc_delivery($1, $2, $3)";
const STOCK_LEVEL: &str = "SELECT tpcc_stock_level($1, $2, $3)";

pub(super) struct FunctionsClient(pub(super) Connection);

/// The values of an answer, which are taken one after the other.
struct Values<'a>(std::iter::Peekable<std::str::Split<'a, char>>);

impl<'a> Values<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.split('|').peekable())
    }

    fn text(&mut self) -> Result<String, Stop> {
        let text = self.0.next().map(str::to_owned);
        text.ok_or_else(|| wrong("a function answers with too few values"))
    }

    fn texts<const N: usize>(&mut self) -> Result<[String; N], Stop> {
        let mut texts = std::array::from_fn(|_| String::new());
        for text in &mut texts {
            *text = self.text()?;
        }
        Ok(texts)
    }

    fn integer(&mut self) -> Result<i64, Stop> {
        self.integer_or_null()?.ok_or_else(|| wrong("a function answers with no number"))
    }

    /// A number, or nothing where there is none.
    fn integer_or_null(&mut self) -> Result<Option<i64>, Stop> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse();
        number.map(Some).map_err(|_| wrong(&format!("a function answers with {text}")))
    }

    fn has_more(&mut self) -> bool {
        self.0.peek().is_some()
    }
}

impl Client for FunctionsClient {
    fn attempt(&mut self, input: &Input) -> Result<Output, Stop> {
        Ok(match input {
            Input::NewOrder(input) => Output::NewOrder(self.new_order(input)?),
            Input::Payment(input) => Output::Payment(Box::new(self.payment(input)?)),
            Input::OrderStatus(input) => {
                let place = (input.warehouse, input.district);
                Output::OrderStatus(self.order_status(place, input.customer)?)
            }
            Input::Delivery(input) => {
                let numbers = [input.warehouse, input.carrier, input.moment_us];
                let text = self.call(DELIVERY, &numbers.map(Integer))?;
                let mut values = Values::of(&text);
                let mut orders = Vec::new();
                while values.has_more() {
                    orders.push(values.integer_or_null()?);
                }
                Output::Delivery(DeliveryOutput { orders })
            }
            Input::StockLevel(input) => {
                let numbers = [input.warehouse, input.district, input.threshold];
                let text = self.call(STOCK_LEVEL, &numbers.map(Integer))?;
                let low_count = Values::of(&text).integer()?.unsigned_abs();
                Output::StockLevel(StockLevelOutput { low_count })
            }
        })
    }
}

/// A customer as functions are told of one: a number, or 0 and a name.
fn told(choice: CustomerChoice) -> (i64, String) {
    match choice {
        CustomerChoice::Number(number) => (number, String::new()),
        CustomerChoice::LastName(number) => (0, last_name(number)),
    }
}

impl FunctionsClient {
    /// What a function answers that is not rolled back.
    fn call(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<String, Stop> {
        match self.0.ask(statement, parameters)? {
            Answer::Rows(mut rows) => match rows.first_mut() {
                Some(row) => row.text(),
                None => Err(wrong("a function gives no row")),
            },
            Answer::RolledBack(_) => Err(wrong("a function rolls back what is none of its own")),
        }
    }

    fn new_order(&mut self, input: &NewOrderInput) -> Result<NewOrderOutput, Stop> {
        let NewOrderInput { warehouse, district, customer, moment_us, lines } = input;
        let is_local = lines.iter().all(|line| line.supply_warehouse == *warehouse);
        let list = |numbers: Vec<String>| format!("{{{}}}", numbers.join(","));
        let items = list(lines.iter().map(|line| line.item.to_string()).collect());
        let supplies = list(lines.iter().map(|line| line.supply_warehouse.to_string()).collect());
        let quantities = list(lines.iter().map(|line| line.quantity.to_string()).collect());
        let numbers = [*warehouse, *district, *customer, *moment_us, is_local.into()].map(Integer);
        let mut parameters = numbers.to_vec();
        parameters.extend([&items, &supplies, &quantities].map(|text| Text(text)));
        let (text, is_rolled_back) = match self.0.ask(NEW_ORDER, &parameters)? {
            Answer::RolledBack(text) => (text, true),
            Answer::Rows(mut rows) => match rows.first_mut() {
                Some(row) => (row.text()?, false),
                None => return Err(wrong("a function gives no row")),
            },
        };
        let mut values = Values::of(&text);
        let (order, customer_last, customer_credit) =
            (values.integer()?, values.text()?, values.text()?);
        let (discount, warehouse_tax, district_tax) =
            (values.integer()?, values.integer()?, values.integer()?);
        let mut lines = Vec::new();
        while values.has_more() {
            lines.push(LineOutput {
                item_name: values.text()?,
                stock_quantity: values.integer()?,
                is_brand: values.integer()? == 1,
                price_cents: values.integer()?,
                amount_cents: values.integer()?,
            });
        }
        let sum = lines.iter().map(|line| line.amount_cents).sum();
        Ok(NewOrderOutput {
            order,
            customer_last,
            customer_credit,
            discount,
            warehouse_tax,
            district_tax,
            lines,
            total_cents: total_cents(sum, discount, warehouse_tax + district_tax),
            is_rolled_back,
        })
    }

    fn payment(&mut self, input: &PaymentInput) -> Result<PaymentOutput, Stop> {
        let (number, name) = told(input.customer);
        let text = self.call(
            PAYMENT,
            &[
                Integer(input.warehouse),
                Integer(input.district),
                Integer(input.customer_warehouse),
                Integer(input.customer_district),
                Integer(number),
                Text(&name),
                Integer(input.amount_cents),
                Integer(input.moment_us),
            ],
        )?;
        let mut values = Values::of(&text);
        let number = values.integer()?;
        let (warehouse, district) = (values.texts()?, values.texts()?);
        let customer = Person {
            number,
            names: values.texts()?,
            address: values.texts()?,
            phone: values.text()?,
            since_us: values.integer()?,
            credit: values.text()?,
            credit_limit_cents: values.integer()?,
            discount: values.integer()?,
            balance_cents: values.integer()?,
        };
        let data = values.text()?;
        let data = (customer.credit == "BC").then_some(data);
        Ok(PaymentOutput { warehouse, district, customer, data })
    }

    fn order_status(
        &mut self,
        (warehouse, district): (i64, i64),
        customer: CustomerChoice,
    ) -> Result<OrderStatusOutput, Stop> {
        let (number, name) = told(customer);
        let parameters = [Integer(warehouse), Integer(district), Integer(number), Text(&name)];
        let text = self.call(ORDER_STATUS, &parameters)?;
        let mut values = Values::of(&text);
        let customer = values.integer()?;
        let (names, balance_cents) = (values.texts()?, values.integer()?);
        let (order, moment_us) = (values.integer()?, values.integer()?);
        let carrier = values.integer_or_null()?;
        let mut lines = Vec::new();
        while values.has_more() {
            lines.push(OrderedLine {
                item: values.integer()?,
                supply_warehouse: values.integer()?,
                quantity: values.integer()?,
                amount_cents: values.integer()?,
                delivered_us: values.integer_or_null()?,
            });
        }
        Ok(OrderStatusOutput { customer, names, balance_cents, order, moment_us, carrier, lines })
    }
}
