//! The applications of the demonstration.

use super::crowd::{App, Rhythm};
use super::shape::{CHANGE, DEADLOCK, DENIED, DUPLICATE, LOCK_WAIT, NO_TABLE, QUERY, Shape};

const WEB: &[(&str, &str)] = &[
    ("web1.shop.example", "10.20.1.11"),
    ("web2.shop.example", "10.20.1.12"),
    ("web3.shop.example", "10.20.1.13"),
];

/// The storefront.
pub static STOREFRONT: App = App {
    user: "shop_web",
    db: "shop",
    hosts: WEB,
    tls: "",
    connections: 24,
    rate: 1.5,
    rhythm: Rhythm::Customers,
    statements: 400,
    shapes: &[
        Shape {
            weight: 40,
            sql: "SELECT id, name, price, stock FROM products WHERE id = {id}",
            reads: &["products"],
            rows: (1, 1),
            usual_us: 180,
            ..QUERY
        },
        Shape {
            weight: 18,
            sql: "SELECT p.id, p.name, p.price FROM products p JOIN product_categories c ON \
                  c.product_id = p.id WHERE c.category_id = {small} AND p.active = 1 ORDER BY \
                  p.rank LIMIT 24",
            reads: &["products", "product_categories"],
            rows: (3, 24),
            examined: 9,
            usual_us: 1_400,
            ..QUERY
        },
        Shape {
            weight: 8,
            sql: "SELECT id, name FROM products WHERE name LIKE '%{word}%' LIMIT 20",
            reads: &["products"],
            rows: (0, 20),
            examined: 4_800,
            usual_us: 38_000,
            ..QUERY
        },
        Shape {
            weight: 14,
            sql: "SELECT * FROM sessions WHERE token = 'a7{id}c{id}f' AND expires > NOW()",
            reads: &["sessions"],
            rows: (0, 1),
            usual_us: 160,
            ..QUERY
        },
        Shape {
            weight: 7,
            sql: "UPDATE sessions SET last_seen = NOW() WHERE id = {id}",
            writes: &["sessions"],
            ..CHANGE
        },
        Shape {
            weight: 6,
            sql: "INSERT INTO cart_items (cart_id, product_id, quantity) VALUES ({id}, {id}, \
                  {small})",
            command: "insert",
            writes: &["cart_items"],
            error: Some((DUPLICATE, 300)),
            ..CHANGE
        },
    ],
};

/// Orders and payments.
pub static CHECKOUT: App = App {
    user: "checkout",
    db: "shop",
    hosts: &[("pay1.shop.example", "10.20.2.21"), ("pay2.shop.example", "10.20.2.22")],
    tls: "TLSv1.3",
    connections: 10,
    rate: 0.5,
    rhythm: Rhythm::Customers,
    statements: 250,
    shapes: &[
        Shape { weight: 10, sql: "BEGIN", command: "begin", rows: (0, 0), usual_us: 40, ..CHANGE },
        Shape {
            weight: 10,
            sql: "SELECT stock FROM products WHERE id = {id} FOR UPDATE",
            reads: &["products"],
            rows: (1, 1),
            usual_us: 420,
            error: Some((LOCK_WAIT, 2_500)),
            ..QUERY
        },
        Shape {
            weight: 10,
            sql: "INSERT INTO orders (customer_id, total, currency, created_at) VALUES ({id}, \
                  {price}, 'EUR', NOW())",
            command: "insert",
            writes: &["orders"],
            ..CHANGE
        },
        Shape {
            weight: 12,
            sql: "UPDATE products SET stock = stock - {small} WHERE id = {id}",
            writes: &["products"],
            error: Some((DEADLOCK, 220)),
            ..CHANGE
        },
        Shape {
            weight: 5,
            sql: "INSERT INTO coupons_used (code, customer_id) VALUES ('SPRING-25', {id})",
            command: "insert",
            writes: &["coupons_used"],
            error: Some((DUPLICATE, 14)),
            ..CHANGE
        },
        Shape { weight: 10, sql: "COMMIT", command: "commit", rows: (0, 0), ..CHANGE },
    ],
};

