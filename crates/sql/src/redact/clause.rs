//! Whether a word begins a clause with a secret, or is only a name that looks like one.

use super::lexer::{Kind, Token};
use super::scan::Scan;
use super::words::{self, Verb};

/// Number of tokens to look ahead to distinguish IDENTIFIED in a statement from the word in prose.
const PROSE_TOKENS: usize = 6;

impl Scan<'_, '_> {
    /// Whether a literal follows, with or without its introducer. `CHANGE password _x INT` has a
    /// name there.
    pub(super) fn is_literal_next(&self) -> bool {
        let mut ahead = self.lexer;
        ahead.next_code().is_some_and(|next| {
            self.begins_literal(next)
                && (next.kind != Kind::Word
                    || ahead.next_code().is_none_or(|after| self.begins_literal(after)))
        })
    }

    /// The kind of statement that a word indicates.
    pub(super) fn verb_of(&self, word: &str) -> Verb {
        // `GRANT … ON TABLE t` is about accounts.
        if words::names_tables(word) && !self.is_after("ON") {
            return Verb::Tables;
        }
        // In the body of a program, too: after its parameters, a label or a word like THEN.
        let is_start = match self.previous {
            None => true,
            Some(Token { kind: Kind::Punct(byte), .. }) => matches!(byte, b')' | b':'),
            Some(Token { kind: Kind::Word, .. }) => {
                let previous = self.word_of(self.previous);
                let previous = previous.text();
                words::starts_inner_statement(previous) || matches!(previous, "ATOMIC" | "FOR")
            }
            Some(_) => false,
        };
        if !is_start {
            return Verb::Unknown;
        }
        let mut ahead = self.lexer;
        let mut object = self.word_of(ahead.next_code());
        if object.text() == "OR" {
            ahead.next_code();
            object = self.word_of(ahead.next_code());
        }
        words::verb(word, object.text())
    }

    /// Whether this IDENTIFIED is the keyword. In a statement about accounts it is. Elsewhere, and
    /// in a literal, it may be a column or prose.
    pub(super) fn is_identification(&self) -> bool {
        // A column of a SELECT may be called USER, and another one IDENTIFIED.
        let next = self.word_of(self.peek());
        if self.names_accounts && !self.in_data {
            // A user may have this name.
            let is_name = matches!(
                self.peek().map(|next| next.kind),
                Some(Kind::Punct(b',' | b'.' | b'@' | b'(' | b')' | b';'))
            );
            return !is_name && !matches!(next.text(), "TO" | "ON" | "FROM");
        }
        match next.text() {
            "BY" | "VIA" if self.depth == 0 => true,
            "BY" | "VIA" | "WITH" | "AS" => {
                let mut ahead = self.lexer;
                ahead.next_code();
                // The rest of the text is in another literal.
                if ahead.clone().next_code().is_none() {
                    return true;
                }
                std::iter::from_fn(|| ahead.next_code())
                    .take(PROSE_TOKENS)
                    .any(|token| token.kind == Kind::Text || self.is_hex(token))
            }
            _ => self.peek().is_some_and(|next| next.kind == Kind::Text),
        }
    }

    /// `MASTER_PASSWORD = 'x'`, `CHALLENGE_RESPONSE AS 'x'`, not a name that looks like it.
    pub(super) fn is_option(&self) -> bool {
        self.verb == Verb::Replication
            || self.is_literal_next()
            || match self.peek() {
                None => true,
                Some(next) => {
                    matches!(next.kind, Kind::Punct(b'=') | Kind::Marker)
                        || self.word_of(Some(next)).text() == "AS"
                }
            }
    }

    /// `PASSWORD 'x'`, `SET PASSWORD …`, `SET a = 1, PASSWORD FOR …`.
    pub(super) fn is_password_clause(&self) -> bool {
        let previous = self.word_of(self.previous);
        let next_word = self.word_of(self.peek());
        let is_unquoted_next = || {
            self.verb == Verb::Accounts
                && !(self.names_accounts || self.in_assignments || self.in_data)
                && self.peek().is_some_and(|next| matches!(next.kind, Kind::Word | Kind::Number))
        };
        self.is_literal_next()
            || is_unquoted_next()
            || (self.in_assignments
                && (previous.text() == "SET" || matches!(next_word.text(), "FOR" | "TO")))
    }

    /// `CONNECTION = 'mysql://user:password@host/table'` and the like. A text without the
    /// characters of URLs and lists of options is the name of a server.
    pub(super) fn location(&mut self) {
        let mut ahead = self.lexer;
        let mut next = ahead.next_code();
        if Self::is_punct(next, b'=') {
            next = ahead.next_code();
        }
        let first = next.filter(|token| token.kind == Kind::Text);
        let after = ahead.clone().next_code();
        let is_alone = after.is_none_or(|token| token.kind != Kind::Text);
        if let Some(Token { body: (start, end), closed: true, .. }) = first
            && is_alone
            && !self.text[start..end].iter().any(|byte| b":@=;".contains(byte))
        {
            return;
        }
        while let Some(token) = next.filter(|token| token.kind == Kind::Text) {
            self.secret(token);
            next = ahead.next_code();
        }
    }
}
