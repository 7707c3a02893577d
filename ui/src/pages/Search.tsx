import { createEffect, createSignal, on, Show } from "solid-js";
import { ApiError } from "../api/client.ts";
import { fetchFacets, fetchHistogram } from "../api/queries.ts";
import { createTail, type TailState } from "../api/stream.ts";
import { FACETS, Facets } from "../components/Facets.tsx";
import { Histogram } from "../components/Histogram.tsx";
import { Icon } from "../components/Icon.tsx";
import { Page } from "../components/Page.tsx";
import { QueryInput } from "../components/QueryInput.tsx";
import { ErrorBox } from "../components/States.tsx";
import { toast } from "../components/Toast.tsx";
import { plural } from "../lib/format.ts";
import { useShortcuts } from "../lib/keyboard.ts";
import { isNarrow } from "../lib/narrow.ts";
import { createRecords } from "../lib/records.ts";
import { createQuery } from "../lib/resource.ts";
import { patch, place } from "../lib/router.ts";
import { from, isCurrent, scope, servers, zoomOut } from "../lib/scope.ts";
import { toggle } from "../lib/search-text.ts";
import { DAY, relativeLength } from "../lib/time.ts";
import { Drawer } from "./search/Drawer.tsx";
import { ExportButton } from "./search/ExportButton.tsx";
import { Results } from "./search/Results.tsx";
import { SavedSearches } from "./search/SavedSearches.tsx";

const PAGE = 200;
const BUCKETS = 160;
const FACET_VALUES = 12;
const LIVE_REFRESH_MS = 4000;

/** The selected record in the URL: `server/seq`. */
export function selection(): { server: string; seq: string } | null {
  const text = place().params.get("sel");
  const at = text?.lastIndexOf("/") ?? -1;
  return text === null || at < 1 ? null : { server: text.slice(0, at), seq: text.slice(at + 1) };
}

/** Finds records: query, histogram, facets, list, live tail. All of its state is in the URL. */
export default function Search() {
  const q = () => place().params.get("q") ?? "";
  const order = () => (place().params.get("order") === "asc" ? "asc" : "desc");
  const isLive = () => place().params.get("live") === "1" && isCurrent() && order() === "desc";
  const [showsFacets, setShowsFacets] = createSignal(!isNarrow());
  const key = () => ({ ...scope(), q: q() });

  const records = createRecords(() => ({ ...key(), order: order(), limit: PAGE }));
  const every = { every: () => (isLive() ? LIVE_REFRESH_MS : null) };
  const histogram = createQuery(() => ({ ...key(), buckets: BUCKETS }), fetchHistogram, every);
  const facets = createQuery(
    () => ({ ...key(), fields: FACETS.map(([field]) => field).join(","), limit: FACET_VALUES }),
    fetchFacets,
    every,
  );
  const reload = () => {
    records.reload();
    histogram.reload();
    facets.reload();
  };
  const tail = createTail(
    () => (isLive() && !failed() ? { server: servers(), q: q() } : null),
    records.prepend,
    records.reload,
    (count) => toast(`${plural(count, "record")} not shown: too many to follow`),
  );
  createEffect(on(isLive, (live, before) => before && !live && reload(), { defer: true }));

  const error = () => records.error() ?? histogram.error();
  const failed = () => isRejected(records.error());
  const search = (text: string) => patch({ q: text, sel: null });
  const setLive = (live: boolean) =>
    patch(live ? { live: "1", to: null, order: null } : { live: null }, { replace: true });
  useKeys({
    follow: () => setLive(!isLive()),
    filters: () => setShowsFacets(!showsFacets()),
    reload,
  });
  const isLong = () => !isCurrent() || (relativeLength(from()) ?? 0) >= DAY;
  return (
    <Page title="Search" class="search">
      <div class="search-bar">
        <QueryInput value={q()} error={error()} onSearch={search} />
        <LiveButton isLive={isLive()} state={tail()} onClick={() => setLive(!isLive())} />
        <SavedSearches q={q()} />
      </div>
      <div class="search-histogram">
        <Histogram data={histogram.data()} isStale={histogram.stale() && !!histogram.data()} />
      </div>
      <Toolbar
        showsFacets={showsFacets()}
        switchFacets={() => setShowsFacets(!showsFacets())}
        total={failed() ? undefined : histogram.data()?.total}
        isDescending={order() === "desc"}
        isLive={isLive()}
        reload={reload}
        q={q()}
      />
      <Show when={error() && !failed() && error()}>
        {(problem) => <ErrorBox error={problem()} retry={reload} />}
      </Show>
      <div class="search-body" classList={{ "with-facets": showsFacets() }}>
        <Facets
          data={facets.data()}
          isStale={facets.stale()}
          q={q()}
          toggle={(term, isExcluded) => search(toggle(q(), term, isExcluded))}
        />
        <Results
          pages={records}
          hasDay={isLong()}
          hasServer={servers().length !== 1}
          isLive={isLive()}
          failed={failed()}
        />
        <Show when={selection()}>
          {(chosen) => <Drawer server={chosen().server} seq={chosen().seq} />}
        </Show>
      </div>
    </Page>
  );
}

/** Whether the query itself is wrong. */
const isRejected = (error: Error | undefined) => error instanceof ApiError && error.status === 400;

function useKeys(actions: { follow: () => void; filters: () => void; reload: () => void }): void {
  const group = "Search";
  useShortcuts([
    { keys: "l", label: "Follow new records", group, run: actions.follow },
    { keys: "f", label: "Show filters", group, run: actions.filters },
    { keys: "r", label: "Search again", group, run: actions.reload },
    { keys: "o", label: "Zoom out", group, run: zoomOut },
    { keys: "Escape", label: "Close the record", group, run: () => patch({ sel: null }) },
  ]);
}

function LiveButton(props: { isLive: boolean; state: TailState; onClick: () => void }) {
  return (
    <button
      type="button"
      class="button"
      aria-pressed={props.isLive}
      title="Follow new records (l)"
      onClick={() => props.onClick()}
    >
      <Icon name="live" />
      {props.isLive && props.state === "connecting" ? "Connecting" : "Live"}
    </button>
  );
}

interface ToolbarProps {
  showsFacets: boolean;
  switchFacets: () => void;
  total: number | undefined;
  isDescending: boolean;
  isLive: boolean;
  reload: () => void;
  q: string;
}

function Toolbar(props: ToolbarProps) {
  return (
    <div class="toolbar search-toolbar">
      <button
        type="button"
        class="button plain facets-switch"
        title="Show filters (f)"
        aria-expanded={props.showsFacets}
        onClick={() => props.switchFacets()}
      >
        <Icon name="filter" />
        Filters
      </button>
      <span class="num second" role="status">
        {props.total === undefined ? "" : plural(props.total, "record")}
      </span>
      <span class="spacer" />
      <button type="button" class="button plain" title="Zoom out (o)" onClick={zoomOut}>
        <Icon name="zoomOut" />
        <span class="wide-only-inline">Zoom out</span>
      </button>
      <button
        type="button"
        class="button plain"
        disabled={props.isLive}
        onClick={() => patch({ order: props.isDescending ? "asc" : null, sel: null })}
      >
        {props.isDescending ? "Newest first" : "Oldest first"}
      </button>
      <ExportButton q={props.q} />
      <button
        type="button"
        class="button plain"
        title="Search again (r)"
        onClick={() => props.reload()}
      >
        <Icon name="refresh" />
        <span class="sr">Search again</span>
      </button>
    </div>
  );
}
