import { properties } from "../../../docs/specs/record.schema.json";

/** The fields of a record, from the schema that crates/record writes. */
export interface Field {
  name: string;
  description: string;
}

const plain = (text: string) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/`/g, "");

/** In the order of a line, without the companions that hold original bytes. */
export const FIELDS: Field[] = Object.entries(
  properties as Record<string, { description?: string }>,
)
  .filter(([name]) => !name.endsWith("_b64"))
  .map(([name, { description }]) => ({ name, description: plain(description ?? "") }));

/** Names that the search language has besides the fields of a record. */
export const SEARCH_FIELDS: Field[] = [
  { name: "table", description: "database.table that the statement uses" },
  { name: "time", description: "duration of the statement: >2s, <500us" },
  { name: "lock_time", description: "time spent waiting for locks: >100ms" },
  ...FIELDS.map((field) =>
    field.name === "server" ? { name: "server", description: "name of the server" } : field,
  ),
  { name: "digest_text", description: 'statement without its literals: "from card where"' },
  { name: "server_version", description: "server and version" },
  { name: "file", description: "name of the log file" },
];

/** How the page of a record groups its fields; a field that is in no group is under "More". */
export const GROUPS: [string, string[]][] = [
  ["Statement", "command sql_command digest tables query_id blocked_by rewrite_rule".split(" ")],
  ["Parameters", "params params_bytes".split(" ")],
  ["Error", "errno sqlstate error".split(" ")],
  [
    "Cost",
    "query_time_us lock_time_us rows_sent rows_examined rows_affected running_seq".split(" "),
  ],
  ["Answer", "first_byte_us bytes_sent warnings last_insert_id info".split(" ")],
  [
    "Session",
    `user priv_user proxy_user os_user host ip port db program client_version tls conn conn_seq run
    source server_addr session`.split(/\s+/),
  ],
  ["Notice", "class action object producer detail detail_bytes attributes".split(" ")],
  ["Change", "variable old_value new_value".split(" ")],
  ["Loss", "cause count lost_bytes lost_packets start_ts".split(" ")],
  ["Text", "sql_charset sql_bytes sql_redacted".split(" ")],
];

/** Fields that the page of a record shows elsewhere. */
export const SHOWN_ELSEWHERE = new Set(
  "v seq ts event outcome server sql rewritten_query".split(" "),
);

/** Whose values a filter is made of by a click. */
export const FILTERABLE = new Set(
  `event outcome user priv_user host ip db command sql_command errno sqlstate blocked_by digest
  program tls variable class action cause run conn source server_addr session`.split(/\s+/),
);
