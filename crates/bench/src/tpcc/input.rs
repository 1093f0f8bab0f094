//! What terminals ask for (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1 and 5.2.4): drawn, and done elsewhere,
//! so that another engine may be asked the same.

use nandu_base::{Nanos, Rng, to_u32};
use nandu_load::Tpcc;
use nandu_load::tpcc::DISTRICT_COUNT;

/// A transaction of TPC-C, by its number among `KINDS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionKind {
    /// An order of five to fifteen items.
    NewOrder,
    /// A customer pays something.
    Payment,
    /// What became of a customer's last order.
    OrderStatus,
    /// The oldest orders of all districts of a warehouse go out.
    Delivery,
    /// How many items of the last orders are running low.
    StockLevel,
}

impl TransactionKind {
    /// All kinds, and how many cards of a deck of a hundred are theirs.
    pub const DECK: [(Self, usize); 5] = [
        (Self::NewOrder, 45),
        (Self::Payment, 43),
        (Self::OrderStatus, 4),
        (Self::Delivery, 4),
        (Self::StockLevel, 4),
    ];

    /// What it takes to type the input, and the mean time to think about the output (clause 5.2.5.7).
    const fn keying_and_thinking(self) -> (Nanos, Nanos) {
        const SECOND_NS: u64 = 1_000_000_000;
        let (keying, thinking) = match self {
            Self::NewOrder => (18, 12),
            Self::Payment => (3, 12),
            Self::OrderStatus => (2, 10),
            Self::Delivery | Self::StockLevel => (2, 5),
        };
        (Nanos(keying * SECOND_NS), Nanos(thinking * SECOND_NS))
    }
}

/// What one transaction is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// See [`TransactionKind::NewOrder`].
    NewOrder(NewOrderInput),
    /// See [`TransactionKind::Payment`].
    Payment(PaymentInput),
    /// See [`TransactionKind::OrderStatus`].
    OrderStatus(OrderStatusInput),
    /// See [`TransactionKind::Delivery`].
    Delivery(DeliveryInput),
    /// See [`TransactionKind::StockLevel`].
    StockLevel(StockLevelInput),
}

/// What is ordered, by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrderInput {
    /// Where the order comes in.
    pub warehouse: i64,
    /// The customer's district.
    pub district: i64,
    /// Who orders, by number.
    pub customer: i64,
    /// When it comes in, in microseconds since 1970.
    pub moment_us: i64,
    /// What is ordered. Where the last item is none, the order is rolled back.
    pub lines: Vec<LineInput>,
}

/// One item of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineInput {
    /// Which item it is.
    pub item: i64,
    /// Of which warehouse's stock.
    pub supply_warehouse: i64,
    /// How many of it, 1 to 10.
    pub quantity: i64,
}

/// How a customer is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomerChoice {
    /// By number in the district.
    Number(i64),
    /// By the number of the last name; of several the one in the middle by first name.
    LastName(u32),
}

/// Who pays how much, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentInput {
    /// Where it is paid.
    pub warehouse: i64,
    /// In which of its districts.
    pub district: i64,
    /// The customer's warehouse.
    pub customer_warehouse: i64,
    /// The customer's district.
    pub customer_district: i64,
    /// Who pays, one way or the other.
    pub customer: CustomerChoice,
    /// How much, in cents.
    pub amount_cents: i64,
    /// When, in microseconds since 1970.
    pub moment_us: i64,
}

/// Whose last order is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatusInput {
    /// The customer's warehouse.
    pub warehouse: i64,
    /// The customer's district.
    pub district: i64,
    /// Who asks, one way or the other.
    pub customer: CustomerChoice,
}

/// What goes out, by which carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryInput {
    /// Where the orders came in.
    pub warehouse: i64,
    /// Who carries them, 1 to 10.
    pub carrier: i64,
    /// When it was asked for, in microseconds since 1970.
    pub moment_us: i64,
}

/// Which district's last orders are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevelInput {
    /// The warehouse of the terminal.
    pub warehouse: i64,
    /// The district of the terminal.
    pub district: i64,
    /// Below how many an item runs low, 10 to 20.
    pub threshold: i64,
}

impl Input {
    /// Which transaction it is for.
    #[must_use]
    pub const fn kind(&self) -> TransactionKind {
        match self {
            Self::NewOrder(_) => TransactionKind::NewOrder,
            Self::Payment(_) => TransactionKind::Payment,
            Self::OrderStatus(_) => TransactionKind::OrderStatus,
            Self::Delivery(_) => TransactionKind::Delivery,
            Self::StockLevel(_) => TransactionKind::StockLevel,
        }
    }
}

/// Draws what one user asks for, who has a warehouse and a district.
#[derive(Clone, Debug)]
pub struct Terminal {
    tpcc: Tpcc,
    warehouse: u32,
    district: u32,
    rng: Rng,
    /// The cards that are left, the next one last.
    deck: Vec<TransactionKind>,
}

