//! The rules: which tokens of a statement are secrets.
//!
//! A statement is read token by token with a little memory of the preceding ones. Secrets occur in
//! two kinds of places: the arguments of certain functions, where literals are removed and names
//! are kept (here), and everything after a word like IDENTIFIED, where only known parts of the
//! grammar are kept (in [`super::strict`]).

use std::borrow::Cow;
use std::collections::{BTreeSet, TryReserveError};

use crate::grouping::Grouping;
use memchr::{memchr, memchr2};

use super::lexer::{Kind, Lexer, REDACTED, Reading, SECRET, Token, has_mixed_versions, unescape};
use super::parts::Parts;
use super::patch::{Patch, apply};
use super::strict::Unexpected;
use super::words::{self, Verb, Word};
use super::{Setting, TextOrigin, filter, url};

/// Depth of nested literals that are checked. Deeper ones are removed if they look suspicious.
const DEPTH_MAX: usize = 3;
/// Shortest text that can hold a secret: `KDF('x')`.
const SECRET_TEXT_BYTES_MIN: usize = 8;
/// How often each byte of a text may be read. Only crafted texts with many readings reach it.
const READS_PER_BYTE_MAX: usize = 16;
/// Maximum number of possible starts of statements kept at a time; each reading adds one.
const STARTS_MAX: usize = 1024;

/// The result of a pass over a text.
pub(super) enum Pass {
    /// No secret.
    Clean,
    /// The text without its secrets; everything is removed if there is not enough memory.
    Changed(Vec<u8>),
    /// The text is crafted to take too long, or to contain too many secrets.
    TooMuch,
}

/// One pass over `text`.
pub(super) fn pass(text: &[u8], grouping: Grouping, place: TextOrigin) -> Pass {
    let readings = Reading::all(text, grouping).len();
    let reads = READS_PER_BYTE_MAX.max(4 * readings);
    let budget = text.len().saturating_mul(reads).saturating_add(4096);
    let mut work = Work {
        grouping,
        in_mysql: place.in_mysql,
        is_part: place.is_part,
        budget,
        gave_up: false,
        is_too_much: false,
        open_end: false,
    };
    let patches = work.patches(text, 0);
    if work.gave_up {
        Pass::Changed(REDACTED.to_vec())
    } else if work.is_too_much {
        Pass::TooMuch
    } else if patches.is_empty() {
        Pass::Clean
    } else {
        Pass::Changed(apply(text, patches).unwrap_or_else(|_| REDACTED.to_vec()))
    }
}

/// State that all scans of one pass share.
pub(super) struct Work {
    pub(super) grouping: Grouping,
    /// The current database is `mysql`, or a USE has made it so.
    in_mysql: bool,
    /// The end of the text is missing.
    is_part: bool,
    /// The last checked literal ends where its secret begins, or within it.
    pub(super) open_end: bool,
    /// Remaining bytes that may be read.
    budget: usize,
    /// There was not enough memory: the findings may be incomplete.
    pub(super) gave_up: bool,
    /// There is more to read, or to remove, than in any text that is not crafted.
    is_too_much: bool,
}

/// Most ranges that are removed one by one: each takes as much memory as many bytes of the text.
const PATCHES_MAX: usize = 1 << 16;

impl Work {
    /// The secrets of `text`, which is nested in `depth` literals.
    fn patches(&mut self, text: &[u8], depth: usize) -> Vec<Patch> {
        let readings = Reading::all(text, self.grouping);
        let is_mixed = self.is_part || has_mixed_versions(text);
        let mut patches: Vec<Patch> = Vec::new();
        // Statements of one text may run under different modes, and the end of each depends on the
        // mode: from every position where some reading ends one, all readings continue.
        let mut starts = BTreeSet::from([0]);
        while let Some(start) = starts.pop_first() {
            for reading in &readings {
                let lexer = Lexer::new(text, start, *reading);
                let mut scan = Scan::new(self, text, lexer, *reading, depth, is_mixed);
                scan.is_doubtful = readings.len() > 1;
                scan.statement();
                let end = scan.lexer.position();
                let mut found = scan.patches;
                match patches.try_reserve(found.len() + 1) {
                    Ok(()) if patches.len() < PATCHES_MAX => patches.append(&mut found),
                    Ok(()) => self.is_too_much = true,
                    Err(_) => self.gave_up = true,
                }
                if end < text.len() {
                    starts.insert(end);
                }
                if self.gave_up {
                    return patches;
                }
                if !self.spend(end - start) || starts.len() > STARTS_MAX || self.is_too_much {
                    self.is_too_much |= depth == 0;
                    patches.push(Patch { start, end: text.len(), is_rest: true });
                    return patches;
                }
            }
        }
        patches
    }

