//! The live server: a private MariaDB with the recorder, and clients that use it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use tacho_sandbox::client::{Address, Login};
use tacho_sandbox::server::PrivateServer;
use tacho_tests::client::{self, Conn, Queryable as _};
use tacho_tests::product::Product;

/// Its name in the hub.
pub const NAME: &str = "live-db1";
const PASSWORD: &str = "demo";
/// Connections of each client, and its longest pause between two statements.
const CLIENTS: [(&str, u32, Duration); 3] = [
    ("shop_web", 4, Duration::from_millis(1_600)),
    ("checkout", 2, Duration::from_millis(2_400)),
    ("report", 1, Duration::from_millis(6_000)),
];
/// After so many statements a client connects again.
const STATEMENTS: u64 = 60;
/// A stop is noticed so soon.
const STEP: Duration = Duration::from_millis(50);
/// The load rises and falls with this period.
const WAVE: Duration = Duration::from_secs(240);

/// The server and its clients.
pub struct Live {
    server: PrivateServer,
    log_directory: PathBuf,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Result<()>>>,
}

impl Live {
    /// Starts the server, installs the recorder and starts the clients.
    pub fn start(product: &Product, directory: &Path) -> Result<Self> {
        let server = product.builder().directory(directory).keep().start()?;
        let mut conn = server.connect()?;
        product.install(&mut conn)?;
        let log_directory = client::variable(&mut conn, &product.variable("directory"))?;
        // An absolute path replaces the data directory, a relative one is below it.
        let log_directory = server.data_directory().join(log_directory);
        prepare(&mut conn).context("making the tables of the live server")?;
        let stop = Arc::<AtomicBool>::default();
        let mut clients = Vec::new();
        for (user, count, pause) in CLIENTS {
            for number in 0..count {
                let client = Client {
                    login: Login {
                        address: Address::Tcp("127.0.0.1".to_owned(), server.port()),
                        user: user.to_owned(),
                        password: PASSWORD.to_owned(),
                    },
                    pause,
                    number: u64::from(number),
                    stop: Arc::clone(&stop),
                    begin: Instant::now(),
                };
                clients.push(thread::Builder::new().name(user.to_owned()).spawn(|| client.work())?);
            }
        }
        Ok(Self { server, log_directory, stop, clients })
    }

    /// Where the recorder writes.
    pub fn log_directory(&self) -> &Path {
        &self.log_directory
    }

    /// Ends the clients, then the server.
    pub fn stop(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().map_err(|_| anyhow!("a client of the live server panicked"))??;
        }
        self.server.stop()
    }
}

fn prepare(conn: &mut Conn) -> Result<()> {
    conn.query_drop("CREATE DATABASE shop")?;
    conn.query_drop(
        "CREATE TABLE shop.products (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(80) NOT NULL,
         price DECIMAL(8,2) NOT NULL, stock INT NOT NULL)",
    )?;
    conn.query_drop(
        "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, product_id INT NOT NULL,
         quantity INT NOT NULL, created_at DATETIME NOT NULL)",
    )?;
    conn.query_drop(
        "CREATE TABLE shop.coupons_used (code VARCHAR(20), customer_id INT,
         PRIMARY KEY (code, customer_id))",
    )?;
    conn.query_drop(
        "INSERT INTO shop.products (name, price, stock)
         SELECT CONCAT('product ', seq), 5 + seq % 190, 1000 FROM (
             WITH RECURSIVE numbers (seq) AS (
                 SELECT 1 UNION ALL SELECT seq + 1 FROM numbers WHERE seq < 500)
             SELECT seq FROM numbers) AS all_numbers",
    )?;
    for (user, ..) in CLIENTS {
        conn.query_drop(format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{PASSWORD}'"))?;
        conn.query_drop(format!("GRANT SELECT, INSERT, UPDATE ON shop.* TO '{user}'@'%'"))?;
    }
    Ok(())
}

/// A connection that is made again and again.
struct Client {
    login: Login,
    pause: Duration,
    number: u64,
    stop: Arc<AtomicBool>,
    begin: Instant,
}

impl Client {
    fn work(self) -> Result<()> {
        let mut count = self.number * 37;
        while !self.is_stopped() {
            let mut conn = self.login.connect()?;
            conn.query_drop("USE shop")?;
            for _ in 0..STATEMENTS {
                if self.is_stopped() {
                    return Ok(());
                }
                count += 1;
                // Errors of the server are part of the traffic.
                match conn.query_drop(self.statement(count)) {
                    Ok(()) | Err(mysql::Error::MySqlError(_)) => {}
                    Err(error) => return Err(error.into()),
                }
                self.rest(count);
            }
            if self.login.user == "report" {
                let wrong = Login { password: "expired".to_owned(), ..self.login.clone() };
                anyhow::ensure!(wrong.connect().is_err(), "a wrong password is accepted");
            }
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn statement(&self, count: u64) -> String {
        let product = 1 + count * 7919 % 500;
        match (self.login.user.as_str(), count % 20) {
            ("report", 0) => "SELECT * FROM orders_v2".to_owned(),
            ("report", number) if number % 5 == 0 => {
                "SELECT o.product_id, SUM(o.quantity), SLEEP(0.02) FROM orders o JOIN products p \
                 ON p.id = o.product_id GROUP BY o.product_id ORDER BY 2 DESC LIMIT 10"
                    .to_owned()
            }
            ("report", _) => {
                "SELECT DATE(created_at), COUNT(*) FROM orders GROUP BY DATE(created_at)".to_owned()
            }
            ("checkout", number) if number % 2 == 0 => format!(
                "INSERT INTO orders (product_id, quantity, created_at) VALUES ({product}, {}, \
                 NOW())",
                1 + count % 4
            ),
            // The same customer twice, now and then.
            ("checkout", 7) => {
                format!("INSERT INTO coupons_used VALUES ('SPRING-25', {})", count % 60)
            }
            ("checkout", _) => {
                format!("UPDATE products SET stock = stock - 1 WHERE id = {product}")
            }
            (_, 3) => format!("SELECT id, name FROM products WHERE name LIKE '%{}%'", count % 50),
            (_, 11) => "SELECT id, name, price FROM products ORDER BY price DESC LIMIT 24".into(),
            _ => format!("SELECT id, name, price, stock FROM products WHERE id = {product}"),
        }
    }

    /// The pause after a statement: longer when the load is low.
    fn rest(&self, count: u64) {
        let phase = self.begin.elapsed().as_secs_f64() / WAVE.as_secs_f64() * std::f64::consts::TAU;
        let share =
            0.35 + 0.3 * (1.0 + phase.cos()) / 2.0 + 0.35 * ((count * 31 % 17) as f64 / 17.0);
        let until = Instant::now() + self.pause.mul_f64(share);
        while !self.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(STEP));
        }
    }
}
