//! What is kept after a word like IDENTIFIED.
//!
//! From there to the end of the statement every literal is removed, unless its position guarantees
//! that it is something else: the name of a user, the value of an option that is not secret. A word
//! that the grammar does not have there, or a number, is treated as a password without quotes, and
//! everything from it on is removed.

use super::lexer::{Kind, Token};
use super::scan::Scan;
use super::words::{self, Verb};

/// What happens to a token that the grammar does not have there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unexpected {
    /// It and everything after it is removed: a password without quotes can have spaces.
    Rest,
    /// Only the token is removed: the value is an expression, or may be one.
    Token,
    /// A number is removed, a name is kept: this is a statement on tables.
    Number,
    /// The same for one expression, up to its end.
    Value,
}

/// Whether the tokens belong to `'user'@'host'`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Account {
    No,
    /// After the name.
    Name,
    /// After the `@`.
    At,
    /// After the host name or a part of it.
    Host,
}

/// Where the strict reading of a statement is.
struct Strict {
    unexpected: Unexpected,
    /// The value of a variable is one expression.
    is_expression: bool,
    account: Account,
    parens: usize,
    cases: usize,
    last: Option<Token>,
    /// The last token that is not `=`: an option's name.
    option: Option<Token>,
}

/// How reading continues after a token.
enum Step {
    /// With the next one; this one counts as the last.
    Next(Account),
    /// With the next one, as if this one were not there.
    Skip,
    /// It ends before this token.
    Before,
    /// It ends: the rest was removed.
    Removed,
}

impl Strict {
    /// Counts parentheses. Returns the part of an account that a punctuation mark begins.
    fn punct(&mut self, byte: u8) -> Account {
        match byte {
            b'(' => self.parens += 1,
            b')' => self.parens = self.parens.saturating_sub(1),
            _ => {}
        }
        match (&self.account, byte) {
            (Account::Name, b'@') => Account::At,
            (Account::Host, b'.') => Account::Host,
            _ => Account::No,
        }
    }
}

impl Scan<'_, '_> {
    /// Reads up to the end of the statement, or to where another SET assignment begins.
    pub(super) fn strict(&mut self, unexpected: Unexpected) {
        let mut at = Strict {
            unexpected: self.strictness(unexpected),
            is_expression: matches!(unexpected, Unexpected::Token),
            account: Account::No,
            parens: 0,
            cases: 0,
            last: None,
            option: None,
        };
        loop {
            let here = self.lexer;
            let Some(token) = self.lexer.next() else { break };
            let is_top = at.parens == 0;
            match self.step(token, &mut at) {
                Step::Next(account) => at.account = account,
                Step::Skip => continue,
                Step::Before => {
                    self.lexer = here;
                    break;
                }
                Step::Removed => return,
            }
            at.last = Some(token);
            // Also for a list in parentheses.
            if is_top && !matches!(token.kind, Kind::Punct(b'=' | b'(')) {
                at.option = at.last;
            }
        }
        self.previous = None;
        if self.lexer.clone().next_code().is_none() {
            self.work.open_end |= self.is_open(at.last);
        }
    }

    /// What an unexpected token means in this statement.
    fn strictness(&self, unexpected: Unexpected) -> Unexpected {
        match unexpected {
            Unexpected::Token
                if self.in_data || !(self.in_assignments || self.verb == Verb::Accounts) =>
            {
                Unexpected::Value
            }
            _ if self.in_data || self.verb == Verb::Tables => Unexpected::Number,
            // It may be followed by another statement of a program, or by anything else.
            Unexpected::Rest
                if self.is_doubtful || !self.is_first || self.verb == Verb::Unknown =>
            {
                Unexpected::Token
            }
            _ => unexpected,
        }
    }

