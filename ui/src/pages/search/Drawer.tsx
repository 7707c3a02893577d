import { Show } from "solid-js";
import { fetchRecord } from "../../api/queries.ts";
import { Icon } from "../../components/Icon.tsx";
import { RecordDetail } from "../../components/RecordDetail.tsx";
import { ErrorBox } from "../../components/States.tsx";
import { recordHref } from "../../lib/links.ts";
import { createQuery } from "../../lib/resource.ts";
import { patch } from "../../lib/router.ts";

/** One record beside the list. */
export function Drawer(props: { server: string; seq: string }) {
  const query = createQuery(
    () => [props.server, props.seq] as const,
    ([server, seq], signal) => fetchRecord(server, seq, null, signal),
  );
  const close = () => patch({ sel: null });
  return (
    <aside class="panel drawer" aria-label="Record">
      <div class="panel-head">
        <h2 class="num">Record {props.seq}</h2>
        <div class="end">
          <Show when={query.data()}>
            {(answer) => (
              <a class="button plain" href={recordHref(answer().record)}>
                Open
                <Icon name="right" size={14} />
              </a>
            )}
          </Show>
          <button
            type="button"
            class="button plain icon"
            aria-label="Close"
            title="Close (Esc)"
            onClick={close}
          >
            <Icon name="close" />
          </button>
        </div>
      </div>
      <div class="drawer-body" classList={{ stale: query.stale() && query.data() !== undefined }}>
        <Show when={query.error()}>
          {(error) => <ErrorBox error={error()} retry={query.reload} />}
        </Show>
        <Show when={query.data()}>{(answer) => <RecordDetail answer={answer()} isNarrow />}</Show>
      </div>
    </aside>
  );
}