    /// False if the budget does not permit reading so much.
    fn spend(&mut self, bytes: usize) -> bool {
        let left = self.budget.checked_sub(bytes + SECRET_TEXT_BYTES_MIN);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }

    /// True if the value of a literal, or a comment, contains a secret.
    fn hides(&mut self, value: &[u8], depth: usize) -> bool {
        self.open_end = false;
        if value.len() < SECRET_TEXT_BYTES_MIN {
            return false;
        }
        if url::has_password(value) {
            return true;
        }
        if !self.in_mysql && !filter::suspects(value) {
            return false;
        }
        depth >= DEPTH_MAX || !self.spend(value.len()) || !self.patches(value, depth + 1).is_empty()
    }
}

/// One reading of one statement.
pub(super) struct Scan<'w, 't> {
    pub(super) work: &'w mut Work,
    pub(super) text: &'t [u8],
    pub(super) lexer: Lexer<'t>,
    pub(super) patches: Vec<Patch>,
    reading: Reading,
    pub(super) depth: usize,
    /// Versioned comments may be executed or not one by one: keep no literal at all.
    pub(super) is_mixed: bool,
    /// There are other readings: the server may not see what this one finds.
    pub(super) is_doubtful: bool,
    /// A text with a secret is concatenated from literals of the statement.
    is_assembled: bool,
    /// The last two tokens that are not comments.
    pub(super) previous: Option<Token>,
    before: Option<Token>,
    /// A SELECT, INSERT, UPDATE … on tables, where `password = 'x'` is about a column.
    pub(super) in_data: bool,
    /// Number of open CASE expressions.
    cases: usize,
    /// After a SET that is not part of an UPDATE: `password = 'x'` is about the account.
    pub(super) in_assignments: bool,
    /// After SET STATEMENT, before its FOR.
    in_prefix: bool,
    /// The kind of statement.
    pub(super) verb: Verb,
    /// It is the first statement of the text, and not nested.
    pub(super) is_first: bool,
    /// The statement is about accounts.
    pub(super) names_accounts: bool,
    /// After the INTO of user variables.
    in_targets: bool,
    /// After DECLARE.
    declares: bool,
    writes: bool,
    names_secret_table: bool,
    names_secret_column: bool,
    /// `SELECT … INTO @pwd`.
    names_secret_target: bool,
    pub(super) parens: usize,
    /// Depth of parentheses outside of the function whose arguments are being read.
    function: Option<usize>,
    /// Literals and numbers from here on are part of dynamic SQL that cannot be analysed.
    dynamic_from: usize,
    /// Literals up to here were checked together with their neighbours.
    joined_to: usize,
    /// Where CONCAT and `||` concatenate literals.
    pub(super) parts: Parts,
}

impl<'w, 't> Scan<'w, 't> {
    fn new(
        work: &'w mut Work,
        text: &'t [u8],
        lexer: Lexer<'t>,
        reading: Reading,
        depth: usize,
        is_mixed: bool,
    ) -> Self {
        Scan {
            work,
            text,
            lexer,
            patches: Vec::new(),
            reading,
            depth,
            is_mixed,
            is_doubtful: false,
            is_assembled: false,
            previous: None,
            before: None,
            in_data: false,
            cases: 0,
            in_assignments: false,
            in_prefix: false,
            verb: Verb::Unknown,
            is_first: lexer.position() == 0,
            names_accounts: false,
            in_targets: false,
            declares: false,
            writes: false,
            names_secret_table: false,
            names_secret_column: false,
            names_secret_target: false,
            parens: 0,
            function: None,
            dynamic_from: usize::MAX,
            joined_to: 0,
            parts: Parts::default(),
        }
    }

