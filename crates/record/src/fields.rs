//! The fields of a line, in its order: the one table from which everything about fields is derived.
//!
//! | derived | where |
//! |---|---|
//! | [`Record`](crate::Record), borrowed; [`Record::value`](crate::Record::value) | `record.rs` |
//! | [`OwnedRecord`](crate::OwnedRecord), and the conversions between the two | `owned.rs` |
//! | [`Line`](crate::Line), the parsed line of a file | `line.rs` |
//! | the JSON of a line, and its upper bound in bytes | `json.rs`, `json/size_bound.rs` |
//! | the table in `docs/specs/record.md`, and `docs/specs/record.schema.json` | `tests/specification.rs` |
//!
//! A field is `key => field: Kind, what it is, when it is present, source of the value`. `key` is
//! its name in a line, `field` its name in Rust, which includes the unit. Each of the files above
//! defines its own meaning of a [`Kind`]. One function writes the fields of a group.
//!
//! Other output formats define the position of each field in a `match` over [`Field`], so that the
//! compiler reports a new field that has none.

/// Calls a macro with the table.
macro_rules! fields {
    ($then:ident) => {
        $then! {
            head {
                seq => seq: Seq,
                    "1, 2, 3 … without a gap, over all files of a log directory",
                    "always", "recorder";
                ts => ts_us: Instant,
                    "when it happened",
                    "always", "server clock";
                event => event: Event,
                    "`connect`, `disconnect`, `change_user`, `connect_failed`, `statement`, `table`, `lost`, `start`, `stop`, `config`, `notice`",
                    "always", "recorder";
                outcome => outcome: Outcome,
                    "`ok`, `error`, `running`, `interrupted`",
                    "events that have an outcome", "server; recovery";
            }
            session {
                run => run: Number,
                    "`seq` of the `start` line of the recorder: see [Identity](#identity)",
                    "always, except in `lost` lines with the cause `arena_gone`", "recorder";
                conn => conn: Number,
                    "connection id, as in `SHOW PROCESSLIST`",
                    "events of a connection", "server";
                conn_seq => conn_seq: Number,
                    "number of the event within its connection: 1, 2, 3 …",
                    "events of a connection", "recorder";
                query_id => query_id: Number,
                    "the server's query id",
                    "statements", "server";
            }
            identity {
                user => user: Name,
                    "user name that the client gave",
                    "when known", "server";
                priv_user => priv_user: Name,
                    "user part of the account that the privileges come from",
                    "when known", "server";
                proxy_user => proxy_user: Name,
                    "proxy user, as `'name'@'host'`",
                    "`connect`, `disconnect`, if any", "server";
                os_user => os_user: Name,
                    "operating-system or external user",
                    "`connect`, `disconnect`, if any", "server";
                host => host: Name,
                    "client host name",
                    "if the server resolved one", "server";
                ip => ip: Name,
                    "client address",
                    "connections over TCP", "server";
                port => port: Port,
                    "client port",
                    "if reported", "server";
                db => db: Name,
                    "default database when the event began",
                    "if any", "server";
                command => command: Name,
                    "client command in the server's words: `Query`, `Execute`, `Init DB` …",
                    "statements", "server";
                source => source: Name,
                    "`capture`: recorded from network packets ([capture.md](capture.md))",
                    "lines of `tacho capture` about a connection", "recorder";
                server_addr => server_addr: Name,
                    "address and port of the server",
                    "as `source`", "packets";
                session => session: Name,
                    "`partial`: the capture has not seen all of the session",
                    "sessions that were joined in their middle, or have a gap", "recorder";
            }
            sql_command {
                sql_command => sql_command: Name,
                    "the server's own class of the statement: `select`, `create_table` …",
                    "if reported", "server";
            }
            failure {
                errno => errno: Errno,
                    "server error number",
                    "errors", "server";
                sqlstate => sqlstate: Name,
                    "SQLSTATE, five characters",
                    "errors, if reported", "server";
                error => error: Message,
                    "error message",
                    "errors, if reported", "server";
                blocked_by => blocked_by: Name,
                    "name of the filter rule that blocked the statement",
                    "blocked statements ([filter.md](filter.md#what-is-blocked))", "recorder";
            }
            text {
                sql => sql: Statement,
                    "text of the statement, after redaction",
                    "lines that carry the text", "client";
                sql_bytes => sql_bytes: Number,
                    "bytes; length of the original text in its own character set",
                    "when `sql` is cut or missing: see [Text](#text)", "recorder";
                sql_redacted => sql_redacted: Flag,
                    "secrets or literals were removed from `sql`",
                    "when they were", "recorder";
                sql_charset => sql_charset: CharsetName,
                    "the server's name of the character set of `sql`",
                    "with `sql`", "server";
                digest => digest: Digest,
                    "version and hash of the statement without its literals ([digest.md](digest.md))",
                    "lines with the `sql` of a statement, see below", "recorder";
            }
            execution {
                rewrite_rule => rewrite_rule: Number,
                    "id of the rule that rewrote the statement before it was parsed",
                    "rewritten statements ([rewrite.md](rewrite.md))", "recorder";
                rewritten_query => rewritten_query: Statement,
                    "what was parsed instead of `sql`",
                    "with `rewrite_rule`, if the line has the text", "recorder";
                tables => tables: Tables,
                    "tables used, in the order of first use; see below",
                    "if reported", "server";
            }
            params {
                params => params: Params,
                    "values of parameters, in their order: see [Parameters](#parameters)",
                    "executions of prepared statements in a capture, if known", "client";
                params_bytes => params_bytes: Number,
                    "bytes; length of all values as they were sent",
                    "when `params` is cut", "recorder";
            }
            cost {
                rows_sent => rows_sent: Number,
                    "rows sent to the client",
                    "ended statements, if reported", "server";
                rows_examined => rows_examined: Number,
                    "rows read by the server",
                    "ended statements, if reported", "server";
                rows_affected => rows_affected: Number,
                    "rows changed, inserted or deleted",
                    "ended statements, if reported", "server";
                query_time_us => query_time_us: Number,
                    "µs from the start of the statement to its end",
                    "ended statements", "server clock";
                lock_time_us => lock_time_us: Number,
                    "µs spent waiting for table locks",
                    "ended statements, if reported", "server";
            }
            answer {
                first_byte_us => first_byte_us: Number,
                    "µs from the start of the statement to the first byte of the answer",
                    "commands with an answer in a capture", "packets";
                bytes_sent => bytes_sent: Number,
                    "bytes; what the server sent as the answer: see [Answers](#answers)",
                    "commands with an answer in a capture", "packets";
                warnings => warnings: Number,
                    "number of warnings, as `SHOW WARNINGS` would show",
                    "ended statements in a capture, if not 0", "server";
                last_insert_id => last_insert_id: Number,
                    "value of an `AUTO_INCREMENT` column, or of `LAST_INSERT_ID(expr)`",
                    "ended statements in a capture, if not 0", "server";
                info => info: Message,
                    "the server's text about the statement, such as the rows that it matched",
                    "ended statements in a capture, if any", "server";
            }
            recorder {
                start_ts => start_ts_us: Time,
                    "start of the range of a `lost` line",
                    "`lost`", "recorder";
                running_seq => running_seq: Number,
                    "`seq` of the `running` line that this line completes",
                    "completing lines", "recorder";
                count => count: Number,
                    "records lost",
                    "`lost`, if known", "recorder";
                cause => cause: Name,
                    "`timeout`, `dropped`, `corrupt`, `killed`, `arena_gone`; of a capture see [capture.md](capture.md#gaps)",
                    "`lost`", "recorder";
                lost_bytes => lost_bytes: Number,
                    "bytes of a connection that the capture has not seen or not understood",
                    "`lost` of a capture, if known", "recorder";
                lost_packets => lost_packets: Number,
                    "packets, or pieces of decrypted data, that the kernel had no space for",
                    "`lost` of a capture with the cause `kernel` or `uprobes`", "recorder";
                server => server: Name,
                    "server and version",
                    "`start`", "server";
                signing_key => signing_key: Name,
                    "public key that verifies the log ([chain.md](chain.md))",
                    "`start`, if the log is sealed", "recorder";
                program => program: Name,
                    "program name from the connection attributes",
                    "if reported", "client";
                client_version => client_version: Name,
                    "name and version of the client's library, from the connection attributes",
                    "`connect` of a capture, if reported", "client";
                tls => tls: Name,
                    "TLS version of the session",
                    "if reported", "server";
                variable => variable: Name,
                    "name of the changed variable, or a special name: see below",
                    "`config`", "server; recorder";
                old_value => old_value: Message,
                    "its value before",
                    "`config`", "server";
                new_value => new_value: Message,
                    "its value after",
                    "`config`", "server";
            }
            notice {
                class => class: Word,
                    "`authentication`, `global_variable`, `lifecycle`, `message`, `stored_program`",
                    "`notice`", "server";
                action => action: Word,
                    "what has happened, see [Notices](#notices)",
                    "`notice`", "server";
                object => object: Name,
                    "what it is about, see [Notices](#notices)",
                    "`notice`, if any", "server";
                producer => producer: Name,
                    "part of the component that sends a message",
                    "`notice` of the class `message`", "client, server";
                detail => detail: Message,
                    "the value, the message, the arguments",
                    "`notice`, if any", "client, server";
                detail_bytes => detail_bytes: Number,
                    "bytes; original length of `detail` and `attributes`",
                    "when they are cut", "recorder";
                attributes => attributes: Attributes,
                    "further attributes of a message, in its order: objects with `key` and `value` (texts)",
                    "`notice` of the class `message`, lines of a hub, if any", "client, server";
            }
        }
    };
}
pub(crate) use fields;