/// Statistics of all servers' health.
pub static MONITOR: App = App {
    user: "monitor",
    db: "",
    hosts: &[("monitor.example", "10.20.0.5")],
    tls: "TLSv1.3",
    connections: 1,
    rate: 0.07,
    rhythm: Rhythm::Steady,
    statements: 2_000,
    shapes: &[
        Shape {
            sql: "SHOW GLOBAL STATUS",
            command: "show_status",
            rows: (480, 520),
            usual_us: 2_600,
            ..QUERY
        },
        Shape {
            sql: "SHOW REPLICA STATUS",
            command: "show_slave_stat",
            rows: (0, 1),
            usual_us: 240,
            ..QUERY
        },
    ],
};

/// Reports of the offices, on the replica.
pub static REPORTS: App = App {
    user: "report",
    db: "shop",
    hosts: &[("bi1.office.example", "10.20.9.40"), ("bi2.office.example", "10.20.9.41")],
    tls: "TLSv1.2",
    connections: 8,
    rate: 0.16,
    rhythm: Rhythm::Office,
    statements: 60,
    shapes: &[
        Shape {
            sql: "SELECT DATE(created_at) AS day, COUNT(*), SUM(total) FROM orders WHERE \
                  created_at >= NOW() - INTERVAL {small} DAY GROUP BY day",
            reads: &["orders"],
            rows: (1, 9),
            examined: 61_000,
            usual_us: 640_000,
            ..QUERY
        },
        Shape {
            weight: 4,
            sql: "SELECT c.country, SUM(o.total) FROM orders o JOIN customers c ON c.id = \
                  o.customer_id GROUP BY c.country ORDER BY 2 DESC",
            reads: &["orders", "customers"],
            rows: (38, 41),
            examined: 46_000,
            usual_us: 2_900_000,
            ..QUERY
        },
        Shape {
            weight: 6,
            sql: "SELECT * FROM orders_v2 WHERE total > {price}",
            reads: &["orders_v2"],
            error: Some((NO_TABLE, 1)),
            ..QUERY
        },
    ],
};

/// The storefront, reading from the replica.
pub static SEARCH: App = App {
    user: "shop_search",
    connections: 12,
    rate: 0.7,
    shapes: &[
        Shape {
            weight: 20,
            sql: "SELECT id, name, price FROM products WHERE MATCH (name, description) AGAINST \
                  ('{word}') LIMIT 20",
            reads: &["products"],
            examined: 30,
            usual_us: 9_000,
            ..QUERY
        },
        Shape {
            weight: 30,
            sql: "SELECT product_id, AVG(stars) FROM reviews WHERE product_id IN ({id}, {id}, \
                  {id}, {id}) GROUP BY product_id",
            reads: &["reviews"],
            rows: (0, 4),
            examined: 40,
            usual_us: 1_100,
            ..QUERY
        },
    ],
    ..STOREFRONT_OF_REPLICA
};

const STOREFRONT_OF_REPLICA: App = App {
    user: "",
    db: "shop",
    hosts: WEB,
    tls: "",
    connections: 0,
    rate: 0.0,
    rhythm: Rhythm::Customers,
    statements: 500,
    shapes: &[],
};

/// Customer care.
pub static CRM: App = App {
    user: "crm_app",
    db: "crm",
    hosts: &[("crm1.office.example", "10.20.9.12"), ("crm2.office.example", "10.20.9.13")],
    tls: "TLSv1.3",
    connections: 14,
    rate: 1.1,
    rhythm: Rhythm::Office,
    statements: 150,
    shapes: &[
        Shape {
            weight: 24,
            sql: "SELECT id, name, email, phone FROM customers WHERE email = '{mail}'",
            reads: &["customers"],
            rows: (0, 1),
            usual_us: 350,
            ..QUERY
        },
        Shape {
            weight: 16,
            sql: "SELECT t.id, t.subject, t.state FROM tickets t WHERE t.customer_id = {id} ORDER \
                  BY t.changed_at DESC LIMIT 50",
            reads: &["tickets"],
            rows: (0, 50),
            usual_us: 900,
            ..QUERY
        },
        Shape {
            weight: 8,
            sql: "UPDATE tickets SET state = 'answered', changed_at = NOW() WHERE id = {id}",
            writes: &["tickets"],
            error: Some((DEADLOCK, 900)),
            ..CHANGE
        },
        Shape {
            weight: 5,
            sql: "INSERT INTO notes (ticket_id, author, text) VALUES ({id}, 'eva', 'asked for \
                  the {word}')",
            command: "insert",
            writes: &["notes"],
            ..CHANGE
        },
    ],
};