    /// Reads up to and including the next `;`, or to the end.
    fn statement(&mut self) {
        let start = self.lexer;
        while let Some(token) = self.lexer.next() {
            match token.kind {
                Kind::Comment => {
                    self.comment(token);
                    continue;
                }
                Kind::Punct(b';') => break,
                Kind::Punct(b'(') => {
                    self.parens += 1;
                    let is_concat = self.name_of(self.previous).text() == "CONCAT";
                    self.parts.open(self.parens, is_concat);
                }
                Kind::Punct(b')') => {
                    self.parens = self.parens.saturating_sub(1);
                    self.function = self.function.filter(|outside| self.parens > *outside);
                }
                Kind::Punct(_) | Kind::Marker => {}
                Kind::Number => self.number(token),
                Kind::Text => self.literal(token),
                Kind::Name => self.name(token),
                Kind::Word => self.word(token),
            }
            self.before = self.previous;
            self.previous = Some(token);
        }
        self.work.open_end |= self.depth > 0 && self.function.is_some();
        if self.names_secret_column
            || self.names_secret_target
            || self.is_assembled
            || (self.names_secret_table && self.writes)
        {
            self.take_all(start, self.lexer.position());
        }
    }

    /// Every literal of the statement, also those before the word that revealed it.
    fn take_all(&mut self, mut lexer: Lexer<'t>, end: usize) {
        while let Some(token) = lexer.next_code().filter(|token| token.start < end) {
            if token.kind == Kind::Text || self.is_hex(token) {
                self.secret(token);
            }
        }
    }

    pub(super) fn secret(&mut self, token: Token) {
        self.take(token.start, token.end, false);
    }

    pub(super) fn take(&mut self, start: usize, end: usize, is_rest: bool) {
        match self.patches.try_reserve(1) {
            Ok(()) if self.patches.len() < PATCHES_MAX => {
                self.patches.push(Patch { start, end, is_rest });
            }
            Ok(()) => self.work.is_too_much = true,
            Err(_) => self.work.gave_up = true,
        }
    }

    /// Everything from `start` on may be a secret.
    pub(super) fn cut(&mut self, start: usize) {
        self.take(start, self.text.len(), true);
        while self.lexer.next().is_some() {}
    }

    /// The word at `token`, if it is one without quotes.
    pub(super) fn word_of(&self, token: Option<Token>) -> Word {
        match token {
            Some(Token { kind: Kind::Word, start, end, .. }) => Word::new(&self.text[start..end]),
            _ => Word::NONE,
        }
    }

    /// The word or quoted name at `token`. `"…"` is a name under ANSI_QUOTES.
    pub(super) fn name_of(&self, token: Option<Token>) -> Word {
        match token {
            Some(Token { kind: Kind::Word | Kind::Name | Kind::Text, body, .. }) => {
                Word::new(&self.text[body.0..body.1])
            }
            _ => Word::NONE,
        }
    }

    pub(super) fn is_punct(token: Option<Token>, byte: u8) -> bool {
        token.is_some_and(|token| token.kind == Kind::Punct(byte))
    }

    /// The next token that is not a comment, without consuming it.
    pub(super) fn peek(&self) -> Option<Token> {
        self.lexer.clone().next_code()
    }

    pub(super) fn is_hex(&self, token: Token) -> bool {
        token.kind == Kind::Number
            && self.text[token.start..token.end].get(1).is_some_and(u8::is_ascii_alphabetic)
    }

    /// A literal, or an introducer of one.
    pub(super) fn begins_literal(&self, token: Token) -> bool {
        token.kind == Kind::Text
            || self.is_hex(token)
            || (token.kind == Kind::Word && self.text[token.start] == b'_')
    }

    /// How many bits a digit of a literal has, if it is written in hexadecimal or binary digits.
    fn bits_of_digit(&self, token: Token) -> Option<u32> {
        let letter = match token.kind {
            Kind::Number => *self.text.get(token.start + 1)?,
            Kind::Text => self.text[token.start],
            _ => return None,
        };
        match letter {
            b'x' | b'X' => Some(4),
            b'b' | b'B' => Some(1),
            _ => None,
        }
    }

