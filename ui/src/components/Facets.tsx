import { createSignal, For, Show } from "solid-js";
import type { Facets as Data, FacetValue } from "../api/types.ts";
import { compact, integer } from "../lib/format.ts";
import { revealed } from "../lib/hostile.ts";
import { filter, state } from "../lib/search-text.ts";
import { Icon } from "./Icon.tsx";
import { Text } from "./Text.tsx";

/** The fields in the panel, in order, with their titles. */
export const FACETS: [string, string][] = [
  ["event", "Event"],
  ["outcome", "Outcome"],
  ["user", "User"],
  ["db", "Database"],
  ["sql_command", "Kind of statement"],
  ["errno", "Error"],
  ["table", "Table"],
  ["host", "Host"],
  ["program", "Program"],
  ["server", "Server"],
];

const SHOWN = 5;

interface Props {
  data: Data | undefined;
  isStale: boolean;
  q: string;
  /** Adds or removes a filter. */
  toggle: (term: string, isExcluded: boolean) => void;
}

/** Values of the fields in the records that were found, with counts. */
export function Facets(props: Props) {
  return (
    <div class="facets" classList={{ stale: props.isStale }}>
      <For each={FACETS}>
        {([field, title]) => (
          <Show when={(props.data?.fields[field] ?? []).length > 0}>
            <Facet
              field={field}
              title={title}
              values={props.data?.fields[field] ?? []}
              total={props.data?.total ?? 0}
              q={props.q}
              toggle={props.toggle}
            />
          </Show>
        )}
      </For>
    </div>
  );
}

interface FacetProps {
  field: string;
  title: string;
  values: FacetValue[];
  total: number;
  q: string;
  toggle: (term: string, isExcluded: boolean) => void;
}

function Facet(props: FacetProps) {
  const [showsAll, setShowsAll] = createSignal(false);
  const named = () => props.values.filter((one) => one.value !== null && one.value !== "");
  const shown = () => (showsAll() ? named() : named().slice(0, SHOWN));
  return (
    <Show when={named().length > 0}>
      <section class="facet" aria-label={props.title}>
        <h2>{props.title}</h2>
        <ul>
          <For each={shown()}>
            {(one) => (
              <Value
                one={one}
                total={props.total}
                term={filter(props.field, one.value ?? "")}
                q={props.q}
                toggle={props.toggle}
              />
            )}
          </For>
        </ul>
        <Show when={named().length > SHOWN}>
          <button type="button" class="facet-more" onClick={() => setShowsAll(!showsAll())}>
            {showsAll() ? "Show fewer" : `${named().length - SHOWN} more`}
          </button>
        </Show>
      </section>
    </Show>
  );
}

interface ValueProps {
  one: FacetValue;
  total: number;
  term: string;
  q: string;
  toggle: (term: string, isExcluded: boolean) => void;
}

function Value(props: ValueProps) {
  const now = () => state(props.q, props.term);
  const part = () => (props.total > 0 ? Math.min(1, props.one.count / props.total) : 0);
  const name = () => revealed(String(props.one.value));
  return (
    <li class="facet-value" classList={{ on: now() === true, off: now() === "excluded" }}>
      <button
        type="button"
        class="facet-pick"
        aria-pressed={now() === true}
        title={`${name()}: ${integer(props.one.count)} records`}
        onClick={(event) => props.toggle(props.term, event.altKey)}
      >
        <span class="facet-bar" style={{ width: `${part() * 100}%` }} />
        <span class="cut">
          <Text value={String(props.one.value)} />
        </span>
        <span class="num second">{compact(props.one.count)}</span>
      </button>
      <button
        type="button"
        class="facet-not"
        aria-pressed={now() === "excluded"}
        aria-label={`Exclude ${name()}`}
        title="Exclude"
        onClick={() => props.toggle(props.term, true)}
      >
        <Icon name="minus" size={12} />
      </button>
    </li>
  );
}
