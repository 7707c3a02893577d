//! Sessions that all do the same, until they are stopped.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::client::{self, Queryable as _};
use crate::wait;
use tacho_sandbox::server::PrivateServer;

/// The sessions.
pub struct Crowd {
    stop: Arc<AtomicBool>,
    members: Vec<Member>,
}

struct Member {
    done: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Crowd {
    /// `count` sessions that repeat `sql`.
    pub fn start(server: &PrivateServer, count: usize, sql: &str) -> Self {
        Self::start_with(server, count, &[], sql)
    }

    /// The same, after other statements.
    pub fn start_with(server: &PrivateServer, count: usize, before: &[&str], sql: &str) -> Self {
        let crowd = Self::of_sessions(server, count, before, sql);
        crowd.wait_until_each_continues();
        crowd
    }

    /// Sessions that are kept waiting in `sql`.
    pub fn start_waiting(server: &PrivateServer, count: usize, sql: &str) -> Self {
        Self::of_sessions(server, count, &[], sql)
    }

    fn of_sessions(server: &PrivateServer, count: usize, before: &[&str], sql: &str) -> Self {
        let before: Vec<String> = before.iter().map(|sql| (*sql).to_owned()).collect();
        let sql = sql.to_owned();
        Self::of(server, count, move |socket, goes_on| {
            let mut conn = client::connect(&socket, "root", "").expect("a connection");
            for sql in &before {
                conn.query_drop(sql).expect(sql);
            }
            while goes_on() {
                conn.query_drop(&sql).expect(&sql);
            }
        })
    }

    /// `count` clients that connect, run a query, and disconnect.
    pub fn start_connecting(server: &PrivateServer, count: usize) -> Self {
        let crowd = Self::of(server, count, |socket, goes_on| {
            while goes_on() {
                let mut conn = client::connect(&socket, "root", "").expect("a connection");
                conn.query_drop("DO 1").expect("an answer");
            }
        });
        crowd.wait_until_each_continues();
        crowd
    }

    fn of(
        server: &PrivateServer,
        count: usize,
        work: impl Fn(PathBuf, &dyn Fn() -> bool) + Clone + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let members = (0..count).map(|_| {
            let (stop, socket, work) = (stop.clone(), server.socket().to_owned(), work.clone());
            let done = Arc::new(AtomicU64::new(0));
            let counter = done.clone();
            let thread = thread::spawn(move || {
                work(socket, &|| {
                    counter.fetch_add(1, Ordering::Relaxed);
                    !stop.load(Ordering::Relaxed)
                });
            });
            Member { done, thread }
        });
        Self { members: members.collect(), stop }
    }

    /// Waits until each of them has received answers. Not for a crowd that is made to wait.
    pub fn wait_until_each_continues(&self) {
        for member in &self.members {
            let goal = member.done.load(Ordering::Relaxed) + 1;
            wait::until("each session continues", || {
                // Its panic says more than our timeout would.
                member.done.load(Ordering::Relaxed) >= goal || member.thread.is_finished()
            });
        }
    }

    /// Ends them.
    ///
    /// # Panics
    /// One of them got an error.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for member in self.members {
            member.thread.join().expect("a session without errors");
        }
    }
}
