//! Counters of a running capture, and their form for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::enrich;
use crate::mysql::{Cause, Event};

/// Losses of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// `lost` lines.
    pub lines: u64,
    /// Bytes, as far as they are known.
    pub bytes: u64,
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Logins that succeeded.
    pub logins: u64,
    /// Logins that the server refused.
    pub refused: u64,
    /// Statements that began.
    pub statements: u64,
    /// Commands without a text.
    pub commands: u64,
    /// Encrypted connections that were not read.
    pub encrypted: u64,
    /// What was declared as lost, by cause.
    pub losses: BTreeMap<&'static str, Loss>,
}

impl Recorded {
    /// Counts an event.
    pub(crate) fn count(&mut self, event: &Event<'_>) {
        match event {
            Event::Login { failure: None, .. } => self.logins += 1,
            Event::Login { .. } => self.refused += 1,
            Event::Start { .. } => self.statements += 1,
            Event::Point(_) => self.commands += 1,
            Event::Lost { cause, bytes, .. } => {
                // At its end there is another line, with the bytes since then.
                self.encrypted += u64::from(*cause == Cause::Tls && *bytes == 0);
                self.lost(cause.name(), *bytes);
            }
            _ => {}
        }
    }

    pub(crate) fn lost(&mut self, cause: &'static str, bytes: u64) {
        let loss = self.losses.entry(cause).or_default();
        loss.lines += 1;
        loss.bytes = loss.bytes.saturating_add(bytes);
    }

    fn add(&mut self, other: &Recorded) {
        self.logins += other.logins;
        self.refused += other.refused;
        self.statements += other.statements;
        self.commands += other.commands;
        self.encrypted += other.encrypted;
        for (cause, loss) in &other.losses {
            let sum = self.losses.entry(cause).or_default();
            sum.lines += loss.lines;
            sum.bytes = sum.bytes.saturating_add(loss.bytes);
        }
    }

    /// `lost` lines of all causes.
    pub fn lost_lines(&self) -> u64 {
        self.losses.values().map(|loss| loss.lines).sum()
    }
}

/// What the ring of a thread has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfThread {
    /// Packets of the servers' ports.
    pub packets: u64,
    /// Packets that the kernel had no space for.
    pub dropped: u64,
}

/// Counters since the start of the capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Packets of the servers' ports.
    pub packets: u64,
    /// Packets that the kernel had no space for.
    pub dropped: u64,
    /// Packets with a wrong checksum.
    pub damaged: u64,
    /// Connections since the start.
    pub connections: u64,
    /// Connections that are followed now.
    pub followed: u64,
    /// Memory of these for texts and waiting segments, bytes.
    pub held_bytes: u64,
    /// Bytes that came decrypted from the server's TLS library.
    pub decrypted_bytes: u64,
    /// There is an interface of the name.
    pub is_there: bool,
    /// What the server was asked; `None`: it is not asked.
    pub enrich: Option<enrich::Figures>,
    /// What was recorded.
    pub recorded: Recorded,
    /// Of each thread; empty in the counters of a single thread.
    pub threads: Vec<OfThread>,
}

/// Name, type, help, value.
type Row<'m> = (&'m str, &'m str, &'m str, u64);

impl Metrics {
    /// Those of several threads together.
    pub fn sum<'m>(of_threads: impl IntoIterator<Item = &'m Metrics>) -> Metrics {
        let mut sum = Metrics { is_there: true, ..Metrics::default() };
        for it in of_threads {
            sum.packets += it.packets;
            sum.dropped += it.dropped;
            sum.damaged += it.damaged;
            sum.connections += it.connections;
            sum.followed += it.followed;
            sum.held_bytes += it.held_bytes;
            sum.decrypted_bytes += it.decrypted_bytes;
            sum.is_there &= it.is_there;
            // All threads ask together.
            sum.enrich = it.enrich.or(sum.enrich);
            sum.recorded.add(&it.recorded);
            sum.threads.push(OfThread { packets: it.packets, dropped: it.dropped });
        }
        sum
    }

    /// In Prometheus' text format, with the interface as a label.
    pub fn text(&self, interface: &str) -> String {
        let recorded = &self.recorded;
        let rows: [Row<'_>; 13] = [
            ("packets_total", "counter", "Packets of the servers' ports.", self.packets),
            ("dropped_packets_total", "counter", "Packets that the kernel dropped.", self.dropped),
            ("damaged_packets_total", "counter", "Packets with a wrong checksum.", self.damaged),
            ("connections_total", "counter", "Connections.", self.connections),
            ("connections", "gauge", "Connections that are followed now.", self.followed),
            ("held_bytes", "gauge", "Memory for texts and waiting segments.", self.held_bytes),
            ("decrypted_bytes_total", "counter", "Decrypted bytes.", self.decrypted_bytes),
            ("interface_up", "gauge", "1: there is an interface.", self.is_there.into()),
            ("logins_total", "counter", "Logins that succeeded.", recorded.logins),
            ("refused_logins_total", "counter", "Logins that failed.", recorded.refused),
            ("statements_total", "counter", "Statements that began.", recorded.statements),
            ("commands_total", "counter", "Commands without a text.", recorded.commands),
            (
                "encrypted_connections_total",
                "counter",
                "Encrypted connections that were not read.",
                recorded.encrypted,
            ),
        ];
        let label = format!("interface=\"{}\"", escaped(interface));
        let mut text = String::new();
        for (name, kind, help, value) in rows.into_iter().chain(self.enrich_rows()) {
            head(&mut text, name, kind, help);
            line(&mut text, name, &label, value);
        }
        for (name, help, of) in [
            ("lost_lines_total", "Lines that declare a loss.", (|it| it.lines) as fn(&Loss) -> u64),
            ("lost_bytes_total", "Bytes that are declared as lost.", |it| it.bytes),
        ] {
            head(&mut text, name, "counter", help);
            for (cause, loss) in &recorded.losses {
                line(&mut text, name, &format!("{label},cause=\"{cause}\""), of(loss));
            }
        }
        self.add_threads(&mut text, &label);
        text
    }

    /// They show whether the connections are spread.
    fn add_threads(&self, text: &mut String, label: &str) {
        let labels = (0..self.threads.len()).map(|it| format!("{label},thread=\"{it}\""));
        let labels = labels.collect::<Vec<_>>();
        let name = "thread_packets_total";
        head(text, name, "counter", "Packets of a thread.");
        for (labels, it) in labels.iter().zip(&self.threads) {
            line(text, name, labels, it.packets);
        }
        let name = "thread_dropped_packets_total";
        head(text, name, "counter", "Packets of a thread that the kernel dropped.");
        for (labels, it) in labels.iter().zip(&self.threads) {
            line(text, name, labels, it.dropped);
        }
    }

    fn enrich_rows(&self) -> Vec<Row<'_>> {
        let Some(it) = self.enrich else { return Vec::new() };
        let (answered, local) = (it.is_answered.into(), it.local_sessions);
        vec![
            ("enrich_up", "gauge", "1: the server has answered the last questions.", answered),
            ("enrich_questions_total", "counter", "Questions about a session.", it.questions),
            ("enriched_total", "counter", "Answers that completed a session.", it.completed),
            ("enrich_errors_total", "counter", "Questions that failed, by rounds.", it.errors),
            ("local_sessions", "gauge", "Sessions of the server without packets.", local),
        ]
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // A string takes everything.
    let _ = writeln!(text, "# HELP tacho_capture_{name} {help}");
    let _ = writeln!(text, "# TYPE tacho_capture_{name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: u64) {
    let _ = writeln!(text, "tacho_capture_{name}{{{labels}}} {value}");
}

