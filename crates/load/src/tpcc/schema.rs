//! Tables of TPC-C (clause 1.3), their columns and keys.
//!
//! 1. Key columns come first, in the order of the key.
//! 2. A table is a B+-tree by its key. `history` has none and is a heap. The two indexes are tables of
//!    nothing but their key, since rows of a tree have no numbers for an index to lead to.

use nandu_storage::database::{Column, ColumnType, NewTable, TableKind};

/// Defines the places of a table's columns and what they are.
macro_rules! table {
    ($(#[$doc:meta])* $module:ident { $($column:ident $type:ident $($null:ident)?,)+ }) => {
        $(#[$doc])*
        pub mod $module {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "names of columns")]
            enum Place { $($column,)+ }
            $(
                #[doc = concat!("The place of column ", stringify!($column), ".")]
                pub const $column: usize = Place::$column as usize;
            )+
            /// All columns, in their order.
            pub(super) fn columns() -> Vec<super::Column> {
                vec![$(super::column(
                    stringify!($column),
                    super::ColumnType::$type,
                    stringify!($($null)?),
                ),)+]
            }
        }
    };
}

table! {
    /// Columns of `warehouse`.
    warehouse {
        W_ID Integer, W_NAME Text, W_STREET_1 Text, W_STREET_2 Text, W_CITY Text, W_STATE Text,
        W_ZIP Text, W_TAX Integer, W_YTD Integer,
    }
}
table! {
    /// Columns of `district`.
    district {
        D_W_ID Integer, D_ID Integer, D_NAME Text, D_STREET_1 Text, D_STREET_2 Text, D_CITY Text,
        D_STATE Text, D_ZIP Text, D_TAX Integer, D_YTD Integer, D_NEXT_O_ID Integer,
    }
}
table! {
    /// Columns of `customer`.
    customer {
        C_W_ID Integer, C_D_ID Integer, C_ID Integer, C_FIRST Text, C_MIDDLE Text, C_LAST Text,
        C_STREET_1 Text, C_STREET_2 Text, C_CITY Text, C_STATE Text, C_ZIP Text, C_PHONE Text,
        C_SINCE Integer, C_CREDIT Text, C_CREDIT_LIM Integer, C_DISCOUNT Integer, C_BALANCE Integer,
        C_YTD_PAYMENT Integer, C_PAYMENT_CNT Integer, C_DELIVERY_CNT Integer, C_DATA Text,
    }
}
table! {
    /// Columns of `history`.
    history {
        H_C_W_ID Integer, H_C_D_ID Integer, H_C_ID Integer, H_W_ID Integer, H_D_ID Integer,
        H_DATE Integer, H_AMOUNT Integer, H_DATA Text,
    }
}
table! {
    /// Columns of `new_order`.
    new_order {
        NO_W_ID Integer, NO_D_ID Integer, NO_O_ID Integer,
    }
}
table! {
    /// Columns of `orders`, the specification's ORDER.
    orders {
        O_W_ID Integer, O_D_ID Integer, O_ID Integer, O_C_ID Integer, O_ENTRY_D Integer,
        O_CARRIER_ID Integer nullable, O_OL_CNT Integer, O_ALL_LOCAL Integer,
    }
}
table! {
    /// Columns of `order_line`.
    order_line {
        OL_W_ID Integer, OL_D_ID Integer, OL_O_ID Integer, OL_NUMBER Integer, OL_I_ID Integer,
        OL_SUPPLY_W_ID Integer, OL_DELIVERY_D Integer nullable, OL_QUANTITY Integer,
        OL_AMOUNT Integer, OL_DIST_INFO Text,
    }
}
table! {
    /// Columns of `item`.
    item {
        I_ID Integer, I_IM_ID Integer, I_NAME Text, I_PRICE Integer, I_DATA Text,
    }
}
table! {
    /// Columns of `stock`.
    stock {
        S_W_ID Integer, S_I_ID Integer, S_QUANTITY Integer, S_DIST_01 Text, S_DIST_02 Text,
        S_DIST_03 Text, S_DIST_04 Text, S_DIST_05 Text, S_DIST_06 Text, S_DIST_07 Text,
        S_DIST_08 Text, S_DIST_09 Text, S_DIST_10 Text, S_YTD Integer, S_ORDER_CNT Integer,
        S_REMOTE_CNT Integer, S_DATA Text,
    }
}
table! {
    /// Columns of `customer_by_name`.
    customer_by_name {
        CN_W_ID Integer, CN_D_ID Integer, CN_LAST Text, CN_FIRST Text, CN_C_ID Integer,
    }
}
table! {
    /// Columns of `orders_by_customer`.
    orders_by_customer {
        OC_W_ID Integer, OC_D_ID Integer, OC_C_ID Integer, OC_O_ID Integer,
    }
}

