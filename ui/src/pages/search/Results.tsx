import { Match, Show, Switch } from "solid-js";
import type { LogRecord } from "../../api/types.ts";
import { RecordHead, RecordRow } from "../../components/RecordRow.tsx";
import { Empty } from "../../components/States.tsx";
import { VirtualList } from "../../components/VirtualList.tsx";
import { recordHref } from "../../lib/links.ts";
import { rowHeight } from "../../lib/narrow.ts";
import type { RecordPages } from "../../lib/records.ts";
import { go, patch, place } from "../../lib/router.ts";
import { setRange, zoomOut } from "../../lib/scope.ts";

const selectionOf = (record: LogRecord) => `${record.server}/${record.seq}`;

interface Props {
  pages: RecordPages;
  hasServer: boolean;
  hasDay: boolean;
  isLive: boolean;
  /** The query is wrong: there is nothing to show. */
  failed: boolean;
}

/** The records that were found. */
export function Results(props: Props) {
  const records = () => (props.failed ? [] : props.pages.records());
  const selected = () => {
    const chosen = place().params.get("sel");
    return chosen === null ? -1 : records().findIndex((one) => selectionOf(one) === chosen);
  };
  const select = (index: number) => {
    const record = records()[index];
    if (record) {
      patch({ sel: selectionOf(record) }, { replace: place().params.has("sel") });
    }
  };
  const open = (index: number) => {
    const record = records()[index];
    if (record) {
      go(recordHref(record));
    }
  };
  const isEmpty = () => records().length === 0 && !props.pages.loading() && !props.pages.error();
  return (
    <section
      class="panel results"
      classList={{ stale: props.pages.stale() && records().length > 0 && !props.failed }}
      aria-label="Records"
    >
      <RecordHead hasServer={props.hasServer} hasDay={props.hasDay} />
      <Show
        when={!isEmpty() && !props.failed}
        fallback={<Nothing isLive={props.isLive} failed={props.failed} />}
      >
        <VirtualList
          label="Records"
          items={records()}
          rowHeight={rowHeight()}
          selected={selected()}
          onSelect={select}
          onOpen={open}
          onEnd={props.pages.more}
          footer={<Footer pages={props.pages} />}
          row={(record, index) => (
            <RecordRow
              record={record}
              index={index}
              isSelected={selected() === index()}
              hasServer={props.hasServer}
              hasDay={props.hasDay}
              onSelect={select}
            />
          )}
        />
      </Show>
    </section>
  );
}

function Footer(props: { pages: RecordPages }) {
  return (
    <div class="list-foot muted">
      <Show when={props.pages.loading()}>Loading…</Show>
      <Show when={props.pages.isComplete() && !props.pages.loading() && !props.pages.error()}>
        End of the time range
      </Show>
    </div>
  );
}

function Nothing(props: { isLive: boolean; failed: boolean }) {
  return (
    <Switch>
      <Match when={props.failed}>
        <Empty title="The search cannot be read">Correct it to see records.</Empty>
      </Match>
      <Match when={props.isLive}>
        <Empty title="Waiting for records">New records appear here as they arrive.</Empty>
      </Match>
      <Match when={true}>
        <Empty title="Nothing found">
          No record in this time range matches.
          <div class="actions">
            <button type="button" class="button" onClick={zoomOut}>
              Zoom out
            </button>
            <button type="button" class="button" onClick={() => setRange("-24h", "now")}>
              Last 24 hours
            </button>
            <Show when={place().params.get("q")}>
              <button type="button" class="button" onClick={() => patch({ q: null })}>
                Clear the search
              </button>
            </Show>
          </div>
        </Empty>
      </Match>
    </Switch>
  );
}
