import { createSignal, For, Show } from "solid-js";
import {
  fetchFacets,
  fetchHistogram,
  fetchRecords,
  fetchTop,
  type RecordsQuery,
  type TopQuery,
} from "../api/queries.ts";
import type { Facets, FacetValue, LogRecord, TopRow } from "../api/types.ts";
import { Crumbs } from "../components/Crumbs.tsx";
import { Histogram } from "../components/Histogram.tsx";
import { Icon } from "../components/Icon.tsx";
import { Page } from "../components/Page.tsx";
import { RecordHead, RecordRow } from "../components/RecordRow.tsx";
import { Share } from "../components/Spark.tsx";
import { Empty, ErrorBox } from "../components/States.tsx";
import { SqlBlock, Text } from "../components/Text.tsx";
import { copy } from "../components/Toast.tsx";
import { VirtualList } from "../components/VirtualList.tsx";
import { compact, duration, integer, percent } from "../lib/format.ts";
import { recordHref } from "../lib/links.ts";
import { rowHeight } from "../lib/narrow.ts";
import { createQuery } from "../lib/resource.ts";
import { go, href } from "../lib/router.ts";
import { refreshMs, scope, servers } from "../lib/scope.ts";
import { filter } from "../lib/search-text.ts";

const EXAMPLES = 25;
const FIELDS = "user,db,host,errno";

/** One shape of statement: what it costs, who sends it, and whole examples. */
export default function Digest(props: { digest: string }) {
  const q = () => filter("digest", props.digest);
  const key = () => ({ ...scope(), q: q() });
  const every = { every: refreshMs };
  const top = createQuery(
    (): TopQuery => ({ ...key(), by: "digest", measure: "time", limit: 1 }),
    fetchTop,
    every,
  );
  const histogram = createQuery(() => ({ ...key(), buckets: 120 }), fetchHistogram, every);
  const facets = createQuery(() => ({ ...key(), fields: FIELDS, limit: 6 }), fetchFacets, every);
  const examples = createQuery(
    (): RecordsQuery => ({ ...key(), order: "desc", limit: EXAMPLES }),
    fetchRecords,
  );
  const row = () => top.data()?.rows[0];
  const text = () => row()?.text ?? examples.data()?.records[0]?.sql ?? "";
  return (
    <Page
      title="Statement"
      crumbs={
        <Crumbs
          path={[
            { text: "Statements", href: href("/statements") },
            { text: props.digest.replace(/^\d+:/, "").slice(0, 12), isCode: true },
          ]}
        />
      }
      actions={
        <a class="button" href={href("/search", { q: q() })}>
          <Icon name="search" />
          All records
        </a>
      }
    >
      <Show when={top.error() ?? examples.error()}>
        {(error) => <ErrorBox error={error()} retry={top.reload} />}
      </Show>
      <div class="stack">
        <section class="panel sql-panel" aria-label="Normalized statement">
          <SqlBlock sql={text()} />
          <button
            type="button"
            class="button plain icon"
            aria-label="Copy the statement"
            title="Copy"
            onClick={() => void copy(text(), "Statement")}
          >
            <Icon name="copy" />
          </button>
        </section>
        <Show when={row()}>{(found) => <Figures row={found()} />}</Show>
        <section class="panel" aria-label="Over time">
          <div class="panel-head">
            <h2>Executions over time</h2>
          </div>
          <div class="panel-body">
            <Histogram data={histogram.data()} isStale={histogram.stale()} />
          </div>
        </section>
        <Users q={q()} facets={facets.data()} />
        <ExamplesPanel records={examples.data()?.records} />
      </div>
    </Page>
  );
}

const FACETS: [string, string][] = [
  ["user", "Users"],
  ["db", "Databases"],
  ["host", "Hosts"],
  ["errno", "Errors"],
];

/** Where the statement comes from, and how it fails. */
function Users(props: { q: string; facets: Facets | undefined }) {
  return (
    <div class="digest-facets">
      <For each={FACETS}>
        {([field, title]) => (
          <Values
            title={title}
            field={field}
            q={props.q}
            values={props.facets?.fields[field]}
            total={props.facets?.total ?? 0}
          />
        )}
      </For>
    </div>
  );
}

function ExamplesPanel(props: { records: LogRecord[] | undefined }) {
  return (
    <section class="panel" aria-label="Examples">
      <div class="panel-head">
        <h2>Newest executions</h2>
      </div>
      <div class="plain-list">
        <RecordHead hasServer={servers().length !== 1} hasDay={false} />
        <Show
          when={(props.records ?? []).length > 0}
          fallback={
            <Show when={props.records}>
              <Empty title="None in this range" />
            </Show>
          }
        >
          <Examples records={props.records ?? []} />
        </Show>
      </div>
    </section>
  );
}

function Examples(props: { records: LogRecord[] }) {
  const [selected, setSelected] = createSignal(-1);
  const open = (index: number) => {
    const record = props.records[index];
    if (record) {
      go(recordHref(record));
    }
  };
  return (
    <div style={{ height: `${props.records.length * rowHeight()}px` }} class="plain-rows">
      <VirtualList
        label="Newest executions"
        items={props.records}
        rowHeight={rowHeight()}
        selected={selected()}
        onSelect={setSelected}
        onOpen={open}
        row={(record, index) => (
          <RecordRow
            record={record}
            index={index}
            isSelected={selected() === index()}
            hasServer={servers().length !== 1}
            hasDay={false}
            onSelect={open}
          />
        )}
      />
    </div>
  );
}

function Figures(props: { row: TopRow }) {
  const row = () => props.row;
  const optional = (us: number | null) => (us === null ? "–" : duration(us));
  const all = (): [string, string][] => [
    ["Executions", integer(row().count)],
    ["Total time", duration(row().time_us)],
    ["p50", optional(row().p50_us)],
    ["p95", optional(row().p95_us)],
    ["p99", optional(row().p99_us)],
    [
      "Errors",
      row().errors === 0 ? "0" : `${integer(row().errors)}, ${percent(row().errors / row().count)}`,
    ],
    ["Rows examined", compact(row().rows_examined)],
    ["Rows sent", compact(row().rows_sent)],
    ["Rows affected", compact(row().rows_affected)],
  ];
  return (
    <dl class="panel figures">
      <For each={all()}>
        {([name, value]) => (
          <div>
            <dt>{name}</dt>
            <dd class="num" classList={{ bad: name === "Errors" && row().errors > 0 }}>
              {value}
            </dd>
          </div>
        )}
      </For>
    </dl>
  );
}

interface ValuesProps {
  title: string;
  field: string;
  q: string;
  values: FacetValue[] | undefined;
  total: number;
}

function Values(props: ValuesProps) {
  const named = () => (props.values ?? []).filter((one) => one.value !== null && one.value !== "");
  const part = (one: FacetValue) => (props.total === 0 ? 0 : one.count / props.total);
  return (
    <section class="panel" aria-label={props.title}>
      <div class="panel-head">
        <h2>{props.title}</h2>
      </div>
      <ul class="lines">
        <For each={named()} fallback={<li class="line calm">None</li>}>
          {(one) => (
            <li>
              <a
                class="line share-line"
                href={href("/search", { q: `${props.q} ${filter(props.field, one.value ?? "")}` })}
              >
                <span class="cut">
                  <Text value={String(one.value)} />
                </span>
                <Share part={part(one)} label={percent(part(one))} />
              </a>
            </li>
          )}
        </For>
      </ul>
    </section>
  );
}
