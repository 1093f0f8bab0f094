//! The twelve consistency conditions (clause 3.3.2) in SQL: each statement counts where one does not hold.
//!
//! 1. Condition 11 is that of `nandu_load::tpcc::check`, which holds at any time.

use super::sql::{Parameter, Statements, Stop};
use nandu_load::Tpcc;

/// How many orders came in, with those that were loaded.
pub(super) fn order_count(sql: &mut dyn Statements) -> Result<u64, Stop> {
    let sum = sql.row("SELECT sum(d_next_o_id - 1) FROM district", &[])?.integer()?;
    Ok(sum.unsigned_abs())
}

/// Each with its number; that with a parameter is given the orders of a district that were delivered when
/// the rows were made.
const CONDITIONS: [(usize, &str); 12] = [
    (
        1,
        "SELECT count(*) FROM warehouse
         WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)",
    ),
    (
        2,
        "SELECT count(*) FROM district
         WHERE EXISTS (SELECT 1 FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)
           AND (d_next_o_id - 1 <> (SELECT max(o_id) FROM orders
                                    WHERE o_w_id = d_w_id AND o_d_id = d_id)
             OR d_next_o_id - 1 <> (SELECT max(no_o_id) FROM new_order
                                    WHERE no_w_id = d_w_id AND no_d_id = d_id))",
    ),
    (
        3,
        "SELECT count(*) FROM
           (SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id
            HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) AS broken",
    ),
    (
        4,
        "SELECT count(*) FROM district
         WHERE (SELECT coalesce(sum(o_ol_cnt), 0) FROM orders
                WHERE o_w_id = d_w_id AND o_d_id = d_id)
            <> (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)",
    ),
    (
        5,
        "SELECT (SELECT count(*) FROM orders LEFT JOIN new_order
                 ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
                 WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL))
              + (SELECT count(*) FROM new_order LEFT JOIN orders
                 ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id
                 WHERE o_id IS NULL)",
    ),
    (
        6,
        "SELECT count(*) FROM orders
         WHERE o_ol_cnt <> (SELECT count(*) FROM order_line
                            WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)",
    ),
    (
        7,
        "SELECT count(*) FROM order_line LEFT JOIN orders
         ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
         WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    (
        8,
        "SELECT count(*) FROM warehouse LEFT JOIN
           (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) AS payments
         ON h_w_id = w_id WHERE w_ytd <> coalesce(paid, 0)",
    ),
    (
        9,
        "SELECT count(*) FROM district LEFT JOIN
           (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id)
             AS payments
         ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd <> coalesce(paid, 0)",
    ),
    (
        10,
        "SELECT count(*) FROM customer LEFT JOIN
            (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders
             JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
             WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS deliveries
          ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id LEFT JOIN
            (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history
             GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS payments
          ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
          WHERE c_balance <> coalesce(delivered, 0) - coalesce(paid, 0)",
    ),
    (
        11,
        "SELECT count(*) FROM district
          WHERE (SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
              - (SELECT count(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)
              - (SELECT sum(c_delivery_cnt) FROM customer
                 WHERE c_w_id = d_w_id AND c_d_id = d_id) <> $1",
    ),
    (
        12,
        "SELECT count(*) FROM customer LEFT JOIN
            (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders
             JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
             WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS deliveries
          ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
          WHERE c_balance + c_ytd_payment <> coalesce(delivered, 0)",
    ),
];

/// The conditions that do not hold, in words.
///
/// # Errors
/// If the engine cannot answer.
pub(super) fn broken(sql: &mut dyn Statements, tpcc: &Tpcc) -> Result<Vec<String>, Stop> {
    let scale = tpcc.scale();
    let delivered_count = i64::from(scale.customer_count - scale.new_order_count());
    let mut found = Vec::new();
    for (number, statement) in CONDITIONS {
        let parameters = [Parameter::Integer(delivered_count)];
        let has_parameter = statement.contains('$');
        let parameters = if has_parameter { &parameters[..] } else { &[] };
        let count = sql.row(statement, parameters)?.integer()?;
        if count > 0 {
            found.push(format!("{number} (in {count} places)"));
        }
    }
    Ok(found)
}
