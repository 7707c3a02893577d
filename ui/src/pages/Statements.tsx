import { createSignal, For, Show } from "solid-js";
import { fetchTop, type TopQuery } from "../api/queries.ts";
import type { Dimension, Measure, TopRow } from "../api/types.ts";
import { Page } from "../components/Page.tsx";
import { Share, Spark } from "../components/Spark.tsx";
import { Empty, ErrorBox } from "../components/States.tsx";
import { SqlLine, Text } from "../components/Text.tsx";
import { compact, duration, percent } from "../lib/format.ts";
import { useShortcuts } from "../lib/keyboard.ts";
import { createQuery } from "../lib/resource.ts";
import { go, patch, place } from "../lib/router.ts";
import { refreshMs, scope } from "../lib/scope.ts";
import { topHref, topName } from "./overview/TopPanel.tsx";

const DIMENSIONS: [Dimension, string][] = [
  ["digest", "Statement"],
  ["user", "User"],
  ["db", "Database"],
  ["host", "Host"],
  ["sql_command", "Kind"],
  ["errno", "Error"],
  ["server", "Server"],
];

const MEASURES: [Measure, string][] = [
  ["time", "Time"],
  ["count", "Count"],
  ["errors", "Errors"],
  ["rows_examined", "Examined"],
  ["rows_sent", "Sent"],
  ["rows_affected", "Changed"],
];

const optional = (us: number | null) => (us === null ? "–" : duration(us));

const SHOWN: Record<Measure, (row: TopRow) => string> = {
  time: (row) => duration(row.time_us),
  count: (row) => compact(row.count),
  errors: (row) => (row.errors === 0 ? "–" : compact(row.errors)),
  rows_examined: (row) => compact(row.rows_examined),
  rows_sent: (row) => compact(row.rows_sent),
  rows_affected: (row) => compact(row.rows_affected),
};

const LIMIT = 100;

function chosen<T extends string>(name: string, all: [T, string][], fallback: T): T {
  const value = place().params.get(name);
  return all.find(([key]) => key === value)?.[0] ?? fallback;
}

const rankBy = (name: string) =>
  patch({ measure: name === "time" ? null : name }, { replace: true });

/** The ranking: what costs most, by any measure, of any field. */
export default function Statements() {
  const by = () => chosen("by", DIMENSIONS, "digest");
  const measure = () => chosen("measure", MEASURES, "time");
  const key = (): TopQuery => ({ ...scope(), by: by(), measure: measure(), limit: LIMIT });
  const query = createQuery(key, fetchTop, { every: refreshMs });
  const rows = () => query.data()?.rows ?? [];
  const [at, setAt] = createSignal(-1);
  const step = (by: number) => {
    const next = Math.max(0, Math.min(rows().length - 1, at() + by));
    setAt(next);
    document.querySelectorAll<HTMLElement>(".ranking a.cover")[next]?.focus();
  };
  useShortcuts([
    { keys: "ArrowDown", label: "Next row", group: "Statements", run: () => step(1) },
    { keys: "ArrowUp", label: "Previous row", group: "Statements", run: () => step(-1) },
    { keys: "j", label: "Next row", group: "Statements", run: () => step(1) },
    { keys: "k", label: "Previous row", group: "Statements", run: () => step(-1) },
  ]);
  return (
    <Page title="Statements">
      <div class="toolbar">
        <div class="segments">
          <For each={DIMENSIONS}>
            {([name, label]) => (
              <button
                type="button"
                aria-pressed={by() === name}
                onClick={() => patch({ by: name === "digest" ? null : name }, { replace: true })}
              >
                {label}
              </button>
            )}
          </For>
        </div>
        <span class="spacer" />
        <label class="narrow-only">
          <span class="sr">Rank by</span>
          <select
            class="input"
            value={measure()}
            onChange={(event) => rankBy(event.currentTarget.value)}
          >
            <For each={MEASURES}>{([name, label]) => <option value={name}>{label}</option>}</For>
          </select>
        </label>
        <Show when={query.data()}>
          {(top) => (
            <span class="muted num wide-only-inline">
              {rows().length >= LIMIT ? `First ${LIMIT} of ` : ""}
              {total(measure(), top().rows)}
            </span>
          )}
        </Show>
      </div>
      <Show when={query.error() && !query.data() && query.error()}>
        {(error) => <ErrorBox error={error()} retry={query.reload} />}
      </Show>
      <Show when={query.data()}>
        <div class="panel scroll-x ranking" classList={{ stale: query.stale() }}>
          <Show
            when={rows().length > 0}
            fallback={
              <Empty title="No statements in this range">Choose a longer time range.</Empty>
            }
          >
            <Ranking by={by()} measure={measure()} rows={rows()} />
          </Show>
        </div>
      </Show>
    </Page>
  );
}

