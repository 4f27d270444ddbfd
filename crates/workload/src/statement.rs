//! The statements of the five transactions, in SQL that SQLite, PostgreSQL and MariaDB understand.
//!
//! Where two transactions meet in a row, the row is updated first and read afterwards. The update takes the
//! row's lock under every isolation level, so nothing like `FOR UPDATE` is needed, which SQLite does not
//! have.

/// A statement with `?` placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What messages call it.
    pub name: &'static str,
    /// The text.
    pub sql: &'static str,
}

macro_rules! statements {
    ($($(#[$attribute:meta])* $name:ident = $sql:expr;)*) => {
        $($(#[$attribute])* pub(crate) const $name: Statement = Statement { name: stringify!($name), sql: $sql };)*
        /// Every statement of the transactions.
        pub const TRANSACTION_STATEMENTS: &[Statement] = &[$($name),*];
    };
}

statements! {
    // New-Order, clause 2.4.2.2.
    WAREHOUSE_TAX = "SELECT w_tax FROM warehouse WHERE w_id = ?";
    DISTRICT_TAKE_ORDER_ID =
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?";
    DISTRICT_TAX_AND_ORDER_ID =
        "SELECT d_tax, d_next_o_id - 1 FROM district WHERE d_w_id = ? AND d_id = ?";
    CUSTOMER_DISCOUNT =
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    ORDER_INSERT = "INSERT INTO orders \
        (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
        VALUES (?, ?, ?, ?, ?, NULL, ?, ?)";
    NEW_ORDER_INSERT = "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (?, ?, ?)";
    ITEM_SELECT = "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?";
    STOCK_TAKE = "UPDATE stock SET \
        s_quantity = CASE WHEN s_quantity >= ? + 10 THEN s_quantity - ? ELSE s_quantity - ? + 91 END, \
        s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ? \
        WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_01 = "SELECT s_quantity, s_data, s_dist_01 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_02 = "SELECT s_quantity, s_data, s_dist_02 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_03 = "SELECT s_quantity, s_data, s_dist_03 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_04 = "SELECT s_quantity, s_data, s_dist_04 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_05 = "SELECT s_quantity, s_data, s_dist_05 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_06 = "SELECT s_quantity, s_data, s_dist_06 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_07 = "SELECT s_quantity, s_data, s_dist_07 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_08 = "SELECT s_quantity, s_data, s_dist_08 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_09 = "SELECT s_quantity, s_data, s_dist_09 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    STOCK_SELECT_10 = "SELECT s_quantity, s_data, s_dist_10 FROM stock WHERE s_w_id = ? AND s_i_id = ?";
    ORDER_LINE_INSERT = "INSERT INTO order_line \
        (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, \
         ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)";

    // Payment, clause 2.5.2.2.
    WAREHOUSE_PAY = "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?";
    WAREHOUSE_ADDRESS =
        "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?";
    DISTRICT_PAY = "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?";
    DISTRICT_ADDRESS = "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district \
        WHERE d_w_id = ? AND d_id = ?";
    /// The customers of a last name in the order of their first names. Payment and Order-Status take the
    /// middle one.
    CUSTOMERS_BY_NAME = "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? \
        ORDER BY c_first";
    CUSTOMER_PAY = "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
        c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    CUSTOMER_DETAILS = "SELECT c_balance, c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, \
        c_state, c_zip, c_phone, c_since, c_credit_lim, c_discount FROM customer \
        WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    CUSTOMER_DATA = "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    CUSTOMER_SET_DATA = "UPDATE customer SET c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    HISTORY_INSERT = "INSERT INTO history \
        (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

    // Order-Status, clause 2.6.2.2.
    CUSTOMER_STATUS = "SELECT c_balance, c_first, c_middle, c_last FROM customer \
        WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    /// Apart from the order itself: asked for both at once, SQLite walks the district's orders from the
    /// newest until it meets the customer's.
    ORDER_NEWEST_ID = "SELECT MAX(o_id) FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ?";
    ORDER_SELECT = "SELECT o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?";
    ORDER_LINES = "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
        WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";

    // Delivery, clause 2.7.4.2.
    NEW_ORDER_OLDEST = "SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = ? AND no_d_id = ?";
    NEW_ORDER_DELETE = "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?";
    ORDER_SET_CARRIER = "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?";
    ORDER_CUSTOMER = "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?";
    ORDER_LINES_DELIVER = "UPDATE order_line SET ol_delivery_d = ? \
        WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
    ORDER_AMOUNT = "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
    CUSTOMER_DELIVER = "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
        WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";

    // Stock-Level, clause 2.8.2.2.
    DISTRICT_NEXT_ORDER_ID = "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?";
    /// The cross join says the order in which to go: from the lines of twenty orders to their stock, not from
    /// the whole stock of the warehouse to the lines.
    STOCK_BELOW = "SELECT COUNT(DISTINCT s_i_id) FROM order_line CROSS JOIN stock \
        WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? \
        AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?";
}

/// The stock row with the information of one district, 1 to 10.
pub(crate) fn stock_select(district: u32) -> Statement {
    [
        STOCK_SELECT_01,
        STOCK_SELECT_02,
        STOCK_SELECT_03,
        STOCK_SELECT_04,
        STOCK_SELECT_05,
        STOCK_SELECT_06,
        STOCK_SELECT_07,
        STOCK_SELECT_08,
        STOCK_SELECT_09,
        STOCK_SELECT_10,
    ][district as usize - 1]
}
