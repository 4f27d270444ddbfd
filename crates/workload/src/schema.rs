//! The nine tables of clause 1.3, their keys and indexes, and one more that says what was loaded.
//!
//! Money is stored in cents, rates in ten-thousandths and times in microseconds since 1970 UTC, all as
//! integers: sums are then exact in every database, which the consistency conditions need.

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// WAREHOUSE
    Warehouse,
    /// DISTRICT
    District,
    /// CUSTOMER
    Customer,
    /// HISTORY
    History,
    /// NEW-ORDER
    NewOrder,
    /// ORDER, called `orders` since ORDER is a reserved word.
    Orders,
    /// ORDER-LINE
    OrderLine,
    /// ITEM
    Item,
    /// STOCK
    Stock,
    /// Not in the specification: the scale and the constants of the population.
    Load,
}

struct Definition {
    name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    primary_key: &'static str,
    clustered: bool,
}

const ID: &str = "INTEGER NOT NULL";
const NUMBER: &str = "INTEGER NOT NULL";
const MONEY: &str = "BIGINT NOT NULL";
const TIME: &str = "BIGINT NOT NULL";

impl Table {
    /// All tables.
    pub const ALL: [Table; 10] = [
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::History,
        Table::NewOrder,
        Table::Orders,
        Table::OrderLine,
        Table::Item,
        Table::Stock,
        Table::Load,
    ];

    /// The table's name in SQL.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// How many columns the table has.
    pub fn column_count(self) -> usize {
        self.definition().columns.len()
    }

    /// The columns' names in their order.
    pub fn column_names(self) -> impl Iterator<Item = &'static str> {
        self.definition().columns.iter().map(|(name, _)| *name)
    }

    /// `CREATE TABLE`; `clustered_suffix` is what [`Database`](crate::Database::clustered_table_suffix) says.
    pub fn create(self, clustered_suffix: &str) -> String {
        let definition = self.definition();
        let mut lines: Vec<String> =
            definition.columns.iter().map(|(name, column_type)| format!("{name} {column_type}")).collect();
        if !definition.primary_key.is_empty() {
            lines.push(format!("PRIMARY KEY ({})", definition.primary_key));
        }
        let suffix = if definition.clustered { clustered_suffix } else { "" };
        format!("CREATE TABLE {} ({}){}{suffix}", definition.name, lines.join(", "), sep(suffix))
    }

    /// The secondary indexes, created after loading: customers by last name (clauses 2.5.2.2 and 2.6.2.2) and
    /// a customer's newest order (clause 2.6.2.2).
    pub fn create_indexes() -> [&'static str; 2] {
        [
            "CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first)",
            "CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
        ]
    }

    fn definition(self) -> &'static Definition {
        match self {
            Table::Warehouse => &WAREHOUSE,
            Table::District => &DISTRICT,
            Table::Customer => &CUSTOMER,
            Table::History => &HISTORY,
            Table::NewOrder => &NEW_ORDER,
            Table::Orders => &ORDERS,
            Table::OrderLine => &ORDER_LINE,
            Table::Item => &ITEM,
            Table::Stock => &STOCK,
            Table::Load => &LOAD,
        }
    }
}

fn sep(suffix: &str) -> &'static str {
    if suffix.is_empty() { "" } else { " " }
}

static WAREHOUSE: Definition = Definition {
    name: "warehouse",
    columns: &[
        ("w_id", ID),
        ("w_name", "VARCHAR(10) NOT NULL"),
        ("w_street_1", "VARCHAR(20) NOT NULL"),
        ("w_street_2", "VARCHAR(20) NOT NULL"),
        ("w_city", "VARCHAR(20) NOT NULL"),
        ("w_state", "CHAR(2) NOT NULL"),
        ("w_zip", "CHAR(9) NOT NULL"),
        ("w_tax", NUMBER),
        ("w_ytd", MONEY),
    ],
    primary_key: "w_id",
    clustered: false,
};

static DISTRICT: Definition = Definition {
    name: "district",
    columns: &[
        ("d_w_id", ID),
        ("d_id", ID),
        ("d_name", "VARCHAR(10) NOT NULL"),
        ("d_street_1", "VARCHAR(20) NOT NULL"),
        ("d_street_2", "VARCHAR(20) NOT NULL"),
        ("d_city", "VARCHAR(20) NOT NULL"),
        ("d_state", "CHAR(2) NOT NULL"),
        ("d_zip", "CHAR(9) NOT NULL"),
        ("d_tax", NUMBER),
        ("d_ytd", MONEY),
        ("d_next_o_id", ID),
    ],
    primary_key: "d_w_id, d_id",
    clustered: true,
};

