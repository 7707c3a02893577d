import { createSignal, Show } from "solid-js";
import { fetchOverview } from "../api/queries.ts";
import type { Overview as Data } from "../api/types.ts";
import { Chart, type Series } from "../components/Chart.tsx";
import { Page } from "../components/Page.tsx";
import { ErrorBox } from "../components/States.tsx";
import { duration, rate } from "../lib/format.ts";
import { createQuery } from "../lib/resource.ts";
import { refreshMs, scope } from "../lib/scope.ts";
import { parseInstant, SECOND } from "../lib/time.ts";
import { AlertsPanel } from "./overview/AlertsPanel.tsx";
import { ServersPanel } from "./overview/ServersPanel.tsx";
import { TopPanel } from "./overview/TopPanel.tsx";

/** Everything at a glance: load, errors, latency, the state of servers, what costs most. */
export default function Overview() {
  const query = createQuery(scope, fetchOverview, { every: refreshMs });
  return (
    <Page title="Overview">
      <Show when={query.error()}>
        {(error) => <ErrorBox error={error()} retry={query.reload} />}
      </Show>
      <div class="overview">
        <div class="overview-charts">
          <Charts data={query.data()} isStale={query.stale()} />
        </div>
        <div class="overview-side">
          <ServersPanel />
          <AlertsPanel />
        </div>
        <div class="overview-top">
          <TopPanel by="digest" title="Statements by time" />
        </div>
        <div class="overview-side">
          <TopPanel by="user" title="Users by time" />
          <TopPanel by="db" title="Databases by time" />
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

const mean = (values: number[]) =>
  values.length === 0 ? 0 : values.reduce((all, one) => all + one, 0) / values.length;

const newest = (values: (number | null)[]) => values.findLast((one) => one !== null) ?? null;

function Charts(props: { data: Data | undefined; isStale: boolean }) {
  const [by, setBy] = createSignal<Split>("server");
  const ts = () => (props.data?.ts ?? []).map((text) => parseInstant(text) ?? 0);
  const seconds = () => (props.data?.step_us ?? SECOND) / SECOND;
  const perSecond = (values: number[] | undefined) =>
    (values ?? []).map((value) => value / seconds());
  const common = () => ({ ts: ts(), isStale: props.isStale });
  const statements = () =>
    split((by() === "server" ? props.data?.by_server : props.data?.by_kind) ?? {}, seconds());
  const ms = (value: number | null) => (value === null ? "–" : duration(value));
  return (
    <>
      <div class="chart-with-switch">
        <Chart
          {...common()}
          title="Statements"
          note="per second"
          kind="stacked"
          format={rate}
          series={statements()}
          figure={rate(mean(perSecond(props.data?.statements)))}
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
        note="per second"
        kind="stacked"
        format={rate}
        series={[{ label: "errors", color: "--bad-fill", values: perSecond(props.data?.errors) }]}
        figure={rate(mean(perSecond(props.data?.errors)))}
      />
      <Chart
        {...common()}
        title="Latency"
        note="99th percentile"
        kind="lines"
        format={duration}
        series={[
          { label: "p50", color: "--series-2", values: props.data?.p50_us ?? [] },
          { label: "p99", color: "--series-1", values: props.data?.p99_us ?? [] },
        ]}
        figure={ms(newest(props.data?.p99_us ?? []))}
      />
      <Chart
        {...common()}
        title="Connections"
        note="open or active"
        kind="lines"
        format={rate}
        series={[
          { label: "connections", color: "--series-2", values: props.data?.connections ?? [] },
        ]}
        figure={rate(newest(props.data?.connections ?? []) ?? 0)}
      />
    </>
  );
}
