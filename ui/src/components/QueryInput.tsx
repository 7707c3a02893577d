import { createEffect, createSignal, For, on, Show } from "solid-js";
import { ApiError } from "../api/client.ts";
import { SEARCH_FIELDS } from "../lib/fields.ts";
import { Icon } from "./Icon.tsx";

interface Props {
  value: string;
  error: Error | undefined;
  onSearch: (text: string) => void;
}

/** The query before, at and after the place of an error, if the hub names it: in characters. */
function place(error: Error | undefined, text: string): [string, string, string] | null {
  if (!(error instanceof ApiError)) {
    return null;
  }
  const { position, length } = error.fields;
  if (typeof position !== "number") {
    return null;
  }
  const characters = Array.from(text);
  const end = position + Math.max(1, typeof length === "number" ? length : 1);
  const part = (from: number, to?: number) => characters.slice(from, to).join("");
  return [part(0, position), part(position, end), part(end)];
}

/** What is wrong, and what could be there instead. */
function words(error: ApiError): string {
  const { expected } = error.fields;
  return typeof expected === "string" && expected !== ""
    ? `${error.message}; expected ${expected}`
    : error.message;
}

/** The input of the search language: suggests names of fields, shows errors at their place. */
export function QueryInput(props: Props) {
  let input: HTMLInputElement | undefined;
  const [text, setText] = createSignal(props.value);
  const [at, setAt] = createSignal(-1);
  const [isAsking, setAsking] = createSignal(false);
  createEffect(on(() => props.value, setText, { defer: true }));

  const word = () => {
    text();
    const caret = input?.selectionStart ?? text().length;
    return /(?:^|[\s(-])([a-z_]{1,24})$/.exec(text().slice(0, caret))?.[1] ?? "";
  };
  const found = () => {
    const begin = word();
    return begin === "" || !isAsking()
      ? []
      : SEARCH_FIELDS.filter((one) => one.name.startsWith(begin) && one.name !== begin).slice(0, 8);
  };
  const accept = (name: string) => {
    const caret = input?.selectionStart ?? text().length;
    const begin = caret - word().length;
    const next = `${text().slice(0, begin)}${name}:${text().slice(caret)}`;
    setText(next);
    setAsking(false);
    setAt(-1);
    queueMicrotask(() => {
      input?.focus();
      input?.setSelectionRange(begin + name.length + 1, begin + name.length + 1);
    });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const list = found();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (list.length > 0) {
        const step = event.key === "ArrowDown" ? 1 : -1;
        setAt((now) => (now + step + list.length + 1) % (list.length + 1));
        event.preventDefault();
      } else if (event.key === "ArrowDown") {
        document.querySelector<HTMLElement>(".list")?.focus();
        event.preventDefault();
      }
      return;
    }
    const chosen = list[at()] ?? (event.key === "Tab" ? list[0] : undefined);
    if (chosen && (event.key === "Enter" || event.key === "Tab")) {
      accept(chosen.name);
      event.preventDefault();
    } else if (event.key === "Escape") {
      if (list.length > 0) {
        setAsking(false);
      } else {
        input?.blur();
      }
      event.preventDefault();
    }
  };
  const submit = (event: Event) => {
    event.preventDefault();
    setAsking(false);
    props.onSearch(text().trim());
  };
  const wrong = () => place(props.error, props.value);
  return (
    <search class="query">
      <form onSubmit={submit}>
        <div class="query-box">
          <Icon name="search" />
          <input
            ref={input}
            id="search-input"
            class="input mono"
            type="text"
            role="combobox"
            aria-label="Search"
            aria-expanded={found().length > 0}
            aria-controls="search-fields"
            aria-invalid={props.error instanceof ApiError && props.error.status === 400}
            aria-describedby="search-error"
            placeholder='user:app errno:>0 time:>2s table:shop.orders "text"'
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            value={text()}
            onInput={(event) => {
              setText(event.currentTarget.value);
              setAsking(true);
              setAt(-1);
            }}
            onBlur={() => setAsking(false)}
            onKeyDown={onKeyDown}
          />
          <Show when={text() === ""} fallback={<Clear clear={() => props.onSearch("")} />}>
            <span class="kbd">/</span>
          </Show>
          <Show when={found().length > 0}>
            <Suggestions list={found()} at={at()} accept={accept} />
          </Show>
        </div>
        <Show when={props.error instanceof ApiError && props.error.status === 400 && props.error}>
          {(problem) => (
            <div class="query-error" id="search-error" role="alert">
              <Show when={wrong()}>
                {(range) => (
                  <code>
                    {range()[0]}
                    <mark>{range()[1] || " "}</mark>
                    {range()[2]}
                  </code>
                )}
              </Show>
              <span>{words(problem())}</span>
            </div>
          )}
        </Show>
      </form>
    </search>
  );
}

function Clear(props: { clear: () => void }) {
  return (
    <button
      type="button"
      class="button plain icon query-clear"
      aria-label="Clear the search"
      onClick={() => props.clear()}
    >
      <Icon name="close" size={14} />
    </button>
  );
}

interface SuggestionsProps {
  list: typeof SEARCH_FIELDS;
  at: number;
  accept: (name: string) => void;
}

function Suggestions(props: SuggestionsProps) {
  return (
    <div class="popover left suggestions" id="search-fields" role="listbox">
      <For each={props.list}>
        {(field, index) => (
          <button
            type="button"
            class="item"
            classList={{ at: props.at === index() }}
            role="option"
            aria-selected={props.at === index()}
            tabindex="-1"
            onPointerDown={(event) => {
              event.preventDefault();
              props.accept(field.name);
            }}
          >
            <span class="mono">{field.name}:</span>
            <span class="muted small cut">{field.description}</span>
          </button>
        )}
      </For>
    </div>
  );
}
