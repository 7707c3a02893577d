import { createSignal, type JSX, lazy, Match, onMount, Show, Suspense, Switch } from "solid-js";
import { Logo } from "./components/Icon.tsx";
import { Page } from "./components/Page.tsx";
import { Shell } from "./components/Shell.tsx";
import { Empty } from "./components/States.tsx";
import { href, match, place } from "./lib/router.ts";
import { me, resume } from "./lib/session.ts";
import { SignIn } from "./pages/SignIn.tsx";

const Overview = lazy(() => import("./pages/Overview.tsx"));
const Servers = lazy(() => import("./pages/Servers.tsx"));
const Statements = lazy(() => import("./pages/Statements.tsx"));
const Digest = lazy(() => import("./pages/Digest.tsx"));
const Search = lazy(() => import("./pages/Search.tsx"));
const RecordPage = lazy(() => import("./pages/RecordPage.tsx"));
const Connection = lazy(() => import("./pages/Connection.tsx"));
const Alerts = lazy(() => import("./pages/Alerts.tsx"));

const RETRY_MS = 2000;

// The first page's code is on its way while the hub is asked for the account; that of the other
// pages follows when there is nothing else to do.
const FIRST: Record<string, { preload: () => Promise<unknown> }> = {
  "/": Overview,
  "/search": Search,
  "/statements": Statements,
};
void FIRST[location.pathname]?.preload();
const whenIdle = window.requestIdleCallback ?? ((run: () => void) => setTimeout(run, 2000));
whenIdle(() => {
  for (const page of [
    Overview,
    Search,
    Statements,
    Servers,
    RecordPage,
    Digest,
    Connection,
    Alerts,
  ]) {
    void page.preload();
  }
});

/** Signs in or shows the page that the address names. */
export function App() {
  const [isWaiting, setWaiting] = createSignal(false);
  const begin = async () => {
    try {
      await resume();
      setWaiting(false);
    } catch {
      setWaiting(true);
      setTimeout(() => void begin(), RETRY_MS);
    }
  };
  onMount(() => {
    // A sign-in link is used even if a session exists: it may be of another account.
    if (place().path === "/sign-in" && location.hash.length > 1) {
      return;
    }
    void begin();
  });
  const isSigningIn = () => me() === null || place().path === "/sign-in";
  return (
    <Switch>
      <Match when={isSigningIn()}>
        <SignIn />
      </Match>
      <Match when={me()}>
        <Shell>
          <Suspense fallback={<main class="main" id="main" />}>
            <Route />
          </Suspense>
        </Shell>
      </Match>
      <Match when={true}>
        <div class="sign-in">
          <Show when={isWaiting()}>
            <div class="empty" role="status">
              <Logo size={32} />
              <strong>The hub does not answer</strong>
              Trying again every two seconds.
            </div>
          </Show>
        </div>
      </Match>
    </Switch>
  );
}

function Route(): JSX.Element {
  const path = () => place().path;
  const digest = () => match(path(), "/statements", 1);
  const record = () => match(path(), "/records", 2);
  const connection = () => match(path(), "/connections", 3);
  return (
    <Switch fallback={<NotFound />}>
      <Match when={path() === "/"}>
        <Overview />
      </Match>
      <Match when={path() === "/servers"}>
        <Servers />
      </Match>
      <Match when={path() === "/statements"}>
        <Statements />
      </Match>
      <Match when={path() === "/search"}>
        <Search />
      </Match>
      <Match when={path() === "/alerts"}>
        <Alerts />
      </Match>
      <Match when={digest()}>{(parts) => <Digest digest={parts()[0] ?? ""} />}</Match>
      <Match when={record()}>
        {(parts) => <RecordPage server={parts()[0] ?? ""} seq={parts()[1] ?? ""} />}
      </Match>
      <Match when={connection()}>
        {(parts) => (
          <Connection server={parts()[0] ?? ""} run={parts()[1] ?? ""} conn={parts()[2] ?? ""} />
        )}
      </Match>
    </Switch>
  );
}

function NotFound() {
  return (
    <Page title="Not found" isUnscoped>
      <Empty title="No page has this address">
        <a class="link" href={href("/")}>
          Go to the overview
        </a>
      </Empty>
    </Page>
  );
}
