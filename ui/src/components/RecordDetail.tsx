import { For, type JSX, Show } from "solid-js";
import type { LogRecord, RecordAnswer, TableUse } from "../api/types.ts";
import { result, summary } from "../lib/describe.ts";
import { FIELDS, FILTERABLE, GROUPS, SHOWN_ELSEWHERE } from "../lib/fields.ts";
import { bytes, duration, integer } from "../lib/format.ts";
import { connectionHref, recordHref } from "../lib/links.ts";
import { href } from "../lib/router.ts";
import { filter } from "../lib/search-text.ts";
import { dateTime, parseInstant, zoneName } from "../lib/time.ts";
import { Icon } from "./Icon.tsx";
import { ProofCard } from "./ProofCard.tsx";
import { Raw } from "./Raw.tsx";
import { Badge } from "./States.tsx";
import { SqlBlock, Text } from "./Text.tsx";
import { copy } from "./Toast.tsx";

const DESCRIPTIONS = new Map(FIELDS.map((field) => [field.name, field.description]));

/** A record with everything that is known of it. */
export function RecordDetail(props: { answer: RecordAnswer; isNarrow?: boolean }) {
  const record = () => props.answer.record;
  return (
    <div class="record" classList={{ narrow: props.isNarrow ?? false }}>
      <div class="record-main">
        <Head record={record()} />
        <Content record={record()} />
        <Fields record={record()} />
        <Show when={props.answer.bytes}>
          {(bytes) => <Raw title="Line as it is in the file" text={bytes()} />}
        </Show>
      </div>
      <div class="record-side">
        <ProofCard answer={props.answer} />
      </div>
    </div>
  );
}

function Head(props: { record: LogRecord }) {
  const at = () => parseInstant(props.record.ts);
  const end = () => result(props.record);
  const connection = () => connectionHref(props.record);
  return (
    <div class="record-head">
      <Badge tone={end().tone === "" ? "ok" : end().tone}>
        {props.record.event}
        <Show when={props.record.outcome}>
          {(outcome) => (
            <>
              {" "}
              {outcome()}
              <Show when={props.record.errno}>{` ${props.record.errno}`}</Show>
            </>
          )}
        </Show>
      </Badge>
      <span class="num" title={`${props.record.ts} (${zoneName()})`}>
        {dateTime(at() ?? 0, 6)}
      </span>
      <span class="second">
        <Text value={props.record.server} />
      </span>
      <span class="spacer" />
      <Show when={connection()}>
        {(to) => (
          <a class="button" href={to()}>
            <Icon name="link" />
            Connection {props.record.conn}
          </a>
        )}
      </Show>
    </div>
  );
}

function Content(props: { record: LogRecord }) {
  const text = () => summary(props.record);
  return (
    <>
      <div class="sql-panel inset">
        <Show
          when={text().isSql}
          fallback={
            <p class="sql-plain">
              <Text value={text().text} />
            </p>
          }
        >
          <SqlBlock sql={text().text} />
        </Show>
        <button
          type="button"
          class="button plain icon"
          aria-label="Copy the text"
          title="Copy"
          onClick={() => void copy(text().text, "Text")}
        >
          <Icon name="copy" />
        </button>
      </div>
      <Show when={props.record.error && text().text !== props.record.error}>
        <p class="bad record-error">
          <Text value={props.record.error ?? ""} />
        </p>
      </Show>
      <Show when={typeof props.record.rewritten_query === "string"}>
        <h2>Executed instead</h2>
        <div class="sql-panel inset">
          <SqlBlock sql={String(props.record.rewritten_query)} />
        </div>
      </Show>
    </>
  );
}

type Entry = [string, unknown];

function groups(record: LogRecord): [string, Entry[]][] {
  const left = new Map<string, unknown>(
    Object.entries(record).filter(([name]) => !SHOWN_ELSEWHERE.has(name)),
  );
  // The server's version in `start` lines has the name of the hub's own field.
  const found: [string, Entry[]][] = [];
  for (const [title, names] of GROUPS) {
    const entries: Entry[] = [];
    for (const name of names) {
      for (const field of [name, `${name}_b64`]) {
        if (left.has(field)) {
          entries.push([field, left.get(field)]);
          left.delete(field);
        }
      }
    }
    if (entries.length > 0) {
      found.push([title, entries]);
    }
  }
  return left.size > 0 ? [...found, ["More", [...left]]] : found;
}

function Fields(props: { record: LogRecord }) {
  return (
    <div class="record-fields">
      <For each={groups(props.record)}>
        {([title, entries]) => (
          <section>
            <h2>{title}</h2>
            <dl class="facts">
              <For each={entries}>
                {([name, value]) => (
                  <>
                    <dt title={DESCRIPTIONS.get(name)}>{name}</dt>
                    <dd class="num">
                      <Value name={name} value={value} record={props.record} />
                    </dd>
                  </>
                )}
              </For>
            </dl>
          </section>
        )}
      </For>
    </div>
  );
}

function Value(props: { name: string; value: unknown; record: LogRecord }): JSX.Element {
  const text = () => String(props.value);
  if (props.name === "tables" && Array.isArray(props.value)) {
    return <Tables uses={props.value as TableUse[]} />;
  }
  if (typeof props.value === "object" && props.value !== null) {
    return <Text value={JSON.stringify(props.value)} />;
  }
  if (props.name.endsWith("_us") && typeof props.value === "number") {
    return <span title={`${integer(props.value)} µs`}>{duration(props.value)}</span>;
  }
  if (/(^|_)bytes(_|$)/.test(props.name) && typeof props.value === "number") {
    return <span title={`${integer(props.value)} bytes`}>{bytes(props.value)}</span>;
  }
  if (props.name.endsWith("_ts") && typeof props.value === "string") {
    return dateTime(parseInstant(props.value) ?? 0, 6);
  }
  if (props.name === "running_seq") {
    const to = recordHref({ server: props.record.server, seq: Number(props.value) });
    return <a class="link" href={to}>{`record ${text()}`}</a>;
  }
  if (props.name === "digest") {
    const to = href(`/statements/${encodeURIComponent(text())}`);
    return (
      <a class="link mono" href={to}>
        {text()}
      </a>
    );
  }
  if (props.name.startsWith("rows_")) {
    return integer(Number(props.value));
  }
  if (FILTERABLE.has(props.name)) {
    const q = filter(props.name, text());
    return (
      <a class="value" href={href("/search", { q })} title={`Search ${q}`}>
        <Text value={text()} />
      </a>
    );
  }
  return <Text value={text()} />;
}

function tableName(db: string | undefined, table: string | undefined): string {
  return [db, table].filter((name) => name !== undefined).join(".");
}

function Tables(props: { uses: TableUse[] }) {
  return (
    <ul>
      <For each={props.uses}>
        {(use) => (
          <li>
            <span class="muted">{use.access} </span>
            <a
              class="value"
              href={href("/search", { q: filter("table", tableName(use.db, use.table)) })}
            >
              <Text value={tableName(use.db, use.table)} />
            </a>
            <Show when={use.new_table}>
              <span class="muted"> to </span>
              <Text value={tableName(use.new_db, use.new_table)} />
            </Show>
          </li>
        )}
      </For>
    </ul>
  );
}
