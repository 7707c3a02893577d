//! The meaning of a token for those after it: all that folding uses.

/// See the module documentation. The order is that of [`Kind::starts_expression`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// `?`
    Value,
    /// `?, ...`
    Values,
    /// `(?)`
    Row,
    /// `(?) /* , ... */`
    Rows,
    /// `(...)`
    Tuple,
    /// `(...) /* , ... */`
    Tuples,
    Semicolon,
    /// Tokens that no rule uses, including keywords.
    Other,
    Comma,
    Open,
    Sign,
    /// An operator that is not a sign.
    Operator,
    /// A keyword after which an expression begins.
    Expression,
    /// The keyword NOT: after it an expression begins, but NULL is not a value.
    Not,
}

impl Kind {
    /// Whether an expression follows: a sign there is not an operator between two.
    #[inline]
    pub(crate) fn starts_expression(self) -> bool {
        self as u8 >= Kind::Comma as u8
    }

    /// The kind of a keyword, by its text where no parenthesis follows.
    pub(crate) const fn of_keyword(text: &[u8]) -> Kind {
        match text {
            b"NOT" => Kind::Not,
            b"ALL" | b"AND" | b"AT" | b"BETWEEN" | b"BY" | b"CASE" | b"DEFAULT"
            | b"DISTINCTROW" | b"DIV" | b"ELSE" | b"ELSEIF" | b"ENDS" | b"EVERY" | b"FOR"
            | b"FROM" | b"HAVING" | b"IF" | b"INTERVAL" | b"LIKE" | b"LIMIT" | b"MOD"
            | b"OFFSET" | b"ON" | b"OR" | b"RETURN" | b"RLIKE" | b"SELECT" | b"STARTS"
            | b"THEN" | b"UNTIL" | b"USING" | b"WHEN" | b"WHERE" | b"WHILE" | b"XOR" => {
                Kind::Expression
            }
            _ => Kind::Other,
        }
    }

    /// The kind of a token of one byte, except `)`.
    #[inline]
    pub(crate) fn of_byte(byte: u8) -> Kind {
        static KINDS: [Kind; 256] = {
            let mut kinds = [Kind::Other; 256];
            kinds[b',' as usize] = Kind::Comma;
            kinds[b'(' as usize] = Kind::Open;
            kinds[b';' as usize] = Kind::Semicolon;
            let signs = b"+-";
            let mut index = 0;
            while index < signs.len() {
                kinds[signs[index] as usize] = Kind::Sign;
                index += 1;
            }
            let operators = b"=<>*/%|&^!~";
            let mut index = 0;
            while index < operators.len() {
                kinds[operators[index] as usize] = Kind::Operator;
                index += 1;
            }
            kinds
        };
        KINDS[usize::from(byte)]
    }
}