    fn comment(&mut self, token: Token) {
        let (start, end) = token.body;
        let body = &self.text[start..end];
        let is_part = self.work.is_part && self.depth == 0 && !body.is_empty() && body != SECRET;
        if is_part || self.work.hides(body, self.depth) {
            self.take(start, end, false);
        }
    }

    fn number(&mut self, token: Token) {
        let in_function = self.function.is_some() && self.depth == 0;
        let in_dynamic = token.start >= self.dynamic_from;
        if in_function || in_dynamic || (self.is_mixed && self.is_hex(token)) {
            self.secret(token);
        } else if self.bits_of_digit(token).is_some() {
            self.look_into(token);
        }
    }

    fn literal(&mut self, token: Token) {
        if self.function.is_some() || self.is_mixed || token.start >= self.dynamic_from {
            self.secret(token);
        } else {
            self.url_in_parts(token);
            self.look_into(token);
        }
        // A name under ANSI_QUOTES, or that of a user variable.
        if self.text[token.start] == b'"' || Self::is_punct(self.previous, b'@') {
            self.name(token);
        }
    }

    /// A literal whose value is a statement with a secret, or a part of one, is a secret. Adjacent
    /// literals are one literal.
    pub(super) fn look_into(&mut self, token: Token) {
        if token.start < self.joined_to {
            return;
        }
        let mut last = token;
        let Ok(value) = self.joined_value(token, &mut last) else {
            self.work.gave_up = true;
            return;
        };
        self.joined_to = last.end;
        if self.work.hides(&value, self.depth) {
            self.take(token.start, last.end, false);
        }
        // In `CONCAT('… IDENTIFIED BY ', …)` it is unknown which part is the secret.
        let is_bar = |token| Self::is_punct(token, b'|');
        let is_operand = self.parens > 0 || is_bar(self.previous) || is_bar(self.peek());
        self.is_assembled |= self.work.open_end && is_operand;
    }

