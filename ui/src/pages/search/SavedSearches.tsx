import { createSignal, For, Show } from "solid-js";
import { Icon } from "../../components/Icon.tsx";
import { Menu } from "../../components/Menu.tsx";
import { toast } from "../../components/Toast.tsx";
import { go } from "../../lib/router.ts";
import { load, save } from "../../lib/storage.ts";

interface Saved {
  name: string;
  /** Everything after the `?`: query, time range, servers, order. */
  search: string;
}

const KEY = "tacho.searches";

const isSaved = (value: unknown): value is Saved[] =>
  Array.isArray(value) &&
  value.every((one) => typeof one?.name === "string" && typeof one?.search === "string");

const [all, setAll] = createSignal(load<Saved[]>(KEY, [], isSaved));

function store(next: Saved[]): void {
  save(KEY, next);
  setAll(next);
}

/** Searches that are kept in this browser. */
export function SavedSearches(props: { q: string }) {
  return (
    <Menu
      label="Saved searches"
      buttonClass="button"
      button={
        <>
          <Icon name="star" />
          <span class="wide-only-inline">Saved</span>
        </>
      }
    >
      {(close) => <Content q={props.q} close={close} />}
    </Menu>
  );
}

function Content(props: { q: string; close: () => void }) {
  const [name, setName] = createSignal(props.q.slice(0, 60));
  const keep = (event: Event) => {
    event.preventDefault();
    const params = new URLSearchParams(location.search);
    params.delete("sel");
    const fresh = { name: name().trim(), search: params.toString() };
    store([...all().filter((one) => one.name !== fresh.name), fresh]);
    toast("Search saved in this browser");
    props.close();
  };
  return (
    <>
      <form class="save-form" onSubmit={keep}>
        <input
          class="input"
          aria-label="Name of this search"
          placeholder="Name of this search"
          value={name()}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <button type="submit" class="button primary" disabled={name().trim() === ""}>
          Save
        </button>
      </form>
      <div class="menu-line" />
      <For each={all()} fallback={<div class="menu-title">No saved searches</div>}>
        {(one) => (
          <div class="saved">
            <button
              type="button"
              class="item"
              onClick={() => {
                props.close();
                go(`/search?${one.search}`);
              }}
            >
              <span class="cut">{one.name}</span>
            </button>
            <button
              type="button"
              class="button plain icon"
              aria-label={`Delete ${one.name}`}
              title="Delete"
              onClick={() => store(all().filter((other) => other !== one))}
            >
              <Icon name="close" size={14} />
            </button>
          </div>
        )}
      </For>
      <Show when={all().length > 0}>
        <div class="menu-title">Kept in this browser only</div>
      </Show>
    </>
  );
}
