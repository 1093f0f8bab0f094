//! Rows as clause 4.3.3.1 wants them, a warehouse at a time.

use super::draw::{Texts, between, integer, last_name};
use super::{DISTRICT_COUNT, FIRST_PAYMENT_CENTS, LOAD_MOMENT_US, Tpcc, TpccScale, TpccTable};
use crate::LoadError;
use nandu_base::{Permutation, Rng, to_index, to_u32};
use nandu_storage::sqlite::ValueRef::{self, Integer, Null};

/// What takes rows, each with its table; those of one table by ascending keys.
pub type TpccSink<'s> = dyn FnMut(TpccTable, &[ValueRef<'_>]) -> Result<(), LoadError> + 's;

/// The rows of a district under way.
struct District<'t> {
    tpcc: &'t Tpcc,
    warehouse: u32,
    number: u32,
    texts: Texts,
}

impl Tpcc {
    /// Hands all rows over: items, then one warehouse after the other.
    ///
    /// # Errors
    /// What `sink` returns.
    pub fn rows(&self, sink: &mut TpccSink<'_>) -> Result<(), LoadError> {
        self.items(sink)?;
        (1..=self.warehouse_count).try_for_each(|warehouse| self.warehouse(warehouse, sink))
    }

    /// Hands the items over.
    ///
    /// # Errors
    /// What `sink` returns.
    pub fn items(&self, sink: &mut TpccSink<'_>) -> Result<(), LoadError> {
        let mut rng = self.rng("item", 0, 0);
        let chosen = Tenth::new(&mut rng, self.scale.item_count);
        let mut texts = Texts::default();
        for number in 1..=self.scale.item_count {
            texts.clear();
            let image = integer(&mut rng, 1, 10_000);
            let name = texts.a_string(&mut rng, 14, 24);
            let price = integer(&mut rng, 100, 10_000);
            let data = texts.data(&mut rng, chosen.has(number));
            let text = |text| ValueRef::Text(texts.get(text));
            let row =
                [Integer(number.into()), Integer(image), text(name), Integer(price), text(data)];
            sink(TpccTable::Item, &row)?;
        }
        Ok(())
    }

    /// Hands the rows of one warehouse over, from 1; they do not depend on the others.
    ///
    /// # Errors
    /// What `sink` returns.
    pub fn warehouse(&self, warehouse: u32, sink: &mut TpccSink<'_>) -> Result<(), LoadError> {
        let mut rng = self.rng("warehouse", warehouse, 0);
        let mut texts = Texts::default();
        let name = texts.a_string(&mut rng, 6, 10);
        let address = address(&mut texts, &mut rng);
        let tax = integer(&mut rng, 0, 2000);
        let paid = i64::from(DISTRICT_COUNT * self.scale.customer_count) * FIRST_PAYMENT_CENTS;
        let text = |text| ValueRef::Text(texts.get(text));
        let mut row = vec![Integer(warehouse.into()), text(name)];
        row.extend(address.map(text));
        row.extend([Integer(tax), Integer(paid)]);
        sink(TpccTable::Warehouse, &row)?;
        self.stock(warehouse, sink)?;
        for number in 1..=DISTRICT_COUNT {
            let texts = Texts::default();
            let mut district = District { tpcc: self, warehouse, number, texts };
            district.district(sink)?;
            district.customers(sink)?;
            district.orders(sink)?;
        }
        Ok(())
    }

