//! What terminals show (clauses 2.4.3, 2.5.3, 2.6.3, 2.7.3 and 2.8.3): all of it, so that two engines that
//! answer alike did the same.

/// What came of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Of a new order.
    NewOrder(NewOrderOutput),
    /// Of a payment.
    Payment(Box<PaymentOutput>),
    /// Of an order's status.
    OrderStatus(OrderStatusOutput),
    /// Of a delivery.
    Delivery(DeliveryOutput),
    /// Of a stock level.
    StockLevel(StockLevelOutput),
}

/// An order that came in, or was rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrderOutput {
    /// The order's number in its district.
    pub order: i64,
    /// The customer's last name.
    pub customer_last: String,
    /// The customer's credit, `GC` or `BC`.
    pub customer_credit: String,
    /// The customer's discount, in hundredths of a percent.
    pub discount: i64,
    /// The warehouse's tax, in hundredths of a percent.
    pub warehouse_tax: i64,
    /// The district's tax, in hundredths of a percent.
    pub district_tax: i64,
    /// The items that there are.
    pub lines: Vec<LineOutput>,
    /// What it comes to, with taxes and discount, to the nearest cent.
    pub total_cents: i64,
    /// Whether an item is unknown, so that there is no such order.
    pub is_rolled_back: bool,
}

/// One item of an order that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineOutput {
    /// The item's name.
    pub item_name: String,
    /// What is left in stock.
    pub stock_quantity: i64,
    /// Whether it is a brand (`B`) and not generic (`G`).
    pub is_brand: bool,
    /// The item's price, in cents.
    pub price_cents: i64,
    /// Price times quantity, in cents.
    pub amount_cents: i64,
}

/// Who pays, and how they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The number in the district.
    pub number: i64,
    /// First, middle and last name.
    pub names: [String; 3],
    /// Two streets, city, state, zip code.
    pub address: [String; 5],
    /// The number of the telephone.
    pub phone: String,
    /// Customer since, in microseconds since 1970.
    pub since_us: i64,
    /// The credit, `GC` or `BC`.
    pub credit: String,
    /// The limit of the credit, in cents.
    pub credit_limit_cents: i64,
    /// The discount, in hundredths of a percent.
    pub discount: i64,
    /// The balance after the payment, in cents.
    pub balance_cents: i64,
}

/// What was paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentOutput {
    /// Name and address of the warehouse.
    pub warehouse: [String; 6],
    /// Name and address of the district.
    pub district: [String; 6],
    /// Who paid, after it.
    pub customer: Person,
    /// The first 200 signs of what is noted of a customer with bad credit.
    pub data: Option<String>,
}

/// A customer's last order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatusOutput {
    /// The customer's number.
    pub customer: i64,
    /// First, middle and last name.
    pub names: [String; 3],
    /// The balance, in cents.
    pub balance_cents: i64,
    /// The order's number.
    pub order: i64,
    /// When it came in, in microseconds since 1970.
    pub moment_us: i64,
    /// Who carried it, if it was delivered.
    pub carrier: Option<i64>,
    /// Its items, in their order.
    pub lines: Vec<OrderedLine>,
}

/// One item of an order that is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedLine {
    /// Which item it is.
    pub item: i64,
    /// Of which warehouse's stock.
    pub supply_warehouse: i64,
    /// How many of it.
    pub quantity: i64,
    /// What they cost, in cents.
    pub amount_cents: i64,
    /// When it was delivered, in microseconds since 1970.
    pub delivered_us: Option<i64>,
}

/// What was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryOutput {
    /// The order of each district, where there was one to deliver.
    pub orders: Vec<Option<i64>>,
}

/// How many items run low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevelOutput {
    /// Items of the last twenty orders of which there are less than the threshold.
    pub low_count: u64,
}
