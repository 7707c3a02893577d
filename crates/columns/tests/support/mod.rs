//! Lines as a log has them.

use std::io::Write as _;

/// Random numbers (xorshift64*), the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, count: u64) -> u64 {
        ((self.next() >> 32) * count) >> 32
    }
}

/// Lines of about 300 bytes.
pub fn lines(seed: u64, count: usize) -> Vec<u8> {
    let mut numbers = Numbers(seed | 1);
    let mut out = Vec::new();
    for seq in 0..count as u64 {
        let (conn, kind) = (numbers.below(20), numbers.below(6));
        let (id, word) = (numbers.below(1_000_000), ["new", "paid", "sent"][seq as usize % 3]);
        let sql = match kind {
            0 => format!("SELECT id FROM t{kind}_1 WHERE id = {id} LIMIT 20"),
            1 => format!("UPDATE t SET state = '{word}', at = '2026-10-{:02}'", 1 + id % 28),
            2 => format!("DELETE FROM t WHERE token = '{:016x}'", numbers.next()),
            3 => format!("INSERT INTO t VALUES (\\\"{word}\\\", 'it''s {id}', {id}.50)"),
            4 => format!("SELECT * FROM t WHERE email = 'user{id}@example.net'"),
            _ => format!("SELECT {}", numbers.next()),
        };
        let (second, micro) = (seq / 60 % 60, numbers.below(1_000_000));
        let rows = if kind == 1 { String::new() } else { format!(",\"rows_sent\":{}", id % 50) };
        let tables = r#","tables":[{"access":"read","db":"d"},{"access":"write","db":"e"}]"#;
        let tables = if kind == 5 { tables } else { "" };
        writeln!(
            out,
            "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-21T01:02:{second:02}.{micro:06}+01:00\",\
             \"event\":\"statement\",\"conn\":{conn},\"conn_seq\":{},\"user\":\"app{}\",\
             \"ip\":\"10.0.0.{}\",\"sql\":\"{sql}\",\"digest\":\"1:{:032x}\"{tables}{rows},\
             \"query_time_us\":{}}}",
            seq / 20,
            conn % 7,
            conn % 5,
            kind.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            numbers.below(1000) * numbers.below(1000),
        )
        .unwrap();
    }
    out
}