impl Terminal {
    /// The terminal of this number, from 0: neighbours are of different warehouses.
    #[must_use]
    pub fn new(tpcc: &Tpcc, number: u32, seed: u64) -> Self {
        let warehouse = number % tpcc.warehouse_count() + 1;
        let district = number / tpcc.warehouse_count() % DISTRICT_COUNT + 1;
        let rng = Rng::for_part(seed, &format!("tpcc terminal {number}"));
        Self { tpcc: *tpcc, warehouse, district, rng, deck: Vec::new() }
    }

    /// The kind of the next transaction.
    pub fn next_kind(&mut self) -> TransactionKind {
        if self.deck.is_empty() {
            let cards = |(kind, count)| std::iter::repeat_n(kind, count);
            self.deck.extend(TransactionKind::DECK.into_iter().flat_map(cards));
            self.rng.shuffle(&mut self.deck);
        }
        self.deck.last().copied().expect("a deck has cards")
    }

    /// The next transaction, at that moment.
    pub fn next_input(&mut self, moment_us: i64) -> Input {
        let kind = self.next_kind();
        self.deck.pop();
        let warehouse = i64::from(self.warehouse);
        match kind {
            TransactionKind::NewOrder => Input::NewOrder(self.new_order(moment_us)),
            TransactionKind::Payment => Input::Payment(self.payment(moment_us)),
            TransactionKind::OrderStatus => {
                let district = self.between(1, DISTRICT_COUNT);
                let customer = self.customer();
                Input::OrderStatus(OrderStatusInput { warehouse, district, customer })
            }
            TransactionKind::Delivery => {
                let carrier = self.between(1, 10);
                Input::Delivery(DeliveryInput { warehouse, carrier, moment_us })
            }
            TransactionKind::StockLevel => {
                let (district, threshold) = (i64::from(self.district), self.between(10, 20));
                Input::StockLevel(StockLevelInput { warehouse, district, threshold })
            }
        }
    }

    /// What passes between the end of a transaction of kind `done` and the next one: thinking, by a law that
    /// clause 5.2.5.4 gives, and typing.
    pub fn pause(&mut self, done: TransactionKind) -> Nanos {
        /// Longer times are cut off there.
        const MEANS_MAX: f64 = 10.0;
        let (_, mean) = done.keying_and_thinking();
        let (keying, _) = self.next_kind().keying_and_thinking();
        let means = (-(1.0 - self.rng.unit()).ln()).min(MEANS_MAX);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it lies between nothing and ten thousand"
        )]
        let permille = (means * 1000.0) as u64;
        keying + Nanos(mean.0 / 1000 * permille)
    }

    fn new_order(&mut self, moment_us: i64) -> NewOrderInput {
        let scale = self.tpcc.scale();
        let constants = self.tpcc.constants();
        let district = self.between(1, DISTRICT_COUNT);
        let customer = i64::from(constants.customer(&mut self.rng, scale.customer_count));
        let line_count = self.between(5, 15);
        let is_wrong = self.is_one_of(100);
        let line = |number: i64| {
            let item = i64::from(constants.item(&mut self.rng, scale.item_count));
            let is_unknown = is_wrong && number == line_count;
            let supply_warehouse = match self.is_one_of(100) {
                true => self.other_warehouse(),
                false => i64::from(self.warehouse),
            };
            let quantity = self.between(1, 10);
            let unknown = i64::from(scale.item_count) + 1;
            LineInput { item: if is_unknown { unknown } else { item }, supply_warehouse, quantity }
        };
        let lines = (1..=line_count).map(line).collect();
        NewOrderInput { warehouse: self.warehouse.into(), district, customer, moment_us, lines }
    }

    fn payment(&mut self, moment_us: i64) -> PaymentInput {
        let warehouse = i64::from(self.warehouse);
        let district = self.between(1, DISTRICT_COUNT);
        let is_home = self.rng.below(100) < 85;
        let (customer_warehouse, customer_district) = match is_home {
            true => (warehouse, district),
            false => (self.other_warehouse(), self.between(1, DISTRICT_COUNT)),
        };
        let customer = self.customer();
        let amount_cents = self.between(100, 500_000);
        PaymentInput {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer,
            amount_cents,
            moment_us,
        }
    }

    /// Sixty of a hundred are named by their last name.
    fn customer(&mut self) -> CustomerChoice {
        let (scale, constants) = (self.tpcc.scale(), self.tpcc.constants());
        match self.rng.below(100) < 60 {
            true => CustomerChoice::LastName(constants.name(&mut self.rng, scale.name_count())),
            false => {
                let number = constants.customer(&mut self.rng, scale.customer_count);
                CustomerChoice::Number(number.into())
            }
        }
    }

    /// Any warehouse but its own, where there is another.
    fn other_warehouse(&mut self) -> i64 {
        let count = self.tpcc.warehouse_count();
        if count == 1 {
            return 1;
        }
        let drawn = to_u32(self.rng.below(u64::from(count - 1))) + 1;
        i64::from(if drawn >= self.warehouse { drawn + 1 } else { drawn })
    }

    fn is_one_of(&mut self, count: u64) -> bool {
        self.rng.below(count) == 0
    }

    fn between(&mut self, low: u32, high: u32) -> i64 {
        i64::from(low) + self.rng.below(u64::from(high - low + 1)).cast_signed()
    }
}