/// A value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::CommandEnd;

    #[test]
    fn events_are_counted() {
        let mut recorded = Recorded::default();
        let lost = |cause, bytes| Event::Lost { cause, bytes, since_us: 0 };
        for event in [
            Event::Start { command: "Query", text: None },
            Event::End(CommandEnd::default()),
            Event::Start { command: "Execute", text: None },
            Event::Params { text: b"", whole_bytes: 0 },
            Event::Point(CommandEnd::default()),
            lost(Cause::Tls, 0),
            lost(Cause::Tls, 900),
            lost(Cause::TcpGap, 5),
            lost(Cause::TcpGap, 7),
        ] {
            recorded.count(&event);
        }
        assert_eq!((recorded.statements, recorded.commands, recorded.lost_lines()), (2, 1, 4));
        assert_eq!(recorded.encrypted, 1, "the second line is that of its end");
        assert_eq!(recorded.losses["tcp_gap"], Loss { lines: 2, bytes: 12 });
    }

    #[test]
    fn threads_are_summed() {
        let mut metrics = [1, 2].map(|packets| Metrics {
            packets,
            dropped: 3,
            held_bytes: 5,
            is_there: true,
            ..Metrics::default()
        });
        metrics[0].recorded.statements = 7;
        metrics[0].recorded.lost("kernel", 0);
        metrics[1].recorded.lost("kernel", 0);
        metrics[1].recorded.lost("tcp_gap", 9);
        let sum = Metrics::sum(&metrics);
        assert_eq!((sum.packets, sum.dropped, sum.held_bytes, sum.is_there), (3, 6, 10, true));
        assert_eq!((sum.recorded.statements, sum.recorded.lost_lines()), (7, 3));
        assert_eq!(sum.recorded.losses["tcp_gap"], Loss { lines: 1, bytes: 9 });
        let line = "tacho_capture_thread_packets_total{interface=\"eth0\",thread=\"1\"} 2\n";
        assert!(sum.text("eth0").contains(line), "{}", sum.text("eth0"));
        metrics[0].is_there = false;
        assert!(!Metrics::sum(&metrics).is_there);
    }

    #[test]
    fn prometheus_reads_them() {
        let mut metrics = Metrics { packets: 7, is_there: true, ..Metrics::default() };
        metrics.recorded.lost("kernel", 0);
        metrics.recorded.lost("tcp_gap", 9);
        let text = metrics.text("we\"ird");
        for expected in [
            "# TYPE tacho_capture_packets_total counter",
            "tacho_capture_packets_total{interface=\"we\\\"ird\"} 7",
            "tacho_capture_interface_up{interface=\"we\\\"ird\"} 1",
            "tacho_capture_lost_lines_total{interface=\"we\\\"ird\",cause=\"kernel\"} 1",
            "tacho_capture_lost_bytes_total{interface=\"we\\\"ird\",cause=\"tcp_gap\"} 9",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}: {text}");
        }
        assert!(!text.contains("enrich"), "{text}");
        let figures = enrich::Figures { local_sessions: 3, ..enrich::Figures::default() };
        metrics.enrich = Some(figures);
        let text = metrics.text("eth0");
        for expected in ["enrich_up{interface=\"eth0\"} 0", "local_sessions{interface=\"eth0\"} 3"]
        {
            assert!(text.contains(&format!("\ntacho_capture_{expected}\n")), "{expected}: {text}");
        }
        // Each name has its help and its type before its values.
        for name in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
            let name = name.split(' ').next().unwrap_or_default();
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }
}