/// A person in customer care, with a client program.
pub static SUPPORT: App = App {
    user: "support",
    db: "crm",
    hosts: &[("desk14.office.example", "10.20.9.14")],
    tls: "TLSv1.2",
    connections: 2,
    rate: 0.03,
    rhythm: Rhythm::Office,
    statements: 12,
    shapes: &[
        Shape {
            sql: "SELECT * FROM customers WHERE name LIKE '{word}%'",
            reads: &["customers"],
            rows: (0, 200),
            examined: 240,
            usual_us: 60_000,
            ..QUERY
        },
        Shape {
            weight: 1,
            sql: "SELECT * FROM cards WHERE customer_id = {id}",
            reads: &["cards"],
            error: Some((DENIED, 1)),
            ..QUERY
        },
    ],
};

/// Invoices.
pub static BILLING: App = App {
    user: "billing",
    db: "billing",
    hosts: &[("billing1.example", "10.20.4.31")],
    tls: "TLSv1.3",
    connections: 6,
    rate: 0.45,
    rhythm: Rhythm::Office,
    statements: 300,
    shapes: &[
        Shape {
            weight: 14,
            sql: "SELECT id, number, total, due FROM invoices WHERE customer_id = {id} AND paid = \
                  0",
            reads: &["invoices"],
            rows: (0, 12),
            usual_us: 500,
            ..QUERY
        },
        Shape {
            weight: 8,
            sql: "INSERT INTO payments (invoice_id, amount, method) VALUES ({id}, {price}, \
                  'sepa')",
            command: "insert",
            writes: &["payments"],
            error: Some((DUPLICATE, 500)),
            ..CHANGE
        },
        Shape {
            weight: 8,
            sql: "UPDATE invoices SET paid = 1 WHERE id = {id}",
            writes: &["invoices"],
            ..CHANGE
        },
    ],
};

/// Jobs at the beginning of each hour.
pub static JOBS: App = App {
    user: "jobs",
    db: "billing",
    hosts: &[("jobs1.example", "10.20.4.50")],
    tls: "",
    connections: 2,
    rate: 2.0,
    rhythm: Rhythm::Hourly,
    statements: 200,
    shapes: &[
        Shape {
            weight: 20,
            sql: "SELECT id, customer_id, total FROM invoices WHERE due < NOW() AND reminded = 0 \
                  LIMIT 100",
            reads: &["invoices"],
            rows: (0, 100),
            examined: 300,
            usual_us: 52_000,
            ..QUERY
        },
        Shape {
            sql: "UPDATE invoices SET reminded = 1 WHERE id = {id}",
            writes: &["invoices"],
            ..CHANGE
        },
    ],
};

/// Builds that test against a database.
pub static BUILDS: App = App {
    user: "ci",
    db: "staging",
    hosts: &[("runner1.example", "10.20.7.61"), ("runner2.example", "10.20.7.62")],
    tls: "",
    connections: 4,
    rate: 0.5,
    rhythm: Rhythm::Office,
    statements: 40,
    shapes: &[
        Shape {
            weight: 3,
            sql: "CREATE TABLE t_{small} (id BIGINT PRIMARY KEY, body TEXT)",
            command: "create_table",
            writes: &["t_build"],
            rows: (0, 0),
            usual_us: 14_000,
            ..CHANGE
        },
        Shape {
            weight: 20,
            sql: "INSERT INTO t_{small} (id, body) VALUES ({id}, '{word}')",
            command: "insert",
            writes: &["t_build"],
            ..CHANGE
        },
        Shape {
            weight: 20,
            sql: "SELECT body FROM t_{small} WHERE id = {id}",
            reads: &["t_build"],
            rows: (0, 1),
            error: Some((NO_TABLE, 25)),
            ..QUERY
        },
        Shape {
            weight: 3,
            sql: "DROP TABLE t_{small}",
            command: "drop_table",
            writes: &["t_build"],
            rows: (0, 0),
            usual_us: 6_000,
            ..CHANGE
        },
    ],
};