const VALUES: Record<Measure, (row: TopRow) => number> = {
  time: (row) => row.time_us,
  count: (row) => row.count,
  errors: (row) => row.errors,
  rows_examined: (row) => row.rows_examined,
  rows_sent: (row) => row.rows_sent,
  rows_affected: (row) => row.rows_affected,
};

/** The measure of all rows, also of those that are not listed. */
function total(measure: Measure, rows: TopRow[]): string {
  const first = rows[0];
  const value = first && first.share > 0 ? VALUES[measure](first) / first.share : 0;
  if (measure === "time") {
    return `${duration(value)} in total`;
  }
  const what = { count: "statements", errors: "errors" }[measure as string] ?? "rows";
  return `${compact(Math.round(value))} ${what}`;
}

function Ranking(props: { by: Dimension; measure: Measure; rows: TopRow[] }) {
  const title = () => DIMENSIONS.find(([name]) => name === props.by)?.[1] ?? "";
  return (
    <table class="table fixed ranking-table">
      <thead>
        <tr>
          <th class="w-rank right">#</th>
          <th>{title()}</th>
          <th class="w-share wide-only">Share</th>
          <th class="w-spark wide-only">Load</th>
          <For each={MEASURES}>
            {([name, label]) => (
              <th
                class="w-num right"
                classList={{ "wide-only": props.measure !== name }}
                aria-sort={props.measure === name ? "descending" : undefined}
              >
                <button
                  type="button"
                  title={`Rank by ${label.toLowerCase()}`}
                  onClick={() => rankBy(name)}
                >
                  {label}
                </button>
              </th>
            )}
          </For>
          <th class="w-num right wide-only">p50</th>
          <th class="w-num right wide-only">p95</th>
          <th class="w-num right wide-only">p99</th>
        </tr>
      </thead>
      <tbody>
        <For each={props.rows}>
          {(row, index) => (
            <tr class="go" onClick={() => go(topHref(props.by, row))}>
              <td class="right muted">{index() + 1}</td>
              <td class="cover-cell">
                <a
                  class="cover cut"
                  href={topHref(props.by, row)}
                  onClick={(event) => event.stopPropagation()}
                >
                  <Show when={row.text} fallback={<Text value={topName(row)} />}>
                    {(text) => <SqlLine sql={text()} />}
                  </Show>
                </a>
              </td>
              <td class="wide-only">
                <Share part={row.share} label={percent(row.share)} />
              </td>
              <td class="wide-only">
                <Spark values={row.spark} />
              </td>
              <For each={MEASURES}>
                {([name]) => (
                  <td
                    class="right"
                    classList={{
                      "wide-only": props.measure !== name,
                      strong: props.measure === name,
                      muted: SHOWN[name](row) === "–" || SHOWN[name](row) === "0",
                      bad: name === "errors" && row.errors > 0,
                    }}
                  >
                    {SHOWN[name](row)}
                  </td>
                )}
              </For>
              <td class="right second wide-only">{optional(row.p50_us)}</td>
              <td class="right second wide-only">{optional(row.p95_us)}</td>
              <td class="right second wide-only">{optional(row.p99_us)}</td>
            </tr>
          )}
        </For>
      </tbody>
    </table>
  );
}
