//! The consistency conditions can fail: for each a violation is planted and found, by that condition and by
//! no other than those that state the same fact.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

mod support;

use mezzanine_workload::{CONDITIONS, Command, Scale, check_consistency, run};
use support::{Kind, TestDatabase, transactions};

struct Planted {
    condition: u32,
    damage: &'static [&'static str],
    /// All the conditions that the damage breaks.
    broken: &'static [u32],
    /// What the first violating row says.
    row: &'static str,
}

/// Tiny scale, 2 warehouses: 30 orders per district, of which 22 to 30 are new.
const PLANTED: &[Planted] = &[
    Planted {
        condition: 1,
        damage: &["UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 2 AND d_id = 4"],
        broken: &[1, 9],
        row: "w_id = 2, w_ytd = 300000, sum(d_ytd) = 300001",
    },
    Planted {
        condition: 2,
        damage: &["UPDATE district SET d_next_o_id = 32 WHERE d_w_id = 1 AND d_id = 10"],
        broken: &[2],
        row: "d_w_id = 1, d_id = 10, d_next_o_id = 32, max(o_id) = 30, max(no_o_id) = 30",
    },
    // The newest order is delivered before the others, soundly otherwise.
    Planted {
        condition: 2,
        damage: &[
            "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 30",
            "UPDATE orders SET o_carrier_id = 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 30",
            "UPDATE order_line SET ol_delivery_d = 1, ol_amount = 0 WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 30",
            "UPDATE customer SET c_delivery_cnt = 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
        ],
        broken: &[2],
        row: "d_w_id = 1, d_id = 1, d_next_o_id = 31, max(o_id) = 30, max(no_o_id) = 29",
    },
    Planted {
        condition: 3,
        damage: &["DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 25"],
        broken: &[3, 5, 11],
        row: "no_w_id = 1, no_d_id = 1, min(no_o_id) = 22, max(no_o_id) = 30, count(*) = 8",
    },
    Planted {
        condition: 4,
        damage: &[
            "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 2 AND ol_o_id = 3",
            "UPDATE orders SET o_ol_cnt = 6 WHERE o_w_id = 2 AND o_d_id = 2 AND o_id = 3",
        ],
        broken: &[4, 6],
        row: "d_w_id = 2, d_id = 2",
    },
    Planted {
        condition: 5,
        damage: &["UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 5"],
        broken: &[5, 7],
        row: "w_id = 1, d_id = 1, o_id = 5, o_carrier_id = NULL, no_o_id = NULL",
    },
    Planted {
        condition: 5,
        damage: &["UPDATE orders SET o_carrier_id = 4 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 25"],
        broken: &[5, 7],
        row: "w_id = 1, d_id = 1, o_id = 25, o_carrier_id = 4, no_o_id = 25",
    },
    // A new order without an order.
    Planted {
        condition: 5,
        damage: &["UPDATE new_order SET no_o_id = 31 WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 30"],
        broken: &[2, 3, 5],
        row: "w_id = 1, d_id = 1, o_id = 30, o_carrier_id = NULL, no_o_id = NULL",
    },
    // A line moves from one order to another of its district.
    Planted {
        condition: 6,
        damage: &["UPDATE order_line SET ol_o_id = 2, ol_number = 99 \
             WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 3 AND ol_number = 5"],
        broken: &[6],
        row: "o_w_id = 1, o_d_id = 1, o_id = 2",
    },
    Planted {
        condition: 7,
        damage: &["UPDATE order_line SET ol_delivery_d = NULL \
             WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 3 AND ol_number = 1"],
        broken: &[7],
        row: "ol_w_id = 1, ol_d_id = 1, ol_o_id = 3, ol_number = 1, ol_delivery_d = NULL, o_id = 3, o_carrier_id = ",
    },
    // Lines without their order, which was the newest.
    Planted {
        condition: 7,
        damage: &[
            "DELETE FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 30",
            "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 30",
            "UPDATE district SET d_next_o_id = 30 WHERE d_w_id = 1 AND d_id = 1",
        ],
        broken: &[4, 7],
        row: "ol_w_id = 1, ol_d_id = 1, ol_o_id = 30, ol_number = 1, ol_delivery_d = NULL, o_id = NULL",
    },
    // The money is in another warehouse's district, whose sums agree.
    Planted {
        condition: 8,
        damage: &[
            "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1",
            "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 1 AND d_id = 1",
        ],
        broken: &[8, 9],
        row: "w_id = 1, w_ytd = 300001, sum(h_amount) = 300000",
    },
    Planted {
        condition: 9,
        damage: &["UPDATE history SET h_d_id = 2 WHERE h_w_id = 1 AND h_d_id = 1 AND h_c_id = 1"],
        broken: &[9],
        row: "d_w_id = 1, d_id = 1, d_ytd = 30000, sum(h_amount) = 29000",
    },
    // Another customer of the same district is said to have paid.
    Planted {
        condition: 10,
        damage: &["UPDATE history SET h_c_id = 2 WHERE h_w_id = 1 AND h_d_id = 1 AND h_c_id = 1"],
        broken: &[10],
        row: "c_w_id = 1, c_d_id = 1, c_id = 1, c_balance = -1000, sum(ol_amount) = ",
    },
    Planted {
        condition: 11,
        damage: &["UPDATE customer SET c_delivery_cnt = 1 WHERE c_w_id = 2 AND c_d_id = 7 AND c_id = 3"],
        broken: &[11],
        row: "d_w_id = 2, d_id = 7, count(orders) = 30, count(new_order) = 9, sum(c_delivery_cnt) = 1",
    },
    Planted {
        condition: 12,
        damage: &["UPDATE customer SET c_ytd_payment = 1100 WHERE c_w_id = 2 AND c_d_id = 7 AND c_id = 3"],
        broken: &[12],
        row: "c_w_id = 2, c_d_id = 7, c_id = 3, c_balance = -1000, c_ytd_payment = 1100",
    },
];

#[test]
fn a_planted_violation_of_each_condition_is_found() {
    for planted in PLANTED {
        let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(2), 1);
        for damage in planted.damage {
            assert!(database.change(damage) > 0, "no row: {damage}");
        }
        let damage = planted.damage.join("; ");
        assert_eq!(database.broken_conditions(), planted.broken, "{damage}");
        let checked = check_consistency(database.session().as_mut()).unwrap();
        let found = &checked[planted.condition as usize - 1];
        let row = found.rows[0].to_string();
        assert!(row.starts_with(planted.row), "{damage}: {row}");
        assert!(found.to_string().contains(&row));
    }
}

#[test]
fn every_condition_has_a_planted_violation_and_its_number() {
    for (place, condition) in CONDITIONS.iter().enumerate() {
        assert_eq!(condition.number as usize, place + 1);
        assert!(PLANTED.iter().any(|planted| planted.condition == condition.number));
    }
}

#[test]
fn a_violation_is_found_after_transactions_too() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(2), 1);
    run(&database.database, &transactions(2, 1, 500), None, &mut |_| Command::Continue).unwrap();
    assert_eq!(database.broken_conditions(), []);
    database.change("DELETE FROM new_order WHERE no_o_id = (SELECT MAX(no_o_id) FROM new_order)");
    assert!(!database.broken_conditions().is_empty());
}

#[test]
fn many_violations_are_counted_and_the_first_are_kept() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(2), 1);
    database.change("UPDATE customer SET c_ytd_payment = 1");
    let checked = check_consistency(database.session().as_mut()).unwrap();
    assert_eq!(checked[11].violations, 600);
    assert_eq!(checked[11].rows.len(), 20);
}
