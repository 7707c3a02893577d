//! Rules that block: their permitted conditions, and their messages.

use jsonc_parser::ast::Value;

use super::Error;
use super::parse::{Before, FilterText};
use crate::program::{BLOCK_ERRNO, BLOCK_MESSAGE, USES_ERRNO, USES_TABLE};

/// Longest name of a rule that blocks, bytes: the log contains it.
const NAME_BYTES_MAX: usize = 128;
/// Longest message, bytes: the server cuts those that are longer than 512.
const MESSAGE_BYTES_MAX: usize = 480;

/// `ER_NEED_REPREPARE`, `ER_PREPARE_FOR_SECONDARY_ENGINE`, `ER_PREPARE_FOR_PRIMARY_ENGINE` (`mysqld_error.h` of MySQL 9.7).
const RETRIED: [u32; 3] = [1615, 13_359, 13_775];

/// The texts of a rule, and their positions.
#[derive(Default)]
pub(super) struct Words<'v, 't> {
    pub(super) name: Option<(&'v str, &'v Value<'t>)>,
    pub(super) errno: Option<(u32, &'v Value<'t>)>,
    pub(super) message: Option<(&'v str, &'v Value<'t>)>,
}

impl<'v, 't> Words<'v, 't> {
    /// A key that only a rule that blocks may have.
    pub(super) fn of_a_block(&self) -> Option<&'v Value<'t>> {
        self.errno.map(|(_, value)| value).or(self.message.map(|(_, value)| value))
    }
}

impl FilterText<'_> {
    /// Checks that the rule can be decided before a statement runs. `uses`: the facts that it uses.
    pub(super) fn check_block(
        &self,
        action: &Value<'_>,
        uses: u8,
        before: Before,
    ) -> Result<(), Error> {
        if uses & USES_ERRNO != 0 {
            let message = "a statement has an `errno` only when it has ended: too late to block it";
            return Err(self.error_at(action, message));
        }
        if before.others & (USES_ERRNO | USES_TABLE) != 0 {
            let message = "a rule that blocks is decided before the statement runs: put the rules \
                           that do not block and use `errno` or `table` after all that do";
            return Err(self.error_at(action, message));
        }
        Ok(())
    }

    /// An error number that a client can receive.
    pub(super) fn block_errno(&self, value: &Value<'_>) -> Result<u32, Error> {
        let number = match value {
            Value::NumberLit(literal) => literal.value.parse::<u32>().ok(),
            _ => None,
        };
        // Numbers from 2000 on belong to the client library: it would consider the connection lost.
        let number = number.filter(|number| matches!(number, 1000..=1999 | 3000..=65535));
        let number = number.ok_or_else(|| {
            let message = "expected the number of an error: 1000 to 1999, or 3000 to 65535";
            self.error_at(value, message)
        })?;
        if RETRIED.contains(&number) {
            let message =
                "the server retries the statement on this error, and no client receives it";
            return Err(self.error_at(value, message));
        }
        Ok(number)
    }

    /// The answer of a rule that blocks, as bytes. `before`: number of rules before it.
    pub(super) fn block(&self, words: &Words<'_, '_>, before: usize) -> Result<Vec<u8>, Error> {
        let number = format!("rule {}", before.saturating_add(1));
        let name = self.short(words.name, NAME_BYTES_MAX)?.unwrap_or(&number);
        let message = self.short(words.message, MESSAGE_BYTES_MAX)?.unwrap_or(BLOCK_MESSAGE);
        let errno = words.errno.map_or(BLOCK_ERRNO, |(errno, _)| errno);
        let mut bytes = errno.to_le_bytes().to_vec();
        for text in [name, message] {
            bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        Ok(bytes)
    }

    fn short<'v>(
        &self,
        text: Option<(&'v str, &Value<'_>)>,
        bytes_max: usize,
    ) -> Result<Option<&'v str>, Error> {
        let Some((text, value)) = text else { return Ok(None) };
        if text.is_empty() || text.len() > bytes_max || text.contains(char::is_control) {
            let message =
                format!("expected 1 to {bytes_max} bytes of text without control characters");
            return Err(self.error_at(value, message));
        }
        Ok(Some(text))
    }
}