    fn step(&mut self, token: Token, at: &mut Strict) -> Step {
        let (last, is_top) = (at.last, at.parens == 0);
        let is_user = is_top && at.account == Account::No && self.is_user(last, token);
        let is_host = at.account == Account::At
            || (at.account == Account::Host && Self::is_punct(last, b'.'));
        match self.word_of(Some(token)).text() {
            "CASE" => at.cases += 1,
            "END" => at.cases = at.cases.saturating_sub(1),
            _ => {}
        }
        let may_end = at.is_expression && is_top && at.cases == 0 && !self.is_mixed;
        if may_end && self.ends_expression(token) {
            return Step::Before;
        }
        match token.kind {
            Kind::Comment => {
                self.take_comment(token);
                Step::Skip
            }
            Kind::Punct(b';') => Step::Before,
            Kind::Word | Kind::Name | Kind::Punct(b'@')
                if is_top && self.is_next_assignment(last, token) =>
            {
                Step::Before
            }
            Kind::Punct(byte) => Step::Next(at.punct(byte)),
            Kind::Marker => Step::Next(Account::No),
            _ if is_user && token.closed => {
                self.keep(token);
                Step::Next(Account::Name)
            }
            _ if is_host && token.closed && token.kind != Kind::Number && !self.is_mixed => {
                self.keep(token);
                Step::Next(Account::Host)
            }
            Kind::Word | Kind::Number => {
                if !self.is_harmless(token, at) && self.unexpected(token, &mut at.unexpected) {
                    return Step::Removed;
                }
                Step::Next(Account::No)
            }
            Kind::Text | Kind::Name => {
                self.quoted(token, at);
                Step::Next(Account::No)
            }
        }
    }

    /// Whether a word or a number cannot be a secret.
    fn is_harmless(&self, token: Token, at: &Strict) -> bool {
        self.is_plain_setting(at.last, at.option, token)
            || match token.kind {
                Kind::Word => self.is_expected(at.last, token),
                _ => words::has_plain_value(self.word_of(at.option).text()),
            }
    }

    /// Keeps a text or a quoted name, or removes it as a secret.
    fn quoted(&mut self, token: Token, at: &Strict) {
        let is_value = token.closed
            && !self.is_mixed
            && words::has_plain_value(self.word_of(at.option).text());
        let is_code = matches!(at.unexpected, Unexpected::Number | Unexpected::Value);
        let is_name = token.closed
            && (is_code && (token.kind == Kind::Name || Self::is_punct(at.last, b'@'))
                || token.kind == Kind::Name && self.is_function());
        if is_value || is_name || self.is_plugin(at.last, token) {
            self.keep(token);
        } else {
            self.secret(token);
        }
    }

    /// Whether a text that ends with `last` lacks the secret, or the end of it.
    fn is_open(&self, last: Option<Token>) -> bool {
        match last {
            None => true,
            Some(Token { closed: false, .. }) => true,
            Some(Token { kind: Kind::Punct(byte), .. }) => byte != b')',
            Some(Token { kind: Kind::Word, .. }) => matches!(
                self.word_of(last).text(),
                "BY" | "AS" | "USING" | "VIA" | "WITH" | "PASSWORD" | "REPLACE"
            ),
            Some(_) => false,
        }
    }

    /// Removes a word or number that the grammar does not have here. True if it has removed
    /// everything after it, too.
    fn unexpected(&mut self, token: Token, unexpected: &mut Unexpected) -> bool {
        let word = self.word_of(Some(token));
        // A subquery: its names must not be hidden.
        if words::starts_data_statement(word.text()) || words::names_tables(word.text()) {
            *unexpected = Unexpected::Number;
        }
        match unexpected {
            Unexpected::Rest => {
                self.cut(token.start);
                return true;
            }
            Unexpected::Token if self.is_function() => {}
            Unexpected::Token => self.secret(token),
            _ if token.kind == Kind::Number => self.secret(token),
            Unexpected::Number | Unexpected::Value => {}
        }
        false
    }

    /// Whether the word that was just read is the name of a function, or of its qualifier.
    fn is_function(&self) -> bool {
        let mut ahead = self.lexer;
        let mut next = ahead.next_code();
        if Self::is_punct(next, b'.') {
            ahead.next_code();
            next = ahead.next_code();
        }
        Self::is_punct(next, b'(')
    }

