import { createEffect, createSignal, on, Show } from "solid-js";
import { ApiError } from "../api/client.ts";
import { fetchFacets, fetchHistogram } from "../api/queries.ts";
import { createTail } from "../api/stream.ts";
import { FACETS, Facets } from "../components/Facets.tsx";
import { Histogram } from "../components/Histogram.tsx";
import { Icon } from "../components/Icon.tsx";
import { Page } from "../components/Page.tsx";
import { QueryInput } from "../components/QueryInput.tsx";
import { ErrorBox } from "../components/States.tsx";
import { plural } from "../lib/format.ts";
import { useShortcuts } from "../lib/keyboard.ts";
import { createRecords } from "../lib/records.ts";
import { createQuery } from "../lib/resource.ts";
import { patch, place } from "../lib/router.ts";
import { from, isCurrent, scope, servers, zoomOut } from "../lib/scope.ts";
import { toggle } from "../lib/search-text.ts";
import { DAY, relativeLength } from "../lib/time.ts";
import { Drawer } from "./search/Drawer.tsx";
import { Results } from "./search/Results.tsx";
import { SavedSearches } from "./search/SavedSearches.tsx";

/** Where filters lie over the list. */
const NARROW = matchMedia("(max-width: 860px)");
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
  const [showsFacets, setShowsFacets] = createSignal(!NARROW.matches);
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
  );
  createEffect(on(isLive, (live, before) => before && !live && reload(), { defer: true }));

  const error = () => records.error() ?? histogram.error();
  const failed = () => {
    const problem = records.error();
    return problem instanceof ApiError && problem.status === 400;
  };
  const search = (text: string) => patch({ q: text, sel: null });
  const setLive = (live: boolean) =>
    patch(live ? { live: "1", to: null, order: null } : { live: null }, { replace: true });
  useShortcuts([
    { keys: "l", label: "Follow new records", group: "Search", run: () => setLive(!isLive()) },
    {
      keys: "f",
      label: "Show filters",
      group: "Search",
      run: () => setShowsFacets(!showsFacets()),
    },
    { keys: "r", label: "Search again", group: "Search", run: reload },
    { keys: "o", label: "Zoom out", group: "Search", run: zoomOut },
    { keys: "Escape", label: "Close the record", group: "Search", run: () => patch({ sel: null }) },
  ]);
  const isLong = () => !isCurrent() || (relativeLength(from()) ?? 0) >= DAY;
  return (
    <Page title="Search" class="search">
      <div class="search-bar">
        <QueryInput value={q()} error={error()} onSearch={search} />
        <button
          type="button"
          class="button"
          aria-pressed={isLive()}
          title="Follow new records (l)"
          onClick={() => setLive(!isLive())}
        >
          <Icon name="live" />
          {isLive() && tail() === "connecting" ? "Connecting" : "Live"}
        </button>
        <SavedSearches q={q()} />
      </div>
      <div class="search-histogram">
        <Histogram data={histogram.data()} isStale={histogram.stale() && !!histogram.data()} />
      </div>
      <div class="toolbar search-toolbar">
        <button
          type="button"
          class="button plain facets-switch"
          title="Show filters (f)"
          aria-expanded={showsFacets()}
          onClick={() => setShowsFacets(!showsFacets())}
        >
          <Icon name="filter" />
          Filters
        </button>
        <span class="num second" role="status">
          <Show when={histogram.data() && !failed()}>
            {plural(histogram.data()?.total ?? 0, "record")}
          </Show>
        </span>
        <span class="spacer" />
        <button type="button" class="button plain" title="Zoom out (o)" onClick={zoomOut}>
          <Icon name="zoomOut" />
          <span class="wide-only-inline">Zoom out</span>
        </button>
        <button
          type="button"
          class="button plain"
          disabled={isLive()}
          onClick={() => patch({ order: order() === "desc" ? "asc" : null, sel: null })}
        >
          {order() === "desc" ? "Newest first" : "Oldest first"}
        </button>
        <button type="button" class="button plain" title="Search again (r)" onClick={reload}>
          <Icon name="refresh" />
          <span class="sr">Search again</span>
        </button>
      </div>
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
