//! Encrypted connections: declared, or read from elsewhere where they are decrypted.
//!
//! The greeting and the client's request for TLS are in packets. The rest may come from the
//! server's TLS library, as bytes of the same connection: its first ones are the client's login.

use super::{Phase, Session};
use crate::mysql::caps;
use crate::mysql::{Cause, Event, Output};

/// How long the first decrypted bytes may take, µs: servers wait 10 s for a login.
const WAIT_US: i64 = 30_000_000;

impl Session {
    /// The client asks for TLS.
    pub(super) fn begin_tls(&mut self, ts_us: i64, out: &mut dyn Output) {
        if self.limits.reads_tls {
            self.phase = Phase::Encrypted { since_us: ts_us };
            self.skip_cause = Cause::Tls;
        } else {
            self.give_up(Cause::Tls, 0, ts_us, out);
        }
    }

    /// Whether it waits for the next command that is certain.
    pub fn is_searching(&self) -> bool {
        matches!(self.phase, Phase::Lost { .. })
    }

    /// From now on its bytes are decrypted. Behind the request for TLS that is the whole rest of
    /// the session, otherwise a part of it is missing.
    pub fn decrypt(&mut self, ts_us: i64, out: &mut dyn Output) {
        match self.phase {
            Phase::Encrypted { .. } => {
                // These were the handshake of TLS.
                self.skipped = (0, 0);
                self.skip_cause = Cause::Resync;
                // The login repeats the flag of the request.
                self.server_caps &= !caps::SSL;
                self.phase = Phase::Answer;
            }
            Phase::Lost { .. } => {}
            Phase::Over => {
                self.report_skipped(ts_us, out);
                self.skip_cause = Cause::Resync;
                self.phase = Phase::Lost { is_armed: false };
                self.forget_user();
            }
            _ => self.lose(Cause::TcpGap, 0, ts_us, out),
        }
    }

    /// Declares an encrypted connection if nothing of it is decrypted in time.
    pub fn expect_decrypted(&mut self, now_us: i64, out: &mut dyn Output) {
        if let Phase::Encrypted { since_us } = self.phase
            && now_us.saturating_sub(since_us) > WAIT_US
        {
            self.give_up_tls(since_us, now_us, out);
        }
    }

    /// Nothing of an encrypted connection is decrypted.
    pub(super) fn give_up_tls(&mut self, since_us: i64, ts_us: i64, out: &mut dyn Output) {
        self.emit(out, ts_us, &Event::Lost { cause: Cause::Tls, bytes: 0, since_us });
        self.phase = Phase::Over;
        self.has_records = false;
        self.forget();
    }
}
