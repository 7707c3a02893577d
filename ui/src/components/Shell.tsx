import { createSignal, For, type JSX, Show } from "solid-js";
import { useShortcuts } from "../lib/keyboard.ts";
import { unanswered } from "../lib/resource.ts";
import { go, href, place } from "../lib/router.ts";
import { isPaused, setPaused } from "../lib/scope.ts";
import { createWatch, WatchContext } from "../lib/servers.ts";
import { maySearch } from "../lib/session.ts";
import { AccountMenu } from "./AccountMenu.tsx";
import { Icon, type IconName, Logo } from "./Icon.tsx";
import { ShortcutList } from "./ShortcutList.tsx";
import { Toast } from "./Toast.tsx";

interface Entry {
  path: string;
  label: string;
  icon: IconName;
  key: string;
  /** Pages that lie under it. */
  under: string[];
  /** Shows records, which an account that only administrates may not see. */
  isSearch?: boolean;
}

const ENTRIES: Entry[] = [
  { path: "/", label: "Overview", icon: "overview", key: "o", under: [] },
  {
    path: "/search",
    label: "Search",
    icon: "search",
    key: "s",
    under: ["/records", "/connections"],
    isSearch: true,
  },
  {
    path: "/statements",
    label: "Statements",
    icon: "statements",
    key: "t",
    under: ["/statements"],
    isSearch: true,
  },
  { path: "/servers", label: "Servers", icon: "servers", key: "v", under: ["/servers"] },
  { path: "/alerts", label: "Alerts", icon: "alerts", key: "a", under: ["/alerts"] },
];

const entries = () => ENTRIES.filter((entry) => maySearch() || !entry.isSearch);

const isHere = (entry: Entry) =>
  place().path === entry.path || entry.under.some((path) => place().path.startsWith(`${path}/`));

/** Everything around a page: navigation, account, shortcuts. */
export function Shell(props: { children: JSX.Element }) {
  const watch = createWatch();
  const [showsKeys, setShowsKeys] = createSignal(false);
  useShortcuts([
    ...entries().map((entry) => ({
      keys: `g ${entry.key}`,
      label: entry.label,
      group: "Go to",
      run: () => go(href(entry.path)),
    })),
    { keys: "/", label: "Search", group: "General", run: focusSearch },
    { keys: "?", label: "Show shortcuts", group: "General", run: () => setShowsKeys(true) },
    { keys: "p", label: "Pause refreshing", group: "General", run: () => setPaused(!isPaused()) },
  ]);
  const openAlerts = () => watch.alerts.data()?.length ?? 0;
  return (
    <WatchContext.Provider value={watch}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Show when={unanswered() > 0}>
        <div class="waiting" role="progressbar" aria-label="Loading" />
      </Show>
      <div class="shell">
        <aside class="side">
          <a class="brand" href={href("/")}>
            <Logo />
            Tachograph
          </a>
          <Links class="nav" openAlerts={openAlerts()} />
          <div class="side-foot">
            <button type="button" onClick={() => setShowsKeys(true)}>
              <Icon name="keyboard" />
              Shortcuts
              <span class="spacer" />
              <span class="kbd">?</span>
            </button>
            <AccountMenu isUp />
          </div>
        </aside>
        {props.children}
        <Links class="tabs-bottom" openAlerts={openAlerts()} />
      </div>
      <Show when={showsKeys()}>
        <ShortcutList close={() => setShowsKeys(false)} />
      </Show>
      <Toast />
    </WatchContext.Provider>
  );
}

function focusSearch(): void {
  const input = document.querySelector<HTMLInputElement>("#search-input");
  if (input) {
    input.focus();
    input.select();
  } else {
    go(href("/search"));
  }
}

function Links(props: { class: string; openAlerts: number }) {
  return (
    <nav class={props.class} aria-label="Pages">
      <For each={entries()}>
        {(entry) => (
          <a
            href={href(entry.path)}
            aria-current={isHere(entry) ? "page" : undefined}
            title={`g ${entry.key}`}
          >
            <Icon name={entry.icon} />
            {entry.label}
            <Show when={entry.path === "/alerts" && props.openAlerts > 0}>
              <span class="count">
                {props.openAlerts}
                <span class="sr"> open</span>
              </span>
            </Show>
          </a>
        )}
      </For>
    </nav>
  );
}
