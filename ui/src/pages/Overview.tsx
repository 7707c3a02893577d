import { createMemo, createSignal, Show } from "solid-js";
import { fetchOverview } from "../api/queries.ts";
import type { Overview as Data } from "../api/types.ts";
import { Chart, type Series } from "../components/Chart.tsx";
import { Page } from "../components/Page.tsx";
import { ErrorBox } from "../components/States.tsx";
import { duration, rate } from "../lib/format.ts";
import { createQuery } from "../lib/resource.ts";
import { isCurrent, refreshMs, scope } from "../lib/scope.ts";
import { maySearch } from "../lib/session.ts";
import { parseInstant, SECOND } from "../lib/time.ts";
import { AlertsPanel } from "./overview/AlertsPanel.tsx";
import { ServersPanel } from "./overview/ServersPanel.tsx";
import { TopPanel } from "./overview/TopPanel.tsx";

/** Everything at a glance: load, errors, latency, the state of servers, what costs most. */
export default function Overview() {
  const query = createQuery(() => (maySearch() ? scope() : null), fetchOverview, {
    every: refreshMs,
  });
  return (
    <Page title="Overview" isUnscoped={!maySearch()}>
      <Show when={query.error()}>
        {(error) => <ErrorBox error={error()} retry={query.reload} />}
      </Show>
      <div class="overview">
        <Show when={maySearch()}>
          <div class="overview-column">
            <div class="overview-charts">
              <Charts data={query.data()} isStale={query.stale()} />
            </div>
            <TopPanel by="digest" title="Statements by time" />
          </div>
        </Show>
        <div class="overview-column">
          <div class="overview-watch">
            <ServersPanel />
            <AlertsPanel />
          </div>
          <Show when={maySearch()}>
            <TopPanel by="user" title="Users by time" />
            <TopPanel by="db" title="Databases by time" />
          </Show>
        </div>
      </div>
    </Page>
  );
}

type Split = "server" | "kind";

const COLORS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5"];

/** The largest series with colors of their own, and the rest together. */
function split(parts: Record<string, number[]>, perSecond: number): Series[] {
  const sum = (values: number[]) => values.reduce((all, one) => all + one, 0);
  const scaled = (values: number[]) => values.map((value) => value / perSecond);
  const sorted = Object.entries(parts)
    .filter(([, values]) => sum(values) > 0)
    .sort(([, a], [, b]) => sum(b) - sum(a));
  const named = sorted.slice(0, COLORS.length).map(([label, values], i) => ({
    label: label === "" ? "other" : label,
    color: COLORS[i] ?? "--series-6",
    values: scaled(values),
  }));
  const rest = sorted.slice(COLORS.length).map(([, values]) => values);
  if (rest.length === 0) {
    return named;
  }
  const others = (rest[0] ?? []).map((_, i) => rest.reduce((all, one) => all + (one[i] ?? 0), 0));
  const label = `${rest.length} more`;
  return [...named, { label, color: "--series-6", values: scaled(others) }];
}

const newest = (values: (number | null)[]) => values.findLast((one) => one !== null) ?? null;

const mean = (values: (number | null)[]) => {
  const known = values.filter((one) => one !== null);
  return known.length === 0 ? null : known.reduce((all, one) => all + one, 0) / known.length;
};

/** The bucket that is still being filled would look like a fall at the right edge. */
function complete(data: Data): Data {
  const end = parseInstant(data.ts.at(-1) ?? "") ?? 0;
  if (!isCurrent() || data.ts.length < 3 || end + data.step_us < Date.now() * 1000 - data.step_us) {
    return data;
  }
  const cut = <T,>(values: T[]) => values.slice(0, -1);
  const cutAll = (parts: Record<string, number[]>) =>
    Object.fromEntries(Object.entries(parts).map(([name, values]) => [name, cut(values)]));
  return {
    step_us: data.step_us,
    ts: cut(data.ts),
    statements: cut(data.statements),
    errors: cut(data.errors),
    p50_us: cut(data.p50_us),
    p99_us: cut(data.p99_us),
    connections: cut(data.connections),
    by_server: cutAll(data.by_server),
    by_kind: cutAll(data.by_kind),
  };
}

function Charts(props: { data: Data | undefined; isStale: boolean }) {
  const [by, setBy] = createSignal<Split>("server");
  const data = createMemo(() => (props.data ? complete(props.data) : undefined));
  const ts = () => (data()?.ts ?? []).map((text) => parseInstant(text) ?? 0);
  const seconds = () => (data()?.step_us ?? SECOND) / SECOND;
  const perSecond = (values: number[] | undefined) =>
    (values ?? []).map((value) => value / seconds());
  const common = () => ({ ts: ts(), isStale: props.isStale });
  const statements = () =>
    split((by() === "server" ? data()?.by_server : data()?.by_kind) ?? {}, seconds());
  // Without statements there is no latency; 0 would look like a fast server.
  const latency = (values: (number | null)[] | undefined) =>
    (values ?? []).map((value, i) => (data()?.statements[i] === 0 ? null : value));
  // Of a range that ends now the newest value, of the past the average.
  const figure = (values: (number | null)[] | undefined, format: (value: number) => string) => {
    const value = isCurrent() ? newest(values ?? []) : mean(values ?? []);
    return value === null ? "–" : format(value);
  };
  const note = (what: string) => (isCurrent() ? what : `${what}, average`);
  return (
    <>
      <div class="chart-with-switch">
        <Chart
          {...common()}
          title="Statements"
          note={note("per second")}
          kind="stacked"
          format={rate}
          series={statements()}
          figure={figure(perSecond(data()?.statements), rate)}
        />
        <div class="segments chart-switch">
          <button type="button" aria-pressed={by() === "server"} onClick={() => setBy("server")}>
            Server
          </button>
          <button type="button" aria-pressed={by() === "kind"} onClick={() => setBy("kind")}>
            Kind
          </button>
        </div>
      </div>
      <Chart
        {...common()}
        title="Errors"
        note={note("per second")}
        kind="stacked"
        format={rate}
        series={[{ label: "errors", color: "--bad-fill", values: perSecond(data()?.errors) }]}
        figure={figure(perSecond(data()?.errors), rate)}
      />
      <Chart
        {...common()}
        title="Latency"
        note={note("99th percentile")}
        kind="lines"
        format={duration}
        series={[
          { label: "p50", color: "--series-2", values: latency(data()?.p50_us) },
          { label: "p99", color: "--series-1", values: latency(data()?.p99_us) },
        ]}
        figure={figure(latency(data()?.p99_us), duration)}
      />
      <Chart
        {...common()}
        title="Connections"
        note={note("active")}
        kind="lines"
        format={rate}
        series={[{ label: "connections", color: "--series-2", values: data()?.connections ?? [] }]}
        figure={figure(data()?.connections, rate)}
      />
    </>
  );
}
