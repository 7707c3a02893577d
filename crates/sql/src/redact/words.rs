//! The words that the rules of [`super::scan`] know, in upper case.

/// A word in upper case, on the stack. The server's names have at most 64 characters.
#[derive(Clone, Copy)]
pub(super) struct Word {
    letters: [u8; 64],
    length: usize,
}

impl Word {
    /// Not a word: equal to no element of any list.
    pub(super) const NONE: Word = Word { letters: [0; 64], length: 0 };

    pub(super) fn new(text: &[u8]) -> Word {
        let mut word = Word::NONE;
        if let Some(letters) = word.letters.get_mut(..text.len()) {
            letters.copy_from_slice(text);
            letters.make_ascii_uppercase();
            word.length = text.len();
        }
        word
    }

    pub(super) fn text(&self) -> &str {
        // Text beyond ASCII is in none of the lists.
        str::from_utf8(&self.letters[..self.length]).unwrap_or_default()
    }
}

/// Functions that take a password or a key.
pub(super) fn is_secret_function(name: &str) -> bool {
    matches!(
        name,
        "ENCODE"
            | "DECODE"
            | "KDF"
            | "KEYRING_KEY_STORE"
            | "VALIDATE_PASSWORD_STRENGTH"
            | "AUDIT_LOG_ENCRYPTION_PASSWORD_SET"
    ) || name.ends_with("PASSWORD")
        || name.ends_with("ENCRYPT")
        || name.ends_with("DECRYPT")
        || name.contains("ASYMMETRIC")
}

/// Words after which a name and `(` begin a list of columns, not of arguments.
pub(super) fn precedes_columns(word: &str) -> bool {
    matches!(
        word,
        "TABLE" | "INTO" | "EXISTS" | "KEY" | "INDEX" | "UNIQUE" | "REFERENCES" | "CONSTRAINT"
    )
}

/// Variables and options whose value is a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    name.ends_with("PASSWORD")
        || name.ends_with("PASSWD")
        || name.ends_with("PASSPHRASE")
        || name.ends_with("PWD")
        || name.ends_with("SECRET")
        || name.ends_with("SECRET_KEY")
        || name.ends_with("SECRET_HEADERS")
        || name.ends_with("SST_AUTH")
        || name.ends_with("FILEKEY")
        || name.ends_with("MANAGEMENT_TOKEN")
        || (name.starts_with("TACHO_") && name.contains("KEY"))
}

/// Tables of the `mysql` schema that hold passwords, or their hashes.
pub(super) fn is_secret_table(name: &str) -> bool {
    matches!(name, "USER" | "GLOBAL_PRIV" | "SERVERS" | "SLAVE_MASTER_INFO" | "PASSWORD_HISTORY")
        // Spider's tables have the passwords of other servers.
        || name.starts_with("SPIDER_")
}

/// Words that begin an ordinary statement on tables, where a column may well be called
/// `password`.
pub(super) fn starts_data_statement(word: &str) -> bool {
    matches!(word, "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD")
}

/// The kind of statement that a word begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// None of the words below begins it, or it is not known yet.
    Unknown,
    /// It has passwords, and few names: accounts, settings, servers.
    Accounts,
    /// CHANGE MASTER and CHANGE REPLICATION SOURCE.
    Replication,
    /// It is about tables and other objects. Its names must not be hidden.
    Tables,
}

/// `object` is the word after CREATE or ALTER.
pub(super) fn verb(word: &str, object: &str) -> Verb {
    match word {
        "CREATE" | "ALTER" if matches!(object, "USER" | "ROLE" | "SERVER") => Verb::Accounts,
        "GRANT" | "SET" | "START" | "CLONE" => Verb::Accounts,
        "CHANGE" => Verb::Replication,
        "ANALYZE" | "BINLOG" | "CACHE" | "CALL" | "CHECK" | "CHECKSUM" | "CLOSE" | "DECLARE"
        | "DESC" | "DESCRIBE" | "DROP" | "EXPLAIN" | "FETCH" | "FLUSH" | "GET" | "HANDLER"
        | "HELP" | "IMPORT" | "INSTALL" | "KILL" | "LOCK" | "OPEN" | "OPTIMIZE" | "PURGE"
        | "RENAME" | "REPAIR" | "RESET" | "RETURN" | "REVOKE" | "SHOW" | "TRUNCATE"
        | "UNINSTALL" | "USE" | "VALUES" | "XA" => Verb::Tables,
        "DO" => Verb::Tables,
        _ if starts_data_statement(word) => Verb::Tables,
        _ => Verb::Unknown,
    }
}

/// Words of statements about tables that may occur after their beginning.
pub(super) fn names_tables(word: &str) -> bool {
    matches!(word, "TABLE" | "TABLES" | "VIEW" | "INDEX")
}

/// Words after an expression of a statement on tables.
pub(super) fn ends_expression(word: &str) -> bool {
    matches!(
        word,
        "FROM"
            | "WHERE"
            | "INTO"
            | "UNION"
            | "EXCEPT"
            | "INTERSECT"
            | "GROUP"
            | "HAVING"
            | "ORDER"
            | "LIMIT"
            | "AS"
            | "ON"
            | "THEN"
            | "ELSE"
            | "WHEN"
    )
}