    /// The value of a literal and those that follow it, up to and including `last`.
    fn joined_value(
        &self,
        token: Token,
        last: &mut Token,
    ) -> Result<Cow<'t, [u8]>, TryReserveError> {
        let mut value = self.value(token)?;
        let mut ahead = self.lexer;
        while let Some(next) = ahead.next_code().filter(|next| next.kind == Kind::Text) {
            value = Cow::Owned(appended(value, &self.value(next)?)?);
            *last = next;
        }
        Ok(value)
    }

    pub(super) fn value(&self, token: Token) -> Result<Cow<'t, [u8]>, TryReserveError> {
        let (start, end) = token.body;
        let body = &self.text[start..end];
        if let Some(bits) = self.bits_of_digit(token) {
            let digits = if token.kind == Kind::Number { body.get(2..) } else { Some(body) };
            return Ok(Cow::Owned(decode(digits.unwrap_or_default(), bits)?));
        }
        let quote = self.text[start - 1];
        let escapes = match quote {
            b'"' => self.reading.escapes_in_double,
            _ => self.reading.escapes,
        };
        let is_plain = match escapes {
            true => memchr2(quote, b'\\', body).is_none(),
            false => memchr(quote, body).is_none(),
        };
        if !is_plain {
            Ok(Cow::Owned(unescape(body, quote, escapes, self.reading.grouping)?))
        } else {
            Ok(Cow::Borrowed(body))
        }
    }

    /// A keyword, or a name without quotes.
    fn word(&mut self, token: Token) {
        let word = self.word_of(Some(token));
        let word = word.text();
        // After a point even a reserved word is a name, and after an @ it is a variable.
        if !Self::is_punct(self.previous, b'.') && !Self::is_punct(self.previous, b'@') {
            self.follow(word);
            let is_secret_next = match word {
                "IDENTIFIED" => self.is_identification(),
                "CHALLENGE_RESPONSE" | "MASTER_PASSWORD" | "SOURCE_PASSWORD" => self.is_option(),
                "PASSWORD" => self.is_password_clause(),
                _ => false,
            };
            if is_secret_next {
                self.strict(Unexpected::Rest);
                return;
            }
            match word {
                "CONNECTION" | "OPTION_LIST" => self.location(),
                "PREPARE" | "EXECUTE" => self.dynamic(word),
                _ => {}
            }
        }
        self.name(token);
    }

    /// Updates the kind of statement.
    fn follow(&mut self, word: &str) {
        if self.verb == Verb::Unknown {
            self.verb = self.verb_of(word);
        }
        self.declares |= word == "DECLARE";
        self.in_targets |= word == "INTO" && Self::is_punct(self.peek(), b'@');
        match word {
            "SET" if !self.in_data && !self.is_after("CHARACTER") => self.in_assignments = true,
            "STATEMENT" if self.is_after("SET") => self.in_prefix = true,
            "FOR" if self.in_prefix => {
                self.in_prefix = false;
                self.in_assignments = false;
                self.in_data = false;
                self.verb = Verb::Unknown;
            }
            "USE" if self.name_of(self.peek()).text() == "MYSQL" => self.work.in_mysql = true,
            // Anywhere else they may be names, after which a statement could be hidden.
            "USER" => {
                self.names_accounts |=
                    ["CREATE", "ALTER", "REPLACE"].iter().any(|it| self.is_after(it));
            }
            "GRANT" | "CLONE" => self.names_accounts |= self.verb == Verb::Accounts,
            "CASE" if self.in_data => self.cases += 1,
            "END" => self.cases = self.cases.saturating_sub(1),
            // After GRANT they are privileges.
            _ if words::starts_data_statement(word) && !self.names_accounts => {
                // CREATE OR REPLACE, ON UPDATE CASCADE, the functions INSERT() and REPLACE().
                let is_function =
                    matches!(word, "INSERT" | "REPLACE") && Self::is_punct(self.peek(), b'(');
                if !is_function && !self.is_after("OR") && !self.is_after("ON") {
                    self.in_data = true;
                    self.writes |= matches!(word, "INSERT" | "UPDATE" | "REPLACE");
                }
            }
            _ if words::starts_inner_statement(word)
                && self.cases == 0
                && !Self::is_punct(self.peek(), b'(') =>
            {
                self.in_data = false;
                self.is_first = false;
                let next = self.word_of(self.peek());
                let is_call = word == "DO" && words::verb(next.text(), "USER") == Verb::Unknown;
                self.verb = if is_call { Verb::Tables } else { Verb::Unknown };
            }
            _ => {}
        }
    }

    pub(super) fn is_after(&self, word: &str) -> bool {
        self.word_of(self.previous).text() == word
    }

    /// `PREPARE name FROM …`, `EXECUTE IMMEDIATE …`, `EXECUTE name USING …`: a literal is checked
    /// like any other; an expression could concatenate a statement from parts.
    fn dynamic(&mut self, word: &str) {
        let mut ahead = self.lexer;
        let first = ahead.next_code();
        let is_immediate = word == "EXECUTE" && self.word_of(first).text() == "IMMEDIATE";
        if !is_immediate {
            let second = ahead.next_code();
            match (word, self.word_of(second).text()) {
                ("PREPARE", "FROM") => {}
                ("EXECUTE", "USING") => {
                    self.dynamic_from = ahead.position();
                    return;
                }
                _ => return,
            }
        }
        let start = ahead.position();
        self.dynamic_from = loop {
            let position = ahead.position();
            match ahead.next_code() {
                None => break position,
                Some(token) if token.kind == Kind::Punct(b';') => break position,
                Some(token) if self.word_of(Some(token)).text() == "USING" => break position,
                Some(token) if token.kind == Kind::Marker => {}
                Some(token)
                    if self.bits_of_digit(token).is_none()
                        && (token.kind == Kind::Text
                            || position == start && self.begins_literal(token)) => {}
                Some(_) => break start,
            }
        };
    }

    /// A name, quoted or not: of a function, a variable, a column, a table.
    fn name(&mut self, token: Token) {
        let name = match token.kind {
            // A quoted name can have escapes.
            Kind::Text => match self.value(token) {
                Ok(value) => Word::new(&value),
                Err(_) => {
                    self.work.gave_up = true;
                    return;
                }
            },
            _ => self.name_of(Some(token)),
        };
        let name = name.text();
        if token.kind != Kind::Word && matches!(name, "CONNECTION" | "OPTION_LIST") {
            self.location();
        }
        if words::is_secret_function(name)
            && Self::is_punct(self.peek(), b'(')
            && !words::precedes_columns(self.word_of(self.previous).text())
        {
            self.function.get_or_insert(self.parens);
        }
        match name {
            "GLOBAL_PRIV" => self.names_secret_table = true,
            "AUTHENTICATION_STRING" => self.names_secret_column = true,
            _ if words::is_secret_table(name) => {
                let is_qualified = Self::is_punct(self.previous, b'.');
                self.names_secret_table |= match self.qualifier().text() {
                    "MYSQL" => true,
                    _ => self.work.in_mysql && !is_qualified,
                };
            }
            _ => {}
        }
        // `SELECT 'x' INTO @pwd`, `DECLARE pwd TEXT DEFAULT 'x'`: which of several values the
        // variable gets is unknown here.
        let is_target = self.in_targets && Self::is_punct(self.previous, b'@');
        self.names_secret_target |= (is_target || self.declares) && words::is_secret_name(name);
        if words::is_secret_name(name)
            && (self.is_assigned() || self.is_quoted_option(token))
            && !matches!(self.qualifier().text(), "NEW" | "OLD")
        {
            self.strict(Unexpected::Token);
        }
    }

    /// ``OPTIONS (`PASSWORD` 'x')``.
    fn is_quoted_option(&self, token: Token) -> bool {
        let is_name = token.kind == Kind::Name || self.text[token.start] == b'"';
        is_name && !self.in_data && self.peek().is_some_and(|next| self.begins_literal(next))
    }

    /// The name before the point before this token.
    fn qualifier(&self) -> Word {
        self.name_of(self.before.filter(|_| Self::is_punct(self.previous, b'.')))
    }

    /// `:=` always assigns; `=` compares or names a column in statements on tables.
    fn is_assigned(&self) -> bool {
        let next = self.peek();
        if Self::is_punct(next, b':') {
            let mut ahead = self.lexer;
            ahead.next_code();
            return Self::is_punct(ahead.next_code(), b'=');
        }
        Self::is_punct(next, b'=') && (self.in_assignments || !self.in_data)
    }
}

