import { For, Show } from "solid-js";
import { fetchTop, type TopQuery } from "../../api/queries.ts";
import type { Dimension, TopRow } from "../../api/types.ts";
import { Share, Spark } from "../../components/Spark.tsx";
import { ErrorBox } from "../../components/States.tsx";
import { SqlLine, Text } from "../../components/Text.tsx";
import { compact, duration, percent } from "../../lib/format.ts";
import { createQuery } from "../../lib/resource.ts";
import { href } from "../../lib/router.ts";
import { refreshMs, scope } from "../../lib/scope.ts";
import { filter } from "../../lib/search-text.ts";

/** Where a row of a ranking leads: a digest to its page, the rest to a search. */
export function topHref(by: Dimension, row: TopRow): string {
  if (by === "digest" && row.value !== null) {
    return href(`/statements/${encodeURIComponent(String(row.value))}`);
  }
  const q = row.value === null || row.value === "" ? "" : filter(by, row.value);
  return href("/search", { q });
}

/** The name of a row, also of those without a value. */
export const topName = (row: TopRow) =>
  row.value === null || row.value === "" ? "(none)" : String(row.value);

/** The most expensive values of a field. */
export function TopPanel(props: { by: Dimension; title: string }) {
  const key = (): TopQuery => ({
    ...scope(),
    by: props.by,
    measure: "time",
    limit: props.by === "digest" ? 10 : 5,
  });
  const query = createQuery(key, fetchTop, { every: refreshMs });
  const rows = () => query.data()?.rows ?? [];
  return (
    <section class="panel" aria-label={props.title}>
      <div class="panel-head">
        <h2>{props.title}</h2>
        <a class="end link small" href={href("/statements", { by: props.by })}>
          All
        </a>
      </div>
      <Show when={!query.data() && query.error()}>
        {(error) => (
          <div class="panel-body">
            <ErrorBox error={error()} retry={query.reload} />
          </div>
        )}
      </Show>
      <div
        class={props.by === "digest" ? "top-digests" : "top-values"}
        classList={{ stale: query.stale() && query.data() !== undefined }}
      >
        <Show
          when={props.by === "digest"}
          fallback={
            <ul class="lines">
              <For each={rows()}>{(row) => <ShareLine by={props.by} row={row} />}</For>
            </ul>
          }
        >
          <Digests rows={rows()} />
        </Show>
      </div>
    </section>
  );
}

function ShareLine(props: { by: Dimension; row: TopRow }) {
  return (
    <li>
      <a class="line share-line" href={topHref(props.by, props.row)}>
        <span class="cut">
          <Text value={topName(props.row)} />
        </span>
        <Share part={props.row.share} label={percent(props.row.share)} />
      </a>
    </li>
  );
}

function Digests(props: { rows: TopRow[] }) {
  return (
    <table class="table fixed">
      <thead>
        <tr>
          <th>Statement</th>
          <th class="w-share">Share</th>
          <th class="w-spark wide-only">Load</th>
          <th class="w-num right">Count</th>
          <th class="w-num right wide-only">p99</th>
          <th class="w-num right">Time</th>
        </tr>
      </thead>
      <tbody>
        <For each={props.rows}>
          {(row) => (
            <tr class="go">
              <td class="cover-cell">
                <a class="cover cut" href={topHref("digest", row)}>
                  <SqlLine sql={row.text ?? topName(row)} />
                </a>
              </td>
              <td>
                <Share part={row.share} label={percent(row.share)} />
              </td>
              <td class="wide-only">
                <Spark values={row.spark} />
              </td>
              <td class="right">{compact(row.count)}</td>
              <td class="right wide-only">{row.p99_us === null ? "–" : duration(row.p99_us)}</td>
              <td class="right">{duration(row.time_us)}</td>
            </tr>
          )}
        </For>
      </tbody>
    </table>
  );
}