/// Words after which another statement begins inside the body of a stored program.
pub(super) fn starts_inner_statement(word: &str) -> bool {
    matches!(word, "ROW" | "DO" | "BEGIN" | "THEN" | "ELSE" | "LOOP" | "REPEAT")
}

/// Authentication plugins.
pub(super) fn is_plugin(name: &str) -> bool {
    matches!(
        name,
        "MYSQL_NATIVE_PASSWORD"
            | "MYSQL_OLD_PASSWORD"
            | "ED25519"
            | "PARSEC"
            | "UNIX_SOCKET"
            | "AUTH_SOCKET"
            | "SOCKET_PEERCRED"
            | "NAMED_PIPE"
            | "GSSAPI"
            | "PAM"
            | "DIALOG"
            | "CACHING_SHA2_PASSWORD"
            | "SHA256_PASSWORD"
            | "MYSQL_NO_LOGIN"
    ) || name.starts_with("AUTHENTICATION_")
}

/// Options whose value is worth reading and is not a secret.
pub(super) fn has_plain_value(word: &str) -> bool {
    matches!(
        word,
        "ISSUER"
            | "SUBJECT"
            | "CIPHER"
            | "COMMENT"
            | "ATTRIBUTE"
            | "CHANNEL"
            | "HOST"
            | "DATABASE"
            | "USER"
            | "SOCKET"
            | "OWNER"
            | "PORT"
            | "PLUGIN_DIR"
            | "DEFAULT_AUTH"
            | "INTERVAL"
            | "HISTORY"
            | "FAILED_LOGIN_ATTEMPTS"
            | "PASSWORD_LOCK_TIME"
            | "ADD"
            | "MODIFY"
            | "DROP"
            | "NETWORK_NAMESPACE"
            | "PRIVILEGE_CHECKS_USER"
    ) || is_plain_limit(word)
        || is_plain_option(word)
}

/// Limits, followed by a number.
pub(super) fn is_plain_limit(word: &str) -> bool {
    word.starts_with("MAX_")
}

/// The scope of a variable that is set.
pub(super) fn is_scope(word: &str) -> bool {
    matches!(word, "GLOBAL" | "SESSION" | "LOCAL" | "PERSIST" | "PERSIST_ONLY")
}

/// Words that may follow a user of a list.
pub(super) fn follows_user(word: &str) -> bool {
    matches!(
        word,
        "REQUIRE"
            | "WITH"
            | "PASSWORD"
            | "ACCOUNT"
            | "COMMENT"
            | "ATTRIBUTE"
            | "DEFAULT"
            | "FAILED_LOGIN_ATTEMPTS"
    )
}

/// Options of replication that are not secrets, followed by `=`.
pub(super) fn is_plain_option(word: &str) -> bool {
    ["MASTER_", "SOURCE_", "RELAY_LOG_", "IGNORE_", "DO_"].iter().any(|set| word.starts_with(set))
        && !is_secret_name(word)
}

/// Words that the grammar has after the first secret of a statement. Any other word may be an
/// unquoted password.
pub(super) fn is_expected(word: &str) -> bool {
    matches!(
        word,
        "BY" | "AS"
            | "VIA"
            | "WITH"
            | "USING"
            | "OR"
            | "AND"
            | "FOR"
            | "TO"
            | "SET"
            | "ON"
            | "OFF"
            | "NULL"
            | "NONE"
            | "DEFAULT"
            | "END"
            | "IDENTIFIED"
            | "PASSWORD"
            | "OLD_PASSWORD"
            | "RANDOM"
            | "REPLACE"
            | "RETAIN"
            | "CURRENT"
            | "DISCARD"
            | "OLD"
            | "INITIATE"
            | "FINISH"
            | "REGISTRATION"
            | "INITIAL"
            | "AUTHENTICATION"
            | "CHALLENGE_RESPONSE"
            | "FACTOR"
            | "UNREGISTER"
            | "REQUIRE"
            | "SSL"
            | "X509"
            | "GRANT"
            | "OPTION"
            | "OPTIONS"
            | "ADMIN"
            | "ROLE"
            | "EXPIRE"
            | "NEVER"
            | "DAY"
            | "REUSE"
            | "OPTIONAL"
            | "UNBOUNDED"
            | "ACCOUNT"
            | "LOCK"
            | "UNLOCK"
            | "UNTIL"
            | "CURRENT_USER"
            | "SQL_BEFORE_GTIDS"
            | "SQL_AFTER_GTIDS"
            | "CONCAT"
            | "UNHEX"
            | "MASTER_PASSWORD"
            | "SOURCE_PASSWORD"
            | "ISSUER"
            | "SUBJECT"
            | "CIPHER"
            | "COMMENT"
            | "ATTRIBUTE"
            | "CHANNEL"
            | "HOST"
            | "DATABASE"
            | "USER"
            | "SOCKET"
            | "OWNER"
            | "PORT"
            | "PLUGIN_DIR"
            | "DEFAULT_AUTH"
            | "INTERVAL"
            | "HISTORY"
            | "FAILED_LOGIN_ATTEMPTS"
            | "PASSWORD_LOCK_TIME"
            | "ADD"
            | "MODIFY"
            | "DROP"
    )
}