static CUSTOMER: Definition = Definition {
    name: "customer",
    columns: &[
        ("c_w_id", ID),
        ("c_d_id", ID),
        ("c_id", ID),
        ("c_first", "VARCHAR(16) NOT NULL"),
        ("c_middle", "CHAR(2) NOT NULL"),
        ("c_last", "VARCHAR(16) NOT NULL"),
        ("c_street_1", "VARCHAR(20) NOT NULL"),
        ("c_street_2", "VARCHAR(20) NOT NULL"),
        ("c_city", "VARCHAR(20) NOT NULL"),
        ("c_state", "CHAR(2) NOT NULL"),
        ("c_zip", "CHAR(9) NOT NULL"),
        ("c_phone", "CHAR(16) NOT NULL"),
        ("c_since", TIME),
        ("c_credit", "CHAR(2) NOT NULL"),
        ("c_credit_lim", MONEY),
        ("c_discount", NUMBER),
        ("c_balance", MONEY),
        ("c_ytd_payment", MONEY),
        ("c_payment_cnt", NUMBER),
        ("c_delivery_cnt", NUMBER),
        ("c_data", "VARCHAR(500) NOT NULL"),
    ],
    // Not clustered: a row is a sizeable part of a page, and a B-tree that holds rows in its inner nodes
    // (SQLite's WITHOUT ROWID) would be twice as deep.
    primary_key: "c_w_id, c_d_id, c_id",
    clustered: false,
};

static HISTORY: Definition = Definition {
    name: "history",
    columns: &[
        ("h_c_id", ID),
        ("h_c_d_id", ID),
        ("h_c_w_id", ID),
        ("h_d_id", ID),
        ("h_w_id", ID),
        ("h_date", TIME),
        ("h_amount", MONEY),
        ("h_data", "VARCHAR(24) NOT NULL"),
    ],
    primary_key: "",
    clustered: false,
};

static NEW_ORDER: Definition = Definition {
    name: "new_order",
    columns: &[("no_w_id", ID), ("no_d_id", ID), ("no_o_id", ID)],
    primary_key: "no_w_id, no_d_id, no_o_id",
    clustered: true,
};

static ORDERS: Definition = Definition {
    name: "orders",
    columns: &[
        ("o_w_id", ID),
        ("o_d_id", ID),
        ("o_id", ID),
        ("o_c_id", ID),
        ("o_entry_d", TIME),
        ("o_carrier_id", "INTEGER"),
        ("o_ol_cnt", NUMBER),
        ("o_all_local", NUMBER),
    ],
    primary_key: "o_w_id, o_d_id, o_id",
    clustered: true,
};

static ORDER_LINE: Definition = Definition {
    name: "order_line",
    columns: &[
        ("ol_w_id", ID),
        ("ol_d_id", ID),
        ("ol_o_id", ID),
        ("ol_number", NUMBER),
        ("ol_i_id", ID),
        ("ol_supply_w_id", ID),
        ("ol_delivery_d", "BIGINT"),
        ("ol_quantity", NUMBER),
        ("ol_amount", MONEY),
        ("ol_dist_info", "CHAR(24) NOT NULL"),
    ],
    primary_key: "ol_w_id, ol_d_id, ol_o_id, ol_number",
    clustered: true,
};

static ITEM: Definition = Definition {
    name: "item",
    columns: &[
        ("i_id", ID),
        ("i_im_id", ID),
        ("i_name", "VARCHAR(24) NOT NULL"),
        ("i_price", MONEY),
        ("i_data", "VARCHAR(50) NOT NULL"),
    ],
    primary_key: "i_id",
    clustered: false,
};

static STOCK: Definition = Definition {
    name: "stock",
    columns: &[
        ("s_w_id", ID),
        ("s_i_id", ID),
        ("s_quantity", NUMBER),
        ("s_dist_01", "CHAR(24) NOT NULL"),
        ("s_dist_02", "CHAR(24) NOT NULL"),
        ("s_dist_03", "CHAR(24) NOT NULL"),
        ("s_dist_04", "CHAR(24) NOT NULL"),
        ("s_dist_05", "CHAR(24) NOT NULL"),
        ("s_dist_06", "CHAR(24) NOT NULL"),
        ("s_dist_07", "CHAR(24) NOT NULL"),
        ("s_dist_08", "CHAR(24) NOT NULL"),
        ("s_dist_09", "CHAR(24) NOT NULL"),
        ("s_dist_10", "CHAR(24) NOT NULL"),
        ("s_ytd", NUMBER),
        ("s_order_cnt", NUMBER),
        ("s_remote_cnt", NUMBER),
        ("s_data", "VARCHAR(50) NOT NULL"),
    ],
    primary_key: "s_w_id, s_i_id",
    clustered: false,
};

static LOAD: Definition = Definition {
    name: "tpcc_load",
    columns: &[("name", "VARCHAR(32) NOT NULL"), ("number", "BIGINT NOT NULL")],
    primary_key: "name",
    clustered: false,
};
