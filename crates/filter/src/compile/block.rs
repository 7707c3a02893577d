//! Rules that block: what they may ask for, and what they tell.

use jsonc_parser::ast::Value;

use super::Error;
use super::parse::{Before, Source};
use crate::program::{BLOCK_ERRNO, BLOCK_MESSAGE, USES_ERRNO, USES_TABLE};

/// Longest name of a rule that blocks, bytes: the log has it.
const NAME_BYTES_MAX: usize = 128;
/// Longest message, bytes: the server cuts those that are longer than 512.
const MESSAGE_BYTES_MAX: usize = 480;

/// `ER_NEED_REPREPARE`, `ER_PREPARE_FOR_SECONDARY_ENGINE`, `ER_PREPARE_FOR_PRIMARY_ENGINE` (`mysqld_error.h` of MySQL 9.7).
const RETRIED: [u32; 3] = [1615, 13_359, 13_775];

/// What a rule says of itself and to the client, and where.
#[derive(Default)]
pub(super) struct Words<'v, 't> {
    pub(super) name: Option<(&'v str, &'v Value<'t>)>,
    pub(super) errno: Option<(u32, &'v Value<'t>)>,
    pub(super) message: Option<(&'v str, &'v Value<'t>)>,
}

impl<'v, 't> Words<'v, 't> {
    /// What only a rule that blocks has.
    pub(super) fn of_a_block(&self) -> Option<&'v Value<'t>> {
        self.errno.map(|(_, value)| value).or(self.message.map(|(_, value)| value))
    }
}

impl Source<'_> {
    /// Whether what blocks can be decided before a statement runs. `uses`: what it looks at.
    pub(super) fn check_block(
        &self,
        action: &Value<'_>,
        uses: u8,
        before: Before,
    ) -> Result<(), Error> {
        if uses & USES_ERRNO != 0 {
            let message = "a statement has an `errno` when it has ended: it cannot be blocked then";
            return Err(self.error_at(action, message));
        }
        if before.others & (USES_ERRNO | USES_TABLE) != 0 {
            let message = "what is blocked is decided before it runs: put the rules that do not \
                           block and ask for `errno` or `table` behind all that do";
            return Err(self.error_at(action, message));
        }
        Ok(())
    }

    /// The number of an error that a client may get.
    pub(super) fn block_errno(&self, value: &Value<'_>) -> Result<u32, Error> {
        let number = match value {
            Value::NumberLit(literal) => literal.value.parse::<u32>().ok(),
            _ => None,
        };
        // Those from 2000 on are of the client's own library: it would take the connection for lost.
        let number = number.filter(|number| matches!(number, 1000..=1999 | 3000..=65535));
        let number = number.ok_or_else(|| {
            let message = "expected the number of an error: 1000 to 1999, or 3000 to 65535";
            self.error_at(value, message)
        })?;
        if RETRIED.contains(&number) {
            let message =
                "with this error the server tries the statement again, and no client gets it";
            return Err(self.error_at(value, message));
        }
        Ok(number)
    }

    /// What a rule that blocks tells, as bytes. `before`: how many rules there are before it.
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
