//! Words, quoted texts and brackets.

use crate::{SearchError, TEXT_BYTES_MAX};

/// A piece of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Number of characters before it.
    pub position: usize,
    /// Number of its characters.
    pub length: usize,
    /// Whether there is no blank before it.
    pub is_joined: bool,
}

/// Kinds of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// `(`
    Open,
    /// `)`
    Close,
    /// `-` in front of something.
    Minus,
    /// `name:`, as it is written.
    Field(String),
    /// A text in quotes, without them.
    Quoted(String),
    /// Anything else up to a blank or bracket.
    Word(String),
}

impl TokenKind {
    /// What a message calls it.
    pub fn describe(&self) -> String {
        match self {
            Self::Open => "\"(\"".to_owned(),
            Self::Close => "\")\"".to_owned(),
            Self::Minus => "\"-\"".to_owned(),
            Self::Field(name) => format!("{name}:"),
            Self::Quoted(text) | Self::Word(text) => format!("{text:?}"),
        }
    }
}

struct Lexer<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    position: usize,
    tokens: Vec<Token>,
}

/// Splits a text.
///
/// # Errors
/// If it is too long, a quote is not closed, or it has a zero byte.
pub fn tokens(text: &str) -> Result<Vec<Token>, SearchError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(SearchError {
            message: format!("the search has more than {TEXT_BYTES_MAX} bytes"),
            expected: String::new(),
            position: 0,
            length: text.chars().count(),
        });
    }
    if let Some(position) = text.chars().position(|c| c == '\0') {
        return Err(SearchError {
            message: "the search has a zero byte".to_owned(),
            expected: String::new(),
            position,
            length: 1,
        });
    }
    let mut lexer = Lexer { chars: text.chars().peekable(), position: 0, tokens: Vec::new() };
    let mut is_joined = false;
    while let Some(&next) = lexer.chars.peek() {
        if next.is_whitespace() {
            lexer.bump();
            is_joined = false;
            continue;
        }
        let position = lexer.position;
        let kind = lexer.token(next, position, is_joined)?;
        let length = lexer.position - position;
        lexer.tokens.push(Token { kind, position, length, is_joined });
        is_joined = true;
    }
    Ok(lexer.tokens)
}

impl Lexer<'_> {
    fn bump(&mut self) -> Option<char> {
        let next = self.chars.next();
        self.position += usize::from(next.is_some());
        next
    }

    fn token(
        &mut self,
        next: char,
        position: usize,
        is_joined: bool,
    ) -> Result<TokenKind, SearchError> {
        let is_value = is_joined
            && matches!(self.tokens.last(), Some(Token { kind: TokenKind::Field(_), .. }));
        Ok(match next {
            '(' => {
                self.bump();
                TokenKind::Open
            }
            ')' => {
                self.bump();
                TokenKind::Close
            }
            '"' => TokenKind::Quoted(self.quoted(position)?),
            // A negative number, or a pattern that begins with it, is a value.
            '-' if !is_value => {
                self.bump();
                TokenKind::Minus
            }
            _ => self.word(is_value),
        })
    }

    fn quoted(&mut self, position: usize) -> Result<String, SearchError> {
        self.bump();
        let mut text = String::new();
        while let Some(next) = self.bump() {
            match next {
                '"' => return Ok(text),
                '\\' => match self.bump() {
                    // A backslash before anything else is one.
                    Some(escaped @ ('"' | '\\')) => text.push(escaped),
                    Some(other) => text.extend(['\\', other]),
                    None => text.push('\\'),
                },
                other => text.push(other),
            }
        }
        Err(SearchError {
            message: "the quotation mark is not closed".to_owned(),
            expected: "\"".to_owned(),
            position,
            length: self.position - position,
        })
    }

    /// `is_value`: it belongs to the field before it, so a colon is part of it.
    fn word(&mut self, is_value: bool) -> TokenKind {
        let mut text = String::new();
        while let Some(&next) = self.chars.peek() {
            match next {
                '(' | ')' | '"' => break,
                blank if blank.is_whitespace() => break,
                ':' if !is_value && is_name(&text) => {
                    self.bump();
                    return TokenKind::Field(text);
                }
                other => {
                    text.push(other);
                    self.bump();
                }
            }
        }
        TokenKind::Word(text)
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn a_text_is_split() {
        use TokenKind::*;
        let word = |text: &str| Word(text.to_owned());
        let field = |text: &str| Field(text.to_owned());
        assert_eq!(
            kinds(r#"user:a-b -(x:"a \"b\" \n") 10.0.0.1:3306 time:-5 ip:::1"#),
            [
                field("user"),
                word("a-b"),
                Minus,
                Open,
                field("x"),
                Quoted(r#"a "b" \n"#.to_owned()),
                Close,
                word("10.0.0.1:3306"),
                field("time"),
                word("-5"),
                field("ip"),
                word("::1")
            ]
        );
        let error = tokens("ä \"x").unwrap_err();
        assert_eq!((error.position, error.length), (2, 2));
    }
}