    /// Whether `token` follows an expression that is not in parentheses.
    fn ends_expression(&self, token: Token) -> bool {
        matches!(token.kind, Kind::Punct(b',' | b')'))
            || (self.in_data && words::ends_expression(self.word_of(Some(token)).text()))
    }

    /// Keeps a token, unless its value is a statement with a secret.
    fn keep(&mut self, token: Token) {
        if token.kind == Kind::Text {
            self.look_into(token);
        }
    }

    /// A password that begins with `#` or `--` and has no quotes is a comment.
    fn take_comment(&mut self, token: Token) {
        let (start, end) = token.body;
        let body = self.text[start..end].trim_ascii();
        if !body.is_empty() && body != super::lexer::SECRET && body != super::lexer::REDACTED {
            self.take(start, end, false);
        }
    }

    /// A further user of the same statement, or the one after FOR.
    fn is_user(&self, last: Option<Token>, token: Token) -> bool {
        if self.is_mixed || !matches!(token.kind, Kind::Text | Kind::Name | Kind::Word) {
            return false;
        }
        let next = self.peek();
        let follows = self.word_of(next);
        if Self::is_punct(last, b',') {
            Self::is_punct(next, b'@')
                || follows.text() == "IDENTIFIED"
                // A user without a password of its own. In quotes it may be a password.
                || self.names_accounts
                    && token.kind != Kind::Text
                    && (next.is_none_or(|next| matches!(next.kind, Kind::Punct(b',' | b';')))
                        || words::follows_user(follows.text()))
        } else if self.word_of(last).text() == "ROLE" {
            token.kind != Kind::Text || Self::is_punct(next, b'@')
        } else if self.word_of(last).text() == "FOR" {
            Self::is_punct(next, b'@') || Self::is_punct(next, b'=') || Self::is_punct(next, b':')
        } else {
            false
        }
    }

    /// `, name =`, `, GLOBAL name =` or `, @name =` in a SET.
    fn is_next_assignment(&self, last: Option<Token>, token: Token) -> bool {
        let is_variable = || {
            token.kind == Kind::Punct(b'@')
                || words::is_scope(self.word_of(Some(token)).text())
                || matches!(self.peek(), Some(Token { kind: Kind::Punct(b'=' | b':'), .. }))
        };
        self.in_assignments && !self.is_mixed && Self::is_punct(last, b',') && is_variable()
    }

    /// An option of CHANGE MASTER, or the value of one that is not secret.
    fn is_plain_setting(&self, last: Option<Token>, option: Option<Token>, token: Token) -> bool {
        let option = self.word_of(option);
        let option = option.text();
        self.verb == Verb::Replication
            && !self.is_mixed
            && if Self::is_punct(last, b',') && token.kind == Kind::Word {
                Self::is_punct(self.peek(), b'=')
            } else {
                !option.is_empty()
                    && !words::is_secret_name(option)
                    && last.is_some_and(|last| matches!(last.kind, Kind::Punct(b'=' | b'(' | b',')))
            }
    }

    /// A word that the grammar has here.
    fn is_expected(&self, last: Option<Token>, token: Token) -> bool {
        let word = self.word_of(Some(token));
        let word = word.text();
        let next = self.peek();
        words::is_expected(word)
            || self.is_plugin(last, token)
            || (words::is_plain_option(word) && Self::is_punct(next, b'='))
            || (words::is_plain_limit(word) && next.is_some_and(|next| next.kind == Kind::Number))
            || (word.starts_with('_')
                && next.is_some_and(|next| matches!(next.kind, Kind::Text | Kind::Marker)))
    }

    fn is_plugin(&self, last: Option<Token>, token: Token) -> bool {
        if !token.closed || !matches!(self.word_of(last).text(), "VIA" | "WITH" | "OR") {
            return false;
        }
        // Other names, without quotes, only if more of the grammar follows.
        let next = self.word_of(self.peek());
        let is_followed = matches!(next.text(), "USING" | "AS" | "BY" | "OR" | "AND" | "REQUIRE");
        words::is_plugin(self.name_of(Some(token)).text())
            || (token.kind == Kind::Word && is_followed)
    }
}