/// A table of TPC-C, or one of its two indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TpccTable {
    /// What all warehouses sell.
    Item,
    /// One row for each warehouse.
    Warehouse,
    /// What a warehouse has of each item.
    Stock,
    /// Ten rows for each warehouse.
    District,
    /// Those who order, 3,000 of a district.
    Customer,
    /// Payments, which nobody looks up.
    History,
    /// The specification's ORDER, a word of SQL.
    Orders,
    /// Five to fifteen rows for each order.
    OrderLine,
    /// Orders that were not delivered.
    NewOrder,
    /// The index of customers by last and first name.
    CustomerByName,
    /// The index of orders by customer.
    OrdersByCustomer,
}

impl TpccTable {
    /// All tables, indexes last.
    pub const ALL: [Self; 11] = [
        Self::Item,
        Self::Warehouse,
        Self::Stock,
        Self::District,
        Self::Customer,
        Self::History,
        Self::Orders,
        Self::OrderLine,
        Self::NewOrder,
        Self::CustomerByName,
        Self::OrdersByCustomer,
    ];

    /// Its name in a database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Warehouse => "warehouse",
            Self::Stock => "stock",
            Self::District => "district",
            Self::Customer => "customer",
            Self::History => "history",
            Self::Orders => "orders",
            Self::OrderLine => "order_line",
            Self::NewOrder => "new_order",
            Self::CustomerByName => "customer_by_name",
            Self::OrdersByCustomer => "orders_by_customer",
        }
    }

    /// The columns of a row.
    #[must_use]
    pub fn columns(self) -> Vec<Column> {
        match self {
            Self::Item => item::columns(),
            Self::Warehouse => warehouse::columns(),
            Self::Stock => stock::columns(),
            Self::District => district::columns(),
            Self::Customer => customer::columns(),
            Self::History => history::columns(),
            Self::Orders => orders::columns(),
            Self::OrderLine => order_line::columns(),
            Self::NewOrder => new_order::columns(),
            Self::CustomerByName => customer_by_name::columns(),
            Self::OrdersByCustomer => orders_by_customer::columns(),
        }
    }

    /// How many of the first columns are the key; none of `history`.
    #[must_use]
    pub const fn key_column_count(self) -> usize {
        match self {
            Self::History => 0,
            Self::Item | Self::Warehouse => 1,
            Self::Stock | Self::District => 2,
            Self::Customer | Self::Orders | Self::NewOrder => 3,
            Self::OrderLine | Self::OrdersByCustomer => 4,
            Self::CustomerByName => 5,
        }
    }

    /// About the bytes of a row with what its tree adds, where pages are 80 % full.
    pub(super) const fn row_bytes(self) -> u64 {
        match self {
            Self::Item => 110,
            Self::Warehouse | Self::District => 150,
            Self::Stock => 430,
            Self::Customer => 790,
            Self::History => 80,
            Self::Orders => 60,
            Self::OrderLine => 90,
            Self::NewOrder | Self::OrdersByCustomer => 30,
            Self::CustomerByName => 70,
        }
    }

    /// What makes the table.
    pub(super) fn new_table(self) -> NewTable {
        let kind = match self.key_column_count() {
            0 => TableKind::Heap,
            count => TableKind::Clustered { key: (0..count).collect() },
        };
        let (name, columns) = (self.name().to_owned(), self.columns());
        NewTable { name, columns, kind, indexes: Vec::new() }
    }
}

/// A column by its name in the specification, `nullable` or not.
fn column(name: &str, column_type: ColumnType, null: &str) -> Column {
    let column = Column::new(&name.to_lowercase(), column_type);
    if null.is_empty() { column.not_null() } else { column }
}