/// Concatenates two parts.
pub(super) fn appended(first: Cow<'_, [u8]>, more: &[u8]) -> Result<Vec<u8>, TryReserveError> {
    let mut joined = match first {
        Cow::Owned(joined) => joined,
        Cow::Borrowed(first) => {
            let mut joined = Vec::new();
            joined.try_reserve(first.len() + more.len())?;
            joined.extend_from_slice(first);
            joined
        }
    };
    joined.try_reserve(more.len())?;
    joined.extend_from_slice(more);
    Ok(joined)
}

/// The bytes that digits of this many bits stand for.
fn decode(digits: &[u8], bits: u32) -> Result<Vec<u8>, TryReserveError> {
    let per_byte = (8 / bits) as usize;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(digits.len() / per_byte + 1)?;
    // The first byte may have fewer digits than the others.
    let (first, rest) = digits.split_at(digits.len() % per_byte);
    for digits in [first].into_iter().filter(|first| !first.is_empty()).chain(rest.chunks(per_byte))
    {
        let value = digits.iter().fold(0_u32, |value, digit| {
            let digit = char::from(*digit).to_digit(16).unwrap_or(0);
            (value << bits | digit) & 0xFF
        });
        bytes.push(value as u8);
    }
    Ok(bytes)
}

/// Whether a statement that prepares a text shows it: in each reading a literal follows FROM or
/// IMMEDIATE.
pub fn shows_prepared(sql: &[u8], setting: Setting) -> bool {
    let readings = Reading::all(sql, setting.mode.grouping);
    readings.into_iter().all(|reading| {
        let mut lexer = Lexer::new(sql, 0, reading);
        while let Some(token) = lexer.next_code() {
            let word = Word::new(&sql[token.start..token.end]);
            if token.kind == Kind::Word && matches!(word.text(), "FROM" | "IMMEDIATE") {
                return lexer.next_code().is_some_and(|next| next.kind == Kind::Text);
            }
        }
        false
    })
}
