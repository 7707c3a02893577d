/** The types of the hub's HTTP API. Times are RFC 3339 texts; numbers with `_us` are µs. */

/** A v1 record, as in the log line (docs/specs/record.md), with the name of its server. */
export interface LogRecord {
  v: number;
  seq: number;
  ts: string;
  event: EventKind;
  outcome?: Outcome;
  server: string;
  run?: number;
  conn?: number;
  conn_seq?: number;
  user?: string;
  priv_user?: string;
  proxy_user?: string;
  host?: string;
  ip?: string;
  port?: number;
  db?: string;
  command?: string;
  sql_command?: string;
  errno?: number;
  sqlstate?: string;
  error?: string;
  blocked_by?: string;
  sql?: string;
  sql_bytes?: number;
  sql_redacted?: true;
  params?: unknown[];
  params_bytes?: number;
  digest?: string;
  tables?: TableUse[];
  rows_sent?: number;
  rows_examined?: number;
  rows_affected?: number;
  query_time_us?: number;
  lock_time_us?: number;
  first_byte_us?: number;
  bytes_sent?: number;
  warnings?: number;
  last_insert_id?: number;
  info?: string;
  start_ts?: string;
  running_seq?: number;
  count?: number;
  cause?: string;
  program?: string;
  tls?: string;
  variable?: string;
  old_value?: string;
  new_value?: string;
  class?: string;
  action?: string;
  object?: string;
  detail?: string;
  /** Of `start` lines: product and version. */
  server_version?: string;
  /** A line that is no record: then the other fields are missing. */
  raw?: string;
  /** Fields that a later version adds, and the companions `…_b64`. */
  [field: string]: unknown;
}

export type EventKind =
  | "connect"
  | "disconnect"
  | "change_user"
  | "connect_failed"
  | "statement"
  | "table"
  | "lost"
  | "start"
  | "stop"
  | "config"
  | "notice";

export type Outcome = "ok" | "error" | "running" | "interrupted";

export interface TableUse {
  access: string;
  db?: string;
  table?: string;
  new_db?: string;
  new_table?: string;
}

export type Role = "agent" | "viewer" | "auditor" | "admin";

export interface Me {
  user: string;
  /** All roles as one text: `admin+auditor`. */
  role: string;
  roles: Role[];
  /** The servers that this account may see; `null`: all. */
  servers: string[] | null;
  csrf: string;
}

export type ServerState = "ok" | "behind" | "silent" | "stopped" | "broken" | "new";
export type SealState = "sealed" | "unsealed" | "broken" | "gap";

export interface Problem {
  code: string;
  file?: string;
  message: string;
}

export interface Shipper {
  host?: string;
  version?: string;
  last_seen?: string | null;
  behind_bytes?: number;
  recorder?: boolean | null;
  free_bytes?: number | null;
  clock_skew_s?: number;
  problems?: Problem[];
}

export interface Server {
  server: string;
  name: string;
  state: ServerState;
  generation: number;
  records: number;
  landed_seq: number | null;
  indexed_seq: number | null;
  last_record_ts: string | null;
  lag_s: number | null;
  verified_to_seq: number | null;
  checkpoint_ts: string | null;
  unsealed_bytes: number;
  lost: number;
  gaps: number;
  /** `null`: nothing is verified yet. */
  seal: SealState | null;
  seal_message?: string | null;
  /** What the verification found, the first ones. */
  findings?: string[];
  shipper?: Shipper | null;
  /** The shipper has an account at the database server, and says what it is doing. */
  has_activity?: boolean;
  bytes: number;
}

/** A session of a database server. */
export interface Process {
  id: number;
  user: string;
  host: string;
  db: string | null;
  command: string;
  time_s: number;
  state: string | null;
  digest_text: string | null;
}

/** What a database server was doing at `ts`. */
export interface Activity {
  ts: string;
  version: string;
  status: Record<string, string>;
  processes: Process[];
  process_count: number;
  error: string | null;
}

export interface ServerStorage {
  server: string;
  replica_bytes: number;
  /** The same without compression. */
  plain_bytes: number;
  index_bytes: number;
  bytes_per_day: number;
  oldest_record_ts: string | null;
  /** 0: for ever. */
  retention_days: number;
  retention_is_default: boolean;
  needed_bytes: number | null;
  removed_files: number;
  waits_for: "index" | "verification" | "alert" | "clock" | null;
}

export interface Storage {
  measured_ts: string;
  free_bytes: number;
  reserve_bytes: number;
  accepts_logs: boolean;
  full_ts: string | null;
  full_in_days: number | null;
  needed_bytes: number | null;
  index_bytes: number;
  servers: ServerStorage[];
}

export interface RecordsPage {
  records: LogRecord[];
  next: string | null;
  scanned_ms?: number;
}

export interface HistogramBucket {
  ts: string;
  count: number;
  errors: number;
}

export interface Histogram {
  step_us: number;
  from: string;
  to: string;
  buckets: HistogramBucket[];
  total: number;
}

export interface FacetValue {
  value: string | number | null;
  count: number;
}

export interface Facets {
  total: number;
  fields: Record<string, FacetValue[]>;
}

export type Dimension = "digest" | "user" | "db" | "host" | "errno" | "sql_command" | "server";

export type Measure = "time" | "count" | "errors" | "rows_sent" | "rows_examined" | "rows_affected";

export interface TopRow {
  value: string | number | null;
  /** Of digests: the normalized statement. */
  text?: string | null;
  count: number;
  errors: number;
  time_us: number;
  p50_us: number | null;
  p95_us: number | null;
  p99_us: number | null;
  rows_sent: number;
  rows_examined: number;
  rows_affected: number;
  /** The row's part of the total of the measure, from 0 to 1. */
  share: number;
  spark?: number[];
}

export interface Top {
  /** How many values there are. */
  total: number;
  rows: TopRow[];
}

export interface Overview {
  step_us: number;
  ts: string[];
  statements: number[];
  errors: number[];
  p50_us: (number | null)[];
  p99_us: (number | null)[];
  connections: number[];
  by_server: Record<string, number[]>;
  by_kind: Record<string, number[]>;
}

export interface Proof {
  state: "sealed" | "unsealed" | "broken";
  frame?: Record<string, unknown> | null;
  checkpoint?: Record<string, unknown> | null;
  key?: string | null;
  message?: string | null;
}

export interface RecordAnswer {
  record: LogRecord;
  generation: number;
  file: string;
  offset: number;
  /** The line as it is in the file; `null`: it is too long, or the role does not permit it. */
  bytes: string | null;
  proof: Proof;
  neighbours: { before: number | null; after: number | null };
}

export type AlertState = "open" | "acknowledged" | "closed";

export interface Alert {
  id: number | string;
  rule: string;
  severity: "critical" | "high" | "medium" | "low" | string;
  state: AlertState;
  server: string | null;
  title: string;
  message: string;
  first_ts: string;
  last_ts: string;
  count: number;
  examples: unknown[];
  note?: string | null;
  acknowledged_by?: string | null;
  /** The newest messages about it, the last first. */
  deliveries?: Delivery[];
}

export interface Delivery {
  /** `webhook`, `syslog`, or `mail:` and the recipient. */
  channel: string;
  alert_state: "open" | "closed";
  state: "pending" | "sent" | "failed";
  tries: number;
  last_error: string | null;
  created_ts: string;
  last_try_ts: string | null;
}