/// The kind of a field: how it is stored, written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Number of the line; always present.
    Seq,
    /// µs since 1970-01-01 UTC; always present.
    Instant,
    /// The subject of the line; always present.
    Event,
    /// The outcome.
    Outcome,
    /// A number.
    Number,
    /// A number below 65,536.
    Port,
    /// A number below 4,294,967,296; 0 is omitted.
    Errno,
    /// True, or omitted.
    Flag,
    /// UTF-8, no longer than a name; omitted if empty.
    Name,
    /// The same, from a fixed list.
    Word,
    /// UTF-8 of any length; omitted if empty.
    Message,
    /// SQL of any length, in the character set `sql_charset`; an empty text is written.
    Statement,
    /// The server's name of the character set of [`Kind::Statement`] fields.
    CharsetName,
    /// A written digest: version, a colon, digits.
    Digest,
    /// Tables in the order of their first use; omitted if there are none.
    Tables,
    /// µs since 1970-01-01 UTC.
    Time,
    /// Keys and values in their original order; omitted if there are none.
    Attributes,
    /// An array of JSON, as its text; omitted if empty.
    Params,
}

macro_rules! field_enum {
    ($($group:ident { $($key:ident => $field:ident: $kind:ident,
        $what:literal, $present:literal, $source:literal;)* })*) => {
        /// A field of a line, by its name there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, reason = "macros by example cannot change a name")]
        pub enum Field {
            $($(#[doc = $what] $key,)*)*
        }

        impl Field {
            /// All fields, in the order of a line.
            pub const ALL: &[Field] = &[$($(Field::$key,)*)*];

            /// Its name in a line.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Field::$key => stringify!($key),)*)*
                }
            }

            /// How it is stored, written and read.
            pub const fn kind(self) -> Kind {
                match self {
                    $($(Field::$key => Kind::$kind,)*)*
                }
            }

            /// Its description: unit or values.
            pub const fn what(self) -> &'static str {
                match self {
                    $($(Field::$key => $what,)*)*
                }
            }

            /// When it is present.
            pub const fn present(self) -> &'static str {
                match self {
                    $($(Field::$key => $present,)*)*
                }
            }

            /// The source of the value.
            pub const fn source(self) -> &'static str {
                match self {
                    $($(Field::$key => $source,)*)*
                }
            }
        }
    };
}
fields!(field_enum);