    fn stock(&self, warehouse: u32, sink: &mut TpccSink<'_>) -> Result<(), LoadError> {
        let mut rng = self.rng("stock", warehouse, 0);
        let chosen = Tenth::new(&mut rng, self.scale.item_count);
        let mut texts = Texts::default();
        for item in 1..=self.scale.item_count {
            texts.clear();
            let quantity = integer(&mut rng, 10, 100);
            let districts = [(); DISTRICT_COUNT as usize].map(|()| texts.letters(&mut rng, 24));
            let data = texts.data(&mut rng, chosen.has(item));
            let mut row = [Integer(0); 17];
            row[..3].copy_from_slice(&[
                Integer(warehouse.into()),
                Integer(item.into()),
                Integer(quantity),
            ]);
            for (value, district) in row[3..].iter_mut().zip(districts) {
                *value = ValueRef::Text(texts.get(district));
            }
            row[16] = ValueRef::Text(texts.get(data));
            sink(TpccTable::Stock, &row)?;
        }
        Ok(())
    }

    /// Randomness of a part of the rows.
    fn rng(&self, what: &str, warehouse: u32, district: u32) -> Rng {
        Rng::for_part(self.seed, &format!("tpcc {what} {warehouse} {district}"))
    }
}

impl District<'_> {
    fn scale(&self) -> TpccScale {
        self.tpcc.scale
    }

    fn rng(&self, what: &str) -> Rng {
        self.tpcc.rng(what, self.warehouse, self.number)
    }

    /// Warehouse and district, with which most keys begin.
    fn place(&self) -> [ValueRef<'static>; 2] {
        [Integer(self.warehouse.into()), Integer(self.number.into())]
    }

    fn district(&mut self, sink: &mut TpccSink<'_>) -> Result<(), LoadError> {
        let mut rng = self.rng("district");
        let texts = &mut self.texts;
        texts.clear();
        let name = texts.a_string(&mut rng, 6, 10);
        let address = address(texts, &mut rng);
        let tax = integer(&mut rng, 0, 2000);
        let customers = i64::from(self.scale().customer_count);
        let mut row = self.place().to_vec();
        let text = |text| ValueRef::Text(self.texts.get(text));
        row.push(text(name));
        row.extend(address.map(text));
        row.extend([tax, customers * FIRST_PAYMENT_CENTS, customers + 1].map(Integer));
        sink(TpccTable::District, &row)
    }

    fn customers(&mut self, sink: &mut TpccSink<'_>) -> Result<(), LoadError> {
        let mut rng = self.rng("customer");
        let count = self.scale().customer_count;
        let chosen = Tenth::new(&mut rng, count);
        let mut names = Vec::with_capacity(to_index(count.into()));
        for number in 1..=count {
            let (last, first) = self.customer(number, chosen.has(number), &mut rng, sink)?;
            names.push((last, first, i64::from(number)));
        }
        names.sort_unstable();
        let [warehouse, district] = self.place();
        for (last, first, number) in &names {
            let (last, first) = (ValueRef::Text(last.as_bytes()), ValueRef::Text(first));
            let row = [warehouse, district, last, first, Integer(*number)];
            sink(TpccTable::CustomerByName, &row)?;
        }
        Ok(())
    }

    /// A customer and what was paid; their last and first name.
    fn customer(
        &mut self,
        number: u32,
        has_bad_credit: bool,
        rng: &mut Rng,
        sink: &mut TpccSink<'_>,
    ) -> Result<(String, Vec<u8>), LoadError> {
        let name_count = self.scale().name_count();
        let name = match number <= name_count {
            true => number - 1,
            false => self.tpcc.constants.name_of_load(rng, name_count),
        };
        let last_name = last_name(name);
        let place = self.place();
        let texts = &mut self.texts;
        texts.clear();
        let last = texts.given(&last_name);
        let first = texts.a_string(rng, 8, 16);
        let address = address(texts, rng);
        let phone = texts.n_string(rng, 16);
        let discount = integer(rng, 0, 5000);
        let data = texts.a_string(rng, 300, 500);
        let payment = texts.a_string(rng, 12, 24);
        let credit = if has_bad_credit { b"BC" } else { b"GC" };
        let text = |text| ValueRef::Text(texts.get(text));
        let id = Integer(number.into());
        let mut row = vec![place[0], place[1], id, text(first), ValueRef::Text(b"OE"), text(last)];
        row.extend(address.map(text));
        row.extend([text(phone), Integer(LOAD_MOMENT_US), ValueRef::Text(credit)]);
        let (limit, paid) = (5_000_000, FIRST_PAYMENT_CENTS);
        row.extend([limit, discount, -paid, paid, 1, 0].map(Integer));
        row.push(text(data));
        sink(TpccTable::Customer, &row)?;
        let [moment, amount] = [LOAD_MOMENT_US, paid].map(Integer);
        let [warehouse, district] = place;
        let row = [warehouse, district, id, warehouse, district, moment, amount, text(payment)];
        sink(TpccTable::History, &row)?;
        Ok((last_name, texts.get(first).to_vec()))
    }

    fn orders(&mut self, sink: &mut TpccSink<'_>) -> Result<(), LoadError> {
        let mut rng = self.rng("orders");
        let count = self.scale().customer_count;
        let customers = Permutation::new(count.into(), rng.next_u64());
        let first_new = count - self.scale().new_order_count() + 1;
        let [warehouse, district] = self.place();
        let mut order_of = vec![0; to_index(count.into())];
        for number in 1..=count {
            let customer = to_u32(customers.apply(u64::from(number) - 1));
            order_of[to_index(customer.into())] = number;
            let line_count = between(&mut rng, 5, 15);
            let carrier = integer(&mut rng, 1, 10);
            let is_new = number >= first_new;
            let row = [
                warehouse,
                district,
                Integer(number.into()),
                Integer(i64::from(customer) + 1),
                Integer(LOAD_MOMENT_US),
                if is_new { Null } else { Integer(carrier) },
                Integer(line_count.cast_signed()),
                Integer(1),
            ];
            sink(TpccTable::Orders, &row)?;
            if is_new {
                sink(TpccTable::NewOrder, &row[..3])?;
            }
            for line in 1..=line_count.cast_signed() {
                self.order_line((number, line), is_new, &mut rng, sink)?;
            }
        }
        for (customer, order) in (1..).zip(order_of) {
            let row = [warehouse, district, Integer(customer), Integer(order.into())];
            sink(TpccTable::OrdersByCustomer, &row)?;
        }
        Ok(())
    }

    fn order_line(
        &mut self,
        (order, line): (u32, i64),
        is_new: bool,
        rng: &mut Rng,
        sink: &mut TpccSink<'_>,
    ) -> Result<(), LoadError> {
        let [warehouse, district] = self.place();
        self.texts.clear();
        let item = integer(rng, 1, self.scale().item_count.into());
        let amount = integer(rng, 1, 999_999);
        let info = self.texts.letters(rng, 24);
        let row = [
            warehouse,
            district,
            Integer(order.into()),
            Integer(line),
            Integer(item),
            warehouse,
            if is_new { Null } else { Integer(LOAD_MOMENT_US) },
            Integer(5),
            Integer(if is_new { amount } else { 0 }),
            ValueRef::Text(self.texts.get(info)),
        ];
        sink(TpccTable::OrderLine, &row)
    }
}

/// Streets, city, state and zip code.
fn address(texts: &mut Texts, rng: &mut Rng) -> [super::draw::Text; 5] {
    let [street, more, city] = [(); 3].map(|()| texts.a_string(rng, 10, 20));
    [street, more, city, texts.state(rng), texts.zip(rng)]
}

/// Every tenth of some numbers from 1, chosen at random.
struct Tenth {
    permutation: Permutation,
    chosen_count: u64,
}

impl Tenth {
    fn new(rng: &mut Rng, count: u32) -> Self {
        let permutation = Permutation::new(count.into(), rng.next_u64());
        Self { permutation, chosen_count: u64::from(count / 10) }
    }

    fn has(&self, number: u32) -> bool {
        self.permutation.apply(u64::from(number) - 1) < self.chosen_count
    }
}
