import { For, Show } from "solid-js";
import {
  fetchFacets,
  fetchHistogram,
  fetchRecords,
  fetchTop,
  type RecordsQuery,
  type TopQuery,
} from "../api/queries.ts";
import type { FacetValue, TopRow } from "../api/types.ts";
import { Histogram } from "../components/Histogram.tsx";
import { Icon } from "../components/Icon.tsx";
import { Page } from "../components/Page.tsx";
import { RecordHead, RecordRow } from "../components/RecordRow.tsx";
import { Share } from "../components/Spark.tsx";
import { Empty, ErrorBox } from "../components/States.tsx";
import { SqlBlock, Text } from "../components/Text.tsx";
import { copy } from "../components/Toast.tsx";
import { compact, duration, integer, percent } from "../lib/format.ts";
import { recordHref } from "../lib/links.ts";
import { createQuery } from "../lib/resource.ts";
import { go, href } from "../lib/router.ts";
import { refreshMs, scope, servers } from "../lib/scope.ts";
import { filter } from "../lib/search-text.ts";

const EXAMPLES = 25;
const FIELDS = "user,db,host,ip,errno";

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
        <span class="crumbs">
          <a href={href("/statements")}>Statements</a>
          <span class="at">/</span>
          <span class="mono cut">{props.digest.replace(/^\d+:/, "").slice(0, 12)}</span>
        </span>
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
        <div class="digest-facets">
          <Values
            title="Users"
            field="user"
            q={q()}
            values={facets.data()?.fields.user}
            total={facets.data()?.total ?? 0}
          />
          <Values
            title="Databases"
            field="db"
            q={q()}
            values={facets.data()?.fields.db}
            total={facets.data()?.total ?? 0}
          />
          <Values
            title="Hosts"
            field="host"
            q={q()}
            values={facets.data()?.fields.host}
            total={facets.data()?.total ?? 0}
          />
          <Values
            title="Errors"
            field="errno"
            q={q()}
            values={facets.data()?.fields.errno}
            total={facets.data()?.total ?? 0}
          />
        </div>
        <section class="panel" aria-label="Examples">
          <div class="panel-head">
            <h2>Newest executions</h2>
          </div>
          <div class="plain-list">
            <RecordHead hasServer={servers().length !== 1} hasDay={false} />
            <For
              each={examples.data()?.records ?? []}
              fallback={
                <Show when={examples.data()}>
                  <Empty title="None in this range" />
                </Show>
              }
            >
              {(record, index) => (
                <RecordRow
                  record={record}
                  index={index}
                  isSelected={false}
                  hasServer={servers().length !== 1}
                  hasDay={false}
                  onSelect={() => go(recordHref(record))}
                />
              )}
            </For>
          </div>
        </section>
      </div>
    </Page>
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
