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
function place(error: ApiError, text: string): [string, string, string] | null {
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

/** The text while it is typed, and the names of fields that fit the word at the caret. */
function createTyping(value: () => string, input: () => HTMLInputElement | undefined) {
  const [text, setText] = createSignal(value());
  const [at, setAt] = createSignal(-1);
  const [isAsking, setAsking] = createSignal(false);
  createEffect(on(value, setText, { defer: true }));
  const caret = () => input()?.selectionStart ?? text().length;
  const word = () => /(?:^|[\s(-])([a-z_]{1,24})$/.exec(text().slice(0, caret()))?.[1] ?? "";
  const found = () => {
    const begin = text() === "" || !isAsking() ? "" : word();
    return begin === ""
      ? []
      : SEARCH_FIELDS.filter((one) => one.name.startsWith(begin) && one.name !== begin).slice(0, 8);
  };
  const type = (next: string) => {
    setText(next);
    setAsking(true);
    setAt(-1);
  };
  const accept = (name: string) => {
    const begin = caret() - word().length;
    const end = begin + name.length + 1;
    setText(`${text().slice(0, begin)}${name}:${text().slice(caret())}`);
    setAsking(false);
    queueMicrotask(() => {
      input()?.focus();
      input()?.setSelectionRange(end, end);
    });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const list = found();
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const chosen = list[at()] ?? (event.key === "Tab" ? list[0] : undefined);
    if (step !== 0 && list.length > 0) {
      setAt((now) => (now + step + list.length + 1) % (list.length + 1));
    } else if (step > 0) {
      document.querySelector<HTMLElement>(".list")?.focus();
    } else if (chosen && (event.key === "Enter" || event.key === "Tab")) {
      accept(chosen.name);
    } else if (event.key === "Escape" && list.length > 0) {
      setAsking(false);
    } else if (event.key === "Escape") {
      input()?.blur();
    } else {
      return;
    }
    event.preventDefault();
  };
  return { text, type, at, found, accept, onKeyDown, end: () => setAsking(false) };
}

/** The input of the search language: suggests names of fields, shows errors at their place. */
export function QueryInput(props: Props) {
  let input: HTMLInputElement | undefined;
  const typing = createTyping(
    () => props.value,
    () => input,
  );
  const rejected = () =>
    props.error instanceof ApiError && props.error.status === 400 ? props.error : undefined;
  const submit = (event: Event) => {
    event.preventDefault();
    typing.end();
    props.onSearch(typing.text().trim());
  };
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
            aria-expanded={typing.found().length > 0}
            aria-controls="search-fields"
            aria-invalid={rejected() !== undefined}
            aria-describedby="search-error"
            placeholder='user:app errno:>0 time:>2s table:shop.orders "text"'
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            value={typing.text()}
            onInput={(event) => typing.type(event.currentTarget.value)}
            onBlur={typing.end}
            onKeyDown={typing.onKeyDown}
          />
          <Show when={typing.text() === ""} fallback={<Clear clear={() => props.onSearch("")} />}>
            <span class="kbd">/</span>
          </Show>
          <Show when={typing.found().length > 0}>
            <Suggestions list={typing.found()} at={typing.at()} accept={typing.accept} />
          </Show>
        </div>
        <Show when={rejected()}>
          {(problem) => <QueryError error={problem()} text={props.value} />}
        </Show>
      </form>
    </search>
  );
}

/** What is wrong with a search, and where. */
function QueryError(props: { error: ApiError; text: string }) {
  const parts = () => place(props.error, props.text);
  return (
    <div class="query-error" id="search-error" role="alert">
      <Show when={parts()}>
        {(all) => (
          <code>
            {all()[0]}
            <mark>{all()[1] || " "}</mark>
            {all()[2]}
          </code>
        )}
      </Show>
      <span>{words(props.error)}</span>
    </div>
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
